import { type BenchResults, batchingPays, type GrowthResult, type ScenarioResult } from '../measure/benchResults.ts';
import type { HopFigures } from '../measure/hops.ts';
import { microseconds, type Target, table, targetTable } from './markdownTable.ts';

/** The figures as Markdown tables. */
export function renderMarkdown(results: BenchResults): string {
  const { machine, scenarios, gains, growth, loneMessage, hops } = results;
  const sections = [
    `${machine.cpu}, ${machine.cores} cores, ${mebibytes(machine.memoryBytes)}, ${machine.platform}, ` +
      `Node ${machine.node}, ONNX Runtime ${machine.onnxruntime}. Medians of interleaved rounds.`,
    `## Scenarios\n\n${scenarioTable(scenarios)}`,
    `## Calls of a fresh process, the first and the second\n\n${table(
      ['scenario', 'encoding', 'messages', 'batchscore', 'rows alone', 'bare', 'fastest partition'],
      gains.map((row) => [
        row.scenario,
        row.encoding,
        count(row.messages),
        ...[row.batchscoreMs, row.rowsAloneMs, row.bareMs].map((both) => both.map(milliseconds).join(', ')),
        `${milliseconds(row.partitionMs)} in ${count(row.partitionRuns)} runs`,
      ]),
    )}`,
    `## A lone message\n\n${table(
      ['scenario', 'encoding', 'bare', 'batchscore', 'over', 'over', 'bare after a pause', 'batchscore after a pause'],
      loneMessage.map((row) => [
        row.scenario,
        row.encoding,
        microseconds(row.bareMicroseconds),
        microseconds(row.batchscoreMicroseconds),
        microseconds(row.overMicroseconds),
        `${row.overPercent.toFixed(0)} %`,
        microseconds(row.bareAfterPauseMicroseconds),
        microseconds(row.afterPauseMicroseconds),
      ]),
    )}`,
    `## Growth\n\n${table(
      ['scenario', 'encoding', 'messages', 'per message', "peak RSS above the event's", 'event'],
      growth.map((row) => [
        row.scenario,
        row.encoding,
        count(row.messages),
        microseconds(row.microsecondsPerMessage),
        mebibytes(row.peakRssBytes),
        mebibytes(row.eventRssBytes),
      ]),
    )}`,
    `## Hops\n\n${hopTable(hops)}`,
    `## Must reach\n\n${targetTable(assessTargets(results))}`,
  ];
  return `${sections.join('\n\n')}\n`;
}

function scenarioTable(scenarios: readonly ScenarioResult[]): string {
  return table(
    [
      'scenario',
      'encoding',
      'messages',
      'best rows',
      'limit',
      'batchscore',
      'efficiency',
      'over one by one',
      'over first come',
      'padding',
      'least padding',
      "peak RSS above the event's",
      'verdict',
    ],
    scenarios.map((row) => [
      row.scenario,
      row.encoding,
      count(row.messages),
      count(row.bestRows),
      milliseconds(row.limitMs),
      milliseconds(row.batchscoreMs),
      row.efficiency.toFixed(2),
      times(row.speedupOverOneByOne),
      times(row.speedupOverFirstCome),
      `${(row.paddingShare * 100).toFixed(2)} %`,
      `${(row.optimalPaddingShare * 100).toFixed(2)} %`,
      mebibytes(row.peakRssBytes),
      verdictOn(row),
    ]),
  );
}

function verdictOn(row: ScenarioResult): string {
  const gain = `the model does ${times(row.batchingGain)} the rows per second of single rows at its best size`;
  return batchingPays(row) ? gain : `batching does not pay: ${gain}`;
}

function count(value: number): string {
  return value.toLocaleString('en-US');
}

function milliseconds(value: number): string {
  return `${value.toFixed(value < 100 ? 1 : 0)} ms`;
}

function mebibytes(bytes: number): string {
  return `${count(Math.round(bytes / 2 ** 20))} MiB`;
}

function times(value: number): string {
  return `${value.toFixed(2)} ×`;
}

const MIN_EFFICIENCY = 0.9;
const MAX_PADDING_TIMES = 1.05;
const MIN_SPEEDUP_OVER_FIRST_COME = 2.5;
const FLAT_WITHIN = 0.15;
const MAX_MESSAGES = 100_000;
const MAX_OVER_MICROSECONDS = 300;
const MIN_OF_PARTITION = 0.95;
const MIN_OF_ROWS_ALONE = 0.98;

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
      target: `${scenario}, ${encoding}: efficiency at least ${MIN_EFFICIENCY}`,
      figure: efficiency.toFixed(2),
      reached: efficiency >= MIN_EFFICIENCY,
    }));
}

function paddings({ scenarios }: BenchResults): Target[] {
  return scenarios
    .filter(({ scenario }) => scenario === 'transformer')
    .map(({ scenario, encoding, paddingShare, optimalPaddingShare }) => ({
      target: `${scenario}, ${encoding}: padding share at most ${MAX_PADDING_TIMES} × the least there is`,
      figure: `${percent(paddingShare)}, least ${percent(optimalPaddingShare)}`,
      reached: paddingShare <= optimalPaddingShare * MAX_PADDING_TIMES,
    }));
}

