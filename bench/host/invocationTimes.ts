import type { LocalStack } from '../../cli/local/localStack.ts';
import type { InvocationMs } from '../../cli/profile/settings/simulate.ts';
import { tableCost } from '../../lambda/core/cost.ts';
import { measureHost } from './measureHost.ts';

const SIZES = [1, 10, 100];
const ROUNDS = 8;
const BETWEEN_MS = 200;
/** The first ones are slow. */
const WARM_UP = 2;

/** What an invocation takes on this machine, by its messages: medians of full batches of some sizes. */
export async function invocationTimes(stack: LocalStack, body: string): Promise<InvocationMs> {
  const runs: { rows: number; length: number; ms: number }[] = [];
  for (const size of SIZES) {
    const times = Float64Array.from({ length: ROUNDS * size }, (_, index) => BETWEEN_MS * Math.floor(index / size));
    const { invocations } = await measureHost(stack, { batchSize: size, windowSeconds: 1 }, times, body);
    const durations = invocations.slice(WARM_UP).map(({ durationMs }) => durationMs);
    runs.push({ rows: size, length: 1, ms: durations.toSorted((a, b) => a - b)[durations.length >> 1] as number });
  }
  const cost = tableCost(runs);
  return (messages) => cost(messages, 1);
}
