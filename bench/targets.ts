import { type BenchResults, batchingPays, type GrowthResult } from './results.ts';

/** One figure that must be reached, and whether it was. */
export interface Target {
  readonly target: string;
  readonly figure: string;
  readonly reached: boolean;
}

const LEAST_EFFICIENCY = 0.9;
const MOST_PADDING_TIMES = 1.05;
const LEAST_SPEEDUP_OVER_FIRST_COME = 2.5;
const FLAT_WITHIN = 0.15;
const MOST_OVER_PERCENT = 10;
const MOST_OVER_MICROSECONDS = 1_000;

/** Every figure that must be reached and was measured. */
export function assessTargets(results: BenchResults): Target[] {
  return [
    ...efficiencies(results),
    ...paddings(results),
    ...speedups(results),
    ...growths(results),
    ...honesties(results),
    ...loneMessages(results),
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
  return [...series].flatMap(([name, points]) => [
    ...flatness(
      `${name}: time per message flat within 15 % from 1,000 to 100,000 messages`,
      points,
      1_000,
      (point) => ({
        size: point.microsecondsPerMessage,
        text: `${point.microsecondsPerMessage.toFixed(1)} µs`,
      }),
    ),
    ...flatness(
      `${name}: peak memory above the event's flat within 15 % from 10,000 to 100,000 messages`,
      points,
      10_000,
      (point) => ({ size: point.peakRssBytes, text: `${Math.round(point.peakRssBytes / 2 ** 20)} MiB` }),
    ),
  ]);
}

function flatness(
  target: string,
  points: readonly GrowthResult[],
  fromMessages: number,
  measure: (point: GrowthResult) => { readonly size: number; readonly text: string },
): Target[] {
  const measured = points.filter(({ messages }) => messages >= fromMessages).map(measure);
  if (points.at(-1)?.messages !== 100_000) return [];
  const sizes = measured.map(({ size }) => size);
  const reached = Math.max(...sizes) <= Math.min(...sizes) * (1 + FLAT_WITHIN);
  return [{ target, figure: measured.map(({ text }) => text).join(', '), reached }];
}

function honesties({ scenarios }: BenchResults): Target[] {
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
