import { setTimeout as sleep } from 'node:timers/promises';
import { SendMessageBatchCommand } from '@aws-sdk/client-sqs';
import { takeResults } from '../../cli/demo/exchange.ts';
import { watchResults } from '../../cli/demo/watchResults.ts';
import type { InvocationReport } from '../../cli/local/eventSourceMapping.ts';
import type { Batching, LocalStack } from '../../cli/local/stack.ts';
import { quantile } from '../../cli/profile/settings/tally.ts';

/** What the local host did with messages. */
export interface HostFigures {
  /** Messages of an invocation, on average. */
  readonly batch: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly invocations: readonly InvocationReport[];
}

const MOST_IN_A_CALL = 10;
const LOOK_EVERY_MS = 20;
const PATIENCE_MS = 30_000;

/**
 * Sends a body at each of some times, and waits for all results.
 *
 * @param times milliseconds from the start, ascending
 * @throws Error when results are missing
 */
export async function measureHost(
  stack: LocalStack,
  batching: Batching,
  times: Float64Array,
  body: string,
): Promise<HostFigures> {
  const { requestQueueUrl, resultQueueUrl } = stack.queues;
  const invocations: InvocationReport[] = [];
  const mapping = stack.startMapping({ ...batching, onInvocation: (report) => void invocations.push(report) });
  const watch = watchResults(stack.sqs, resultQueueUrl);
  const sentAtMs = new Map<string, number>();
  const startMs = Date.now();
  const calls: Promise<void>[] = [];
  const send = async (count: number): Promise<void> => {
    const atMs = Date.now();
    const Entries = Array.from({ length: count }, (_, id) => ({ Id: String(id), MessageBody: body }));
    const reply = await stack.sqs.send(new SendMessageBatchCommand({ QueueUrl: requestQueueUrl, Entries }));
    for (const { MessageId = '' } of reply.Successful ?? []) sentAtMs.set(MessageId, atMs);
  };
  for (let next = 0; next < times.length; ) {
    const dueMs = startMs + (times[next] as number) - Date.now();
    if (dueMs > 0) await sleep(dueMs);
    let count = 1;
    while (count < MOST_IN_A_CALL && startMs + (times[next + count] ?? Number.POSITIVE_INFINITY) <= Date.now())
      count += 1;
    calls.push(send(count));
    next += count;
  }
  await Promise.all(calls);
  for (let waited = 0; watch.written().results < times.length && waited < PATIENCE_MS; waited += LOOK_EVERY_MS) {
    await sleep(LOOK_EVERY_MS);
  }
  await mapping.stop();
  watch.stop();
  const results = await takeResults(stack.sqs, resultQueueUrl);
  if (results.length !== times.length) throw new Error(`expected ${times.length} results, got ${results.length}`);
  const ages = Float64Array.from(
    results.map(({ messageId = '', writtenAtMs }) => writtenAtMs - (sentAtMs.get(messageId) ?? Number.NaN)),
  ).sort();
  // The last one had nothing more to gather.
  const whole = invocations.length > 1 ? invocations.slice(0, -1) : invocations;
  return {
    batch: whole.reduce((sum, { records }) => sum + records, 0) / whole.length,
    p50Ms: quantile(ages, 0.5),
    p99Ms: quantile(ages, 0.99),
    invocations,
  };
}
