import { styleText } from 'node:util';
import { MICRO_BATCH_CLOSED } from '../closedBecause.ts';
import type { Assessment, DemoSamples, StageTimes, Tally } from './assess.ts';
import type { Written } from './exchange.ts';

interface DemoFigures extends Assessment, Tally {
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
  readonly windowSeconds: number;
  /** Batches that did not fill, and waited out the window. */
  readonly waited: number;
  /** Whether messages came at a rate: all passes then take as long as that. */
  readonly isAtARate: boolean;
  readonly samples: DemoSamples;
}

/** Where it is written: a terminal has a width, anything else takes whole lines. */
interface Output {
  readonly columns?: number;
}

const LABEL_COLUMNS = 19;
/** Fewer would be a word a line. */
const MIN_COLUMNS = 20;
const MAX_COLUMNS = 100;

/** What came back as a person reads it: some of it, and the figures. */
export function renderReport(report: DemoReport, { columns }: Output): string {
  const width = Math.min(MAX_COLUMNS, columns ?? MAX_COLUMNS);
  const { digits, refused, result } = report.samples;
  const title = 'Handwritten digits through SQS, the Lambda handler and ONNX Runtime, all on this machine';
  const indented = (text: string): string[] => fold(text, Math.max(MIN_COLUMNS, width - 2)).map((line) => `  ${line}`);
  return [
    '',
    ...fold(title, width).map(bold),
    '',
    ...drawDigits(digits, width - 2).map((line) => `  ${line}`.trimEnd()),
    '',
    ...rowsOf(report).flatMap(([label, text]) => tableRow(label, text, width)),
    ...(refused === undefined ? [] : ['', bold(`A refused message: ${refused.code}`), ...indented(refused.error)]),
    ...(result === undefined
      ? []
      : ['', bold('A result'), `  ${columns === undefined ? result : cut(result, columns - 3)}`]),
    '',
  ].join('\n');
}

/** Plain where it is no terminal, or NO_COLOR is set. */
function bold(text: string): string {
  return styleText('bold', text, { stream: process.stdout });
}

function tableRow(label: string, text: string, width: number): string[] {
  const [first = '', ...others] = fold(text, Math.max(MIN_COLUMNS, width - LABEL_COLUMNS));
  const blank = ' '.repeat(LABEL_COLUMNS);
  return [`  ${label}`.padEnd(LABEL_COLUMNS) + first, ...others.map((line) => `${blank}${line}`)];
}

function rowsOf({ figures, batchSize, windowSeconds, waited, isAtARate }: DemoReport): [label: string, text: string][] {
  const errors = Object.values(figures.errors).reduce((sum, count) => sum + count, 0);
  const codes = Object.entries(figures.errors).map(([code, count]) => `${code} ${count}`);
  const closed = Object.entries(figures.closed).map(([why, count]) => `${CLOSED[why] ?? why} ${count}×`);
  return [
    ['messages', `${number(figures.messages)} sent, ${number(figures.answered)} answered under their message IDs`],
    ['', ids(figures)],
    ['scores', `${number(figures.answered - errors)}, ${(figures.accuracy * 100).toFixed(1)} % of the labels right`],
    ['errors', `${errors}, each answered with its code: ${codes.join(', ')}`],
    ['micro-batches', `${figures.microBatches} of ${figures.meanRows.toFixed(1)} rows on average`],
    ['closed because', closed.join(', ')],
    ['padding', `${(figures.paddingShare * 100).toFixed(1)} % of the rows run`],
    ['stages, in all', stages(figures.stagesMs)],
    ['queue to result', `p50 ${number(figures.p50Ms)} ms, p99 ${number(figures.p99Ms)} ms`],
    ['in batches', `${speed(figures, figures.seconds)} at batch size ${batchSize}`],
    ['', `${inMessages(figures.written)}; ${dollars(figures.dollarsPerMillionRows)}`],
    ['results packed', `${speed(figures, figures.packed.seconds)} at batch size ${batchSize}`],
    ['', `${inMessages(figures.packed.written)}; ${dollars(figures.packed.dollarsPerMillionRows)}`],
    ['', ids(figures.packed)],
    ['one by one', `${speed(figures, figures.oneByOneSeconds)} at batch size 1`],
    ['', dollars(figures.oneByOneDollarsPerMillionRows)],
    ...(isAtARate ? [] : [['speed-up', `${figures.speedup.toFixed(1)}×`] as [string, string]]),
    ...(waited === 0 ? [] : [['window', explainWindow(waited, windowSeconds, isAtARate)] as [string, string]]),
    ['dollars', "by the prices of Lambda and SQS, as if a function took this machine's times"],
  ];
}

