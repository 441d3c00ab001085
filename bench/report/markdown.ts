import { type BenchResults, batchingPays, type ScenarioResult } from '../measure/results.ts';
import { hopTable } from './hops.ts';
import { microseconds, table } from './table.ts';
import { targetTable } from './target.ts';
import { assessTargets } from './targets.ts';

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
