/**
 * A Lambda execution environment in small: imports the entry, and invokes it with every event that its parent sends, which
 * is a process, or a thread.
 */

import { parentPort } from 'node:worker_threads';
import type { SQSBatchResponse, SQSEvent } from 'aws-lambda';
import { peakRssBytes } from '../../../cli/profile/measure/measureTasks.ts';
import { lambdaContext } from '../../helpers/sqsEvents.ts';

export interface Invoked {
  readonly response: SQSBatchResponse;
  /** The most memory that the process has had resident since its start. */
  readonly peakRssBytes: number;
  /** The most processor time that the event loop was held for in one go: it may wait for others beside that. */
  readonly heldMs: number;
}

export interface Invoking {
  readonly event: SQSEvent;
  readonly timeoutMs: number;
}

const { handler } = await import('../../../lambda/handler.ts');

(parentPort ?? process).on('message', async ({ event, timeoutMs }: Invoking) => {
  // Reading the event from the channel is the test's own work.
  await new Promise((resolve) => setTimeout(resolve, 20));
  const watch = watchEventLoop();
  const response = await handler(event, lambdaContext(timeoutMs));
  const heldMs = watch.end();
  tellParent({ response, peakRssBytes: peakRssBytes(), heldMs });
});

function tellParent(message: Invoked | 'ready'): void {
  if (parentPort === null) process.send?.(message);
  else parentPort.postMessage(message);
}

/** Processor time of this thread between turns of the event loop: how busy the machine is changes nothing. */
function watchEventLoop(): { end(): number } {
  let most = 0;
  let before = process.threadCpuUsage();
  const look = (): void => {
    const { user, system } = process.threadCpuUsage(before);
    most = Math.max(most, (user + system) / 1000);
    before = process.threadCpuUsage();
  };
  const timer = setInterval(look, 1);
  return {
    end() {
      look();
      clearInterval(timer);
      return most;
    },
  };
}

process.on('disconnect', () => process.exit());
tellParent('ready');