/** Of few messages, most of the time is that. */
function explainWindow(waited: number, windowSeconds: number, isAtARate: boolean): string {
  const batches = waited === 1 ? 'a batch that did not fill' : `${waited} batches that did not fill`;
  const more = isAtARate ? 'a smaller --batch-size fills sooner' : 'with more --messages it counts for less';
  return `${batches} waited ${windowSeconds} s for more messages: that is in the times above; ${more}`;
}

function speed({ messages }: DemoFigures, seconds: number): string {
  return `${number(messages / seconds)} messages/s, ${seconds.toFixed(2)} s`;
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

function number(value: number): string {
  return Math.round(value).toLocaleString('en-US');
}

/** A digit as it was sent, and what came back. */
export interface ScoredDigit {
  /** 8 rows of 8, from 0 to 16. */
  readonly pixels: readonly number[];
  readonly label: number;
  readonly probability: number;
}

const SIDE = 8;
const DARKEST = 16;
const SHADES = [' ', '░', '▒', '▓', '█'];
const GAP = 4;

/**
 * Digits side by side, each above its label and probability. A letter is about half as wide as it is high: where there is
 * room, two of them make a pixel; where there is little, fewer digits are drawn.
 *
 * @param columns that there are
 * @returns the lines
 */
export function drawDigits(digits: readonly ScoredDigit[], columns: number): string[] {
  const max = Math.max(1, Math.floor(columns / (SIDE + GAP)));
  const shown = digits.slice(0, max);
  const lettersAPixel = digits.length * (2 * SIDE + GAP) <= columns ? 2 : 1;
  const width = lettersAPixel * SIDE + GAP;
  const pictures = Array.from({ length: SIDE }, (_, row) =>
    shown.map(({ pixels }) => drawRow(pixels.slice(row * SIDE, (row + 1) * SIDE), lettersAPixel)),
  );
  const captions = shown.map(({ label, probability }) => `${label}, ${(100 * probability).toFixed(1)} %`);
  return [...pictures, captions].map((cells) =>
    cells
      .map((cell) => cell.padEnd(width))
      .join('')
      .trimEnd(),
  );
}

function drawRow(pixels: readonly number[], lettersAPixel: number): string {
  const shadeOf = (pixel: number): string => SHADES[Math.round((pixel / DARKEST) * (SHADES.length - 1))] ?? ' ';
  return pixels.map((pixel) => shadeOf(pixel).repeat(lettersAPixel)).join('');
}

/** Text as lines of at most so many columns, broken between words; a longer word has a line of its own. */
export function fold(text: string, columns: number): string[] {
  const lines: string[] = [];
  let line = '';
  for (const word of text.split(' ')) {
    if (line !== '' && line.length + 1 + word.length > columns) {
      lines.push(line);
      line = word;
    } else {
      line = line === '' ? word : `${line} ${word}`;
    }
  }
  return [...lines, line];
}

/** Text as one line of at most so many columns. */
function cut(text: string, columns: number): string {
  return text.length <= columns ? text : `${text.slice(0, Math.max(0, columns - 1))}…`;
}
