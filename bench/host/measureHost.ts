import { exchange, takeResults, watchResults } from '../../cli/demo/exchange.ts';
import type { InvocationReport } from '../../cli/local/localMapping.ts';
import type { Batching, LocalStack } from '../../cli/local/localStack.ts';

import { quantile } from '../../cli/profile/settings/simulate.ts';

/** What the local host did with messages. */
export interface HostFigures {
  /** Messages of an invocation, on average. */
  readonly batch: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly invocations: readonly InvocationReport[];
  /** Of a result, on average. */
  readonly resultBytes: number;
}

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
  const sent = await exchange(stack.sqs, {
    requestQueueUrl,
    bodies: Array.from(times, () => body),
    times,
    resultsSoFar: () => watch.written().results,
    onProgress: () => {},
  });
  await mapping.stop();
  watch.stop();
  const results = await takeResults(stack.sqs, resultQueueUrl);
  if (results.length !== times.length) throw new Error(`expected ${times.length} results, got ${results.length}`);
  const sentAtMs = new Map(sent.map((one) => [one.messageId, one.sentAtMs]));
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
    resultBytes: results.reduce((sum, one) => sum + Buffer.byteLength(one.body), 0) / results.length,
  };
}
