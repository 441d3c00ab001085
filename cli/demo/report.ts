import { MICRO_BATCH_CLOSED } from '../closedBecause.ts';
import type { Assessment } from './assess.ts';
import type { StageTimes, Tally } from './tally.ts';
import type { Written } from './watchResults.ts';

export interface DemoFigures extends Assessment, Tally {
  readonly messages: number;
  /** From the first request sent to the last result written, in batches. */
  readonly seconds: number;
  /** To the result queue, in batches, each result in a message of its own. */
  readonly written: Written;
  readonly invocations: number;
  /** What Lambda and SQS would bill for the pass in batches. */
  readonly dollarsPerMillionRows: number;
  /** The same in batches, with results that share messages. */
  readonly packed: Pick<Assessment, 'missing' | 'duplicates' | 'wrongId'> & {
    readonly seconds: number;
    readonly written: Written;
    readonly dollarsPerMillionRows: number;
  };
  /** The same messages through the same handler at batch size 1. */
  readonly oneByOneSeconds: number;
  readonly oneByOneDollarsPerMillionRows: number;
  readonly speedup: number;
}

export interface DemoReport {
  readonly figures: DemoFigures;
  readonly batchSize: number;
  /** Whether messages came at a rate: all passes then take as long as that. */
  readonly isAtARate: boolean;
  /** Bodies of the results, in the order they came. */
  readonly results: readonly string[];
}

/** The figures as a person reads them, and three results in full. */
export function renderReport({ figures, batchSize, isAtARate, results }: DemoReport): string {
  const errors = Object.values(figures.errors).reduce((sum, count) => sum + count, 0);
  const rows: [label: string, text: string][] = [
    ['messages', `${number(figures.messages)} sent, ${number(figures.answered)} answered under their message IDs`],
    ['', ids(figures)],
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
    ['', `${inMessages(figures.written)}; ${dollars(figures.dollarsPerMillionRows)}`],
    [
      'results packed',
      `${number(figures.messages / figures.packed.seconds)} messages/s at batch size ${batchSize}, ${figures.packed.seconds.toFixed(2)} s`,
    ],
    ['', `${inMessages(figures.packed.written)}; ${dollars(figures.packed.dollarsPerMillionRows)}`],
    ['', ids(figures.packed)],
    [
      'one by one',
      `${number(figures.messages / figures.oneByOneSeconds)} messages/s at batch size 1, ${figures.oneByOneSeconds.toFixed(2)} s`,
    ],
    ['', dollars(figures.oneByOneDollarsPerMillionRows)],
    ...(isAtARate ? [] : [['speed-up', `${figures.speedup.toFixed(1)}×`] as [string, string]]),
    ['dollars', "by the prices of Lambda and SQS, as if a function took this machine's times"],
  ];
  const table = rows.map(([label, text]) => `  ${label.padEnd(17)}${text}\n`).join('');
  const shown = pickThree(results)
    .map((body) => `  ${body}\n`)
    .join('');
  return `\nHandwritten digits through SQS, the Lambda handler and ONNX Runtime, all on this machine\n\n${table}\nThree results\n${shown}`;
}

function ids({ missing, duplicates, wrongId }: Pick<Assessment, 'missing' | 'duplicates' | 'wrongId'>): string {
  return `${missing} missing, ${duplicates} duplicated, ${wrongId} under a wrong ID`;
}

function dollars(perMillionRows: number): string {
  return `${perMillionRows.toFixed(2)} $ a million rows`;
}

function inMessages({ results, messages, calls }: Written): string {
  return `${number(results)} results written in ${number(messages)} messages, ${number(calls)} calls`;
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
