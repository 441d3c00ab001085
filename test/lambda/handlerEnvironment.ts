/** A Lambda execution environment in small: imports the entry, and invokes it with every event that its parent sends. */
import { monitorEventLoopDelay } from 'node:perf_hooks';
import type { SQSBatchResponse, SQSEvent } from 'aws-lambda';
import { lambdaContext } from '../helpers/sqsEvents.ts';

export interface Invoked {
  readonly response: SQSBatchResponse;
  /** The most memory that the process has had resident since its start. */
  readonly peakRssBytes: number;
  /** The longest that the event loop was held during the invocation. */
  readonly heldMs: number;
}

export interface Invoking {
  readonly event: SQSEvent;
  readonly timeoutMs: number;
}

const { handler } = await import('../../lambda/handler.ts');
const delay = monitorEventLoopDelay({ resolution: 5 });

process.on('message', async ({ event, timeoutMs }: Invoking) => {
  // Reading the event from the channel is the test's own work.
  await new Promise((resolve) => setTimeout(resolve, 20));
  delay.reset();
  delay.enable();
  const response = await handler(event, lambdaContext(timeoutMs));
  delay.disable();
  const peakRssBytes = process.resourceUsage().maxRSS * 1024;
  process.send?.({ response, peakRssBytes, heldMs: delay.max / 1e6 } satisfies Invoked);
});
process.on('disconnect', () => process.exit());
process.send?.('ready');
