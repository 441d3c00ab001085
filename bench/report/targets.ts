import { type BenchResults, batchingPays, type GrowthResult } from '../measure/results.ts';
import { assessHops } from './hops.ts';
import type { Target } from './target.ts';

const LEAST_EFFICIENCY = 0.9;
const MOST_PADDING_TIMES = 1.05;
const LEAST_SPEEDUP_OVER_FIRST_COME = 2.5;
const FLAT_WITHIN = 0.15;
const MOST_MESSAGES = 100_000;
const MOST_OVER_MICROSECONDS = 300;
const LEAST_OF_PARTITION = 0.95;
const LEAST_OF_ROWS_ALONE = 0.98;

/** Every target whose figure was measured. */
export function assessTargets(results: BenchResults): Target[] {
  return [
    ...efficiencies(results),
    ...paddings(results),
    ...speedups(results),
    ...growths(results),
    ...verdicts(results),
    ...partitions(results),
    ...rowsAlone(results),
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

/** The first call is told, and the second must reach it. The table has the same of the other models. */
function partitions({ gains }: BenchResults): Target[] {
  return gains
    .filter(({ scenario }) => scenario === 'encoder')
    .map(({ scenario, encoding, partitionMs, batchscoreMs: [firstMs, secondMs] }) => ({
      target: `${scenario}, ${encoding}: the second call at least ${LEAST_OF_PARTITION} of the fastest partition`,
      figure: `${(partitionMs / secondMs).toFixed(2)}, the first ${(partitionMs / firstMs).toFixed(2)}`,
      reached: partitionMs >= LEAST_OF_PARTITION * secondMs,
    }));
}

/** Against the handler and against `session.run`, in both calls. */
function rowsAlone({ gains }: BenchResults): Target[] {
  return gains.map(({ scenario, encoding, batchscoreMs, rowsAloneMs, bareMs }) => {
    const ratios = [rowsAloneMs, bareMs].flatMap((others) =>
      others.map((ms, call) => ms / (batchscoreMs[call] as number)),
    );
    return {
      target: `${scenario}, ${encoding}: at least ${LEAST_OF_ROWS_ALONE} of rows alone, in handler and bare, first and second call`,
      figure: ratios.map((ratio) => ratio.toFixed(2)).join(', '),
      reached: Math.min(...ratios) >= LEAST_OF_ROWS_ALONE,
    };
  });
}

function loneMessages({ loneMessage }: BenchResults): Target[] {
  return loneMessage.map(({ scenario, encoding, overMicroseconds, overPercent }) => ({
    target: `${scenario}, ${encoding}: a lone message at most 0.3 ms over a bare run in a loop`,
    figure: `${(overMicroseconds / 1000).toFixed(2)} ms, ${Math.round(overPercent)} %`,
    reached: overMicroseconds <= MOST_OVER_MICROSECONDS,
  }));
}

function percent(share: number): string {
  return `${(share * 100).toFixed(2)} %`;
}
