import { MICRO_BATCH_CLOSED } from '../closedBecause.ts';
import type { Assessment } from './assess.ts';
import type { StageTimes, Tally } from './tally.ts';

export interface DemoFigures extends Assessment, Tally {
  readonly messages: number;
  /** From the first request sent to the last result written, in batches. */
  readonly seconds: number;
  /** The same messages through the same handler at batch size 1. */
  readonly oneByOneSeconds: number;
  readonly speedup: number;
}

export interface DemoReport {
  readonly figures: DemoFigures;
  readonly batchSize: number;
  /** Bodies of the results, in the order they came. */
  readonly results: readonly string[];
}

/** The figures as a person reads them, and three results in full. */
export function renderReport({ figures, batchSize, results }: DemoReport): string {
  const errors = Object.values(figures.errors).reduce((sum, count) => sum + count, 0);
  const rows: [label: string, text: string][] = [
    ['messages', `${number(figures.messages)} sent, ${number(figures.answered)} answered under their message IDs`],
    ['', `${figures.missing} missing, ${figures.duplicates} duplicated, ${figures.wrongId} under a wrong ID`],
    ['scores', `${number(figures.answered - errors)}, ${(figures.accuracy * 100).toFixed(1)} % of the labels right`],
    ['errors', `${errors}, each answered with its code`],
    ...Object.entries(figures.errors).map(([code, count]): [string, string] => ['', `${code} ${count}`]),
    ['micro-batches', `${figures.microBatches} of ${figures.meanRows.toFixed(1)} rows on average`],
    [
      'closed because',
      Object.entries(figures.closed)
        .map(([why, count]) => `${CLOSED[why] ?? why} ${count}×`)
        .join(', '),
    ],
    ['padding', `${(figures.paddingShare * 100).toFixed(1)} % of the rows run`],
    ['stages, in all', stages(figures.stagesMs)],
    ['queue to result', `p50 ${number(figures.p50Ms)} ms, p99 ${number(figures.p99Ms)} ms`],
    [
      'in batches',
      `${number(figures.messages / figures.seconds)} messages/s at batch size ${batchSize}, ${figures.seconds.toFixed(2)} s`,
    ],
    [
      'one by one',
      `${number(figures.messages / figures.oneByOneSeconds)} messages/s at batch size 1, ${figures.oneByOneSeconds.toFixed(2)} s`,
    ],
    ['speed-up', `${figures.speedup.toFixed(1)}×`],
  ];
  const table = rows.map(([label, text]) => `  ${label.padEnd(17)}${text}\n`).join('');
  const shown = pickThree(results)
    .map((body) => `  ${body}\n`)
    .join('');
  return `\nHandwritten digits through SQS, the Lambda handler and ONNX Runtime, all on this machine\n\n${table}\nThree results\n${shown}`;
}

function stages(stagesMs: StageTimes): string {
  return Object.entries(stagesMs)
    .map(([stage, ms]) => `${stage} ${ms.toFixed(0)} ms`)
    .join(', ');
}

/** By the reasons as they are counted. */
const CLOSED: Readonly<Record<string, string>> = MICRO_BATCH_CLOSED;

/** Two scores and an error, where there are both. */
function pickThree(results: readonly string[]): string[] {
  const failed = results.find((body) => body.includes('"code":"'));
  const scores = results.filter((body) => !body.includes('"code":"')).slice(0, failed === undefined ? 3 : 2);
  return failed === undefined ? scores : [...scores, failed];
}

function number(value: number): string {
  return Math.round(value).toLocaleString('en-US');
}
