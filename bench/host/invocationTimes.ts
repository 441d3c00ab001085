import type { LocalStack } from '../../cli/local/stack.ts';
import type { InvocationMs } from '../../cli/profile/settings/simulate.ts';
import { tableCost } from '../../lambda/core/plan/cost.ts';
import { measureHost } from './measureHost.ts';

const SIZES = [1, 10, 100];
const TIMES_EACH = 5;

/** What an invocation takes on this machine, by its messages: medians of some sizes, sent all at once. */
export async function invocationTimes(stack: LocalStack, body: string): Promise<InvocationMs> {
  const runs: { rows: number; length: number; ms: number }[] = [];
  for (const size of SIZES) {
    const durations: number[] = [];
    for (let round = 0; round <= TIMES_EACH; round++) {
      const batching = { batchSize: size, windowSeconds: 1 };
      const { invocations } = await measureHost(stack, batching, new Float64Array(size), body);
      // The first is slow.
      if (round > 0) durations.push(invocations.reduce((sum, { durationMs }) => sum + durationMs, 0));
    }
    runs.push({ rows: size, length: 1, ms: durations.toSorted((a, b) => a - b)[durations.length >> 1] as number });
  }
  const cost = tableCost(runs);
  return (messages) => cost(messages, 1);
}
