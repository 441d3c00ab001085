import { type BenchResults, batchingPays, type GrowthResult } from '../measure/results.ts';
import { assessHops } from './hops.ts';
import type { Target } from './target.ts';

const LEAST_EFFICIENCY = 0.9;
const MOST_PADDING_TIMES = 1.05;
const LEAST_SPEEDUP_OVER_FIRST_COME = 2.5;
const FLAT_WITHIN = 0.15;
const MOST_MESSAGES = 100_000;
const MOST_OVER_PERCENT = 10;
const MOST_OVER_MICROSECONDS = 1_000;

/** Every target whose figure was measured. */
export function assessTargets(results: BenchResults): Target[] {
  return [
    ...efficiencies(results),
    ...paddings(results),
    ...speedups(results),
    ...growths(results),
    ...verdicts(results),
    ...loneMessages(results),
    ...assessHops(results.hops),
  ];
}

function efficiencies({ scenarios }: BenchResults): Target[] {
  return scenarios
    .filter(({ scenario }) => scenario.startsWith('mlp'))
    .map(({ scenario, encoding, efficiency }) => ({
      target: `${scenario}, ${encoding}: efficiency at least ${LEAST_EFFICIENCY}`,
      figure: efficiency.toFixed(2),
      reached: efficiency >= LEAST_EFFICIENCY,
    }));
}

function paddings({ scenarios }: BenchResults): Target[] {
  return scenarios
    .filter(({ scenario }) => scenario === 'transformer')
    .map(({ scenario, encoding, paddingShare, optimalPaddingShare }) => ({
      target: `${scenario}, ${encoding}: padding share at most ${MOST_PADDING_TIMES} × the least there is`,
      figure: `${percent(paddingShare)}, least ${percent(optimalPaddingShare)}`,
      reached: paddingShare <= optimalPaddingShare * MOST_PADDING_TIMES,
    }));
}

function speedups({ scenarios }: BenchResults): Target[] {
  return scenarios
    .filter(({ scenario }) => scenario === 'transformer')
    .map(({ scenario, encoding, speedupOverFirstCome }) => ({
      target: `${scenario}, ${encoding}: at least ${LEAST_SPEEDUP_OVER_FIRST_COME} × first come, first served`,
      figure: `${speedupOverFirstCome.toFixed(2)} ×`,
      reached: speedupOverFirstCome >= LEAST_SPEEDUP_OVER_FIRST_COME,
    }));
}

function growths({ growth }: BenchResults): Target[] {
  const series = Map.groupBy(growth, ({ scenario, encoding }) => `${scenario}, ${encoding}`);
  return [...series]
    .filter(([, points]) => points.at(-1)?.messages === MOST_MESSAGES)
    .flatMap(([name, points]) => [
      flatTime(
        name,
        points.filter(({ messages }) => messages >= 1_000),
      ),
      flatMemory(
        name,
        points.filter(({ messages }) => messages >= 10_000),
      ),
    ]);
}

function flatTime(name: string, points: readonly GrowthResult[]): Target {
  const times = points.map(({ microsecondsPerMessage }) => microsecondsPerMessage);
  return {
    target: `${name}: time per message flat within 15 % from 1,000 to 100,000 messages`,
    figure: times.map((time) => `${time.toFixed(1)} µs`).join(', '),
    reached: Math.max(...times) <= Math.min(...times) * (1 + FLAT_WITHIN),
  };
}

/** Memory that shrinks is no growth: the garbage collector's own ups and downs exceed the tolerance. */
function flatMemory(name: string, points: readonly GrowthResult[]): Target {
  const peaks = points.map(({ peakRssBytes }) => peakRssBytes);
  return {
    target: `${name}: peak memory above the event's at most 15 % more at 100,000 messages than at 10,000`,
    figure: peaks.map((bytes) => `${Math.round(bytes / 2 ** 20)} MiB`).join(', '),
    reached: Math.max(...peaks) <= (peaks[0] ?? 0) * (1 + FLAT_WITHIN),
  };
}

function verdicts({ scenarios }: BenchResults): Target[] {
  return scenarios
    .filter(({ scenario }) => scenario === 'convnet')
    .map((row) => ({
      target: `${row.scenario}, ${row.encoding}: its row says that batching does not pay`,
      figure: `${row.batchingGain.toFixed(2)} × the rows per second of single rows`,
      reached: !batchingPays(row),
    }));
}

function loneMessages({ loneMessage }: BenchResults): Target[] {
  return loneMessage.map(({ scenario, encoding, overMicroseconds, overPercent }) => ({
    target: `${scenario}, ${encoding}: a lone message at most 10 % or 1 ms over a bare run`,
    figure: `${Math.round(overMicroseconds)} µs, ${Math.round(overPercent)} %`,
    reached: overPercent <= MOST_OVER_PERCENT || overMicroseconds <= MOST_OVER_MICROSECONDS,
  }));
}

function percent(share: number): string {
  return `${(share * 100).toFixed(2)} %`;
}
