/**
 * Process with the environment of a deployed function. It loads the entry from its file, as Lambda does, invokes the
 * handler with a given event or with hops, and reports the durations.
 */
import type { SQSBatchResponse, SQSEvent } from 'aws-lambda';
import { createLambdaContext } from '../../cli/local/lambdaContext.ts';
import { answerParent, cpuMicroseconds } from '../harness/child.ts';
import type { HopTask, HopTurn } from '../measure/hops.ts';
import { toPackedRecords } from '../workload/messages.ts';

const ENTRY = new URL('../../lambda/handler.ts', import.meta.url);
const { handler }: { handler: (event: SQSEvent, context: object) => Promise<SQSBatchResponse> } = await import(
  ENTRY.href
);

const LONGEST_INVOCATION_MS = 60_000;
const events = new Map<string, ReturnType<typeof toPackedRecords>>();

answerParent((question: HopTask | { readonly event: SQSEvent; readonly remainingMs: number }) =>
  'event' in question
    ? invoke(question.event, question.remainingMs).catch((error: unknown) => ({ error: String(error) }))
    : hop(question),
);

function invoke(event: SQSEvent, remainingMs: number): Promise<SQSBatchResponse> {
  return handler(event, createLambdaContext(Date.now() + remainingMs));
}

async function hop({ requests, invocations, ...packing }: HopTask): Promise<HopTurn> {
  const key = JSON.stringify({ requests, ...packing });
  const Records = events.get(key) ?? toPackedRecords(requests, packing);
  events.set(key, Records);
  const [cpu, startedAt] = [cpuMicroseconds(), performance.now()];
  for (let invocation = 0; invocation < invocations; invocation++) {
    const { batchItemFailures } = await invoke({ Records }, LONGEST_INVOCATION_MS);
    if (batchItemFailures.length > 0) {
      throw new Error(`expected every record answered, got ${batchItemFailures.length} to be retried`);
    }
  }
  return { cpuMicroseconds: cpuMicroseconds() - cpu, wallMicroseconds: (performance.now() - startedAt) * 1000 };
}