function speedups({ scenarios }: BenchResults): Target[] {
  return scenarios
    .filter(({ scenario }) => scenario === 'transformer')
    .map(({ scenario, encoding, speedupOverFirstCome }) => ({
      target: `${scenario}, ${encoding}: at least ${MIN_SPEEDUP_OVER_FIRST_COME} × first come, first served`,
      figure: `${speedupOverFirstCome.toFixed(2)} ×`,
      reached: speedupOverFirstCome >= MIN_SPEEDUP_OVER_FIRST_COME,
    }));
}

function growths({ growth }: BenchResults): Target[] {
  const series = Map.groupBy(growth, ({ scenario, encoding }) => `${scenario}, ${encoding}`);
  return [...series]
    .filter(([, points]) => points.at(-1)?.messages === MAX_MESSAGES)
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
      target: `${scenario}, ${encoding}: the second call at least ${MIN_OF_PARTITION} of the fastest partition`,
      figure: `${(partitionMs / secondMs).toFixed(2)}, the first ${(partitionMs / firstMs).toFixed(2)}`,
      reached: partitionMs >= MIN_OF_PARTITION * secondMs,
    }));
}

/** Against the handler and against `session.run`, in both calls. */
function rowsAlone({ gains }: BenchResults): Target[] {
  return gains.map(({ scenario, encoding, batchscoreMs, rowsAloneMs, bareMs }) => {
    const ratios = [rowsAloneMs, bareMs].flatMap((others) =>
      others.map((ms, call) => ms / (batchscoreMs[call] as number)),
    );
    return {
      target: `${scenario}, ${encoding}: at least ${MIN_OF_ROWS_ALONE} of rows alone, in handler and bare, first and second call`,
      figure: ratios.map((ratio) => ratio.toFixed(2)).join(', '),
      reached: Math.min(...ratios) >= MIN_OF_ROWS_ALONE,
    };
  });
}

function loneMessages({ loneMessage }: BenchResults): Target[] {
  return loneMessage.map(({ scenario, encoding, overMicroseconds, overPercent }) => ({
    target: `${scenario}, ${encoding}: a lone message at most 0.3 ms over a bare run in a loop`,
    figure: `${(overMicroseconds / 1000).toFixed(2)} ms, ${Math.round(overPercent)} %`,
    reached: overMicroseconds <= MAX_OVER_MICROSECONDS,
  }));
}

function percent(share: number): string {
  return `${(share * 100).toFixed(2)} %`;
}

const MAX_SINGLE_MICROSECONDS = 75;
const MAX_PACKED_RESULTS_MICROSECONDS = 20;
const MAX_PACKED_BOTH_MICROSECONDS = { json: 8, binary: 5 };
const MAX_SHARE_OF_DOLLARS = 0.1;

/** A row for each way that requests and results travel. */
function hopTable(hops: readonly HopFigures[]): string {
  return table(
    [
      'results to',
      'encoding',
      'requests in a message',
      'results in a message',
      'CPU a request',
      'wall a request',
      'calls per thousand',
      '$ a million',
      'of it SQS',
      'a lone message',
    ],
    hops.map((row) => [
      row.store,
      row.encoding,
      String(row.requestsPerMessage),
      String(row.resultsPerMessage),
      microseconds(row.cpuMicroseconds),
      microseconds(row.wallMicroseconds),
      row.callsPerThousand.toFixed(1),
      row.dollars.toFixed(4),
      row.sqsDollars.toFixed(4),
      row.loneMs === undefined ? '' : `${row.loneMs.toFixed(2)} ms`,
    ]),
  );
}

/** What hops to and from queues must cost at most. */
function assessHops(hops: readonly HopFigures[]): Target[] {
  return hops
    .filter(({ store }) => store === 'queue')
    .flatMap((row) => [...cpuTarget(row), ...dollarTarget(row, hops)]);
}

function cpuTarget({ requestsPerMessage, resultsPerMessage, encoding, cpuMicroseconds }: HopFigures): Target[] {
  const held = (way: string, max: number): Target[] => [
    {
      target: `hops, ${encoding}: ${way} at most ${max} µs CPU a request`,
      figure: microseconds(cpuMicroseconds),
      reached: cpuMicroseconds <= max,
    },
  ];
  if (requestsPerMessage === 'fill') return [];
  if (requestsPerMessage > 1) return held('packed both ways', MAX_PACKED_BOTH_MICROSECONDS[encoding]);
  return resultsPerMessage === 1
    ? held('single messages', MAX_SINGLE_MICROSECONDS)
    : held('packed results', MAX_PACKED_RESULTS_MICROSECONDS);
}

function dollarTarget({ requestsPerMessage, encoding, dollars }: HopFigures, hops: readonly HopFigures[]): Target[] {
  const single = hops.find(
    (row) =>
      row.store === 'queue' && row.encoding === encoding && row.requestsPerMessage === 1 && row.resultsPerMessage === 1,
  );
  if (requestsPerMessage !== 'fill' || single === undefined) return [];
  return [
    {
      target: `hops, ${encoding}: messages filled both ways cost at most a tenth of single ones`,
      figure: `${dollars.toFixed(4)} $ a million, single ${single.dollars.toFixed(4)} $`,
      reached: dollars <= single.dollars * MAX_SHARE_OF_DOLLARS,
    },
  ];
}
