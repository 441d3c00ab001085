import { rm } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { getHeapSpaceStatistics, setFlagsFromString } from 'node:v8';
import { isFailure, plural } from '../../lambda/core/failure.ts';
import type { ModelDescription } from '../../lambda/core/model.ts';
import type { BatchMismatch } from '../../lambda/core/observer.ts';
import type { ScoreBodies, ScoringLimits } from '../../lambda/core/score.ts';
import { FORMATS } from '../../lambda/jobs/jobFiles.ts';
import {
  createResultFile,
  formatOfResults,
  isOtherTable,
  outputsOf,
  type ResultFile,
} from '../../lambda/jobs/resultFiles.ts';
import type { Results } from '../../lambda/jobs/results.ts';
import { withSeparator } from '../../lambda/jobs/rowRequests.ts';
import type { Rows } from '../../lambda/jobs/rows.ts';
import { createRowScoring } from '../../lambda/jobs/scoreRows.ts';
import { locate } from '../../lambda/onnx/findModels.ts';
import { openScorer, type ScorerOptions } from '../../lambda/scorer/scorer.ts';
import { SETTINGS } from '../../lambda/settings.ts';
import {
  COLUMN_OPTIONS,
  columnSpec,
  modelPath,
  oneOf,
  parseCommand,
  type Streams,
  UsageError,
  wholeNumber,
} from '../arguments.ts';
import { count, duration, figure } from '../format.ts';
import { listenForInterruption, printableLines, rowProgress, writeLine } from '../terminal.ts';
import {
  canBeUnfinished,
  type InputFile,
  inputFile,
  notePath,
  refuseFolder,
  refuseMissingFolder,
  refuseOverwriting,
  unfinishedPath,
  writeWhole,
} from '../textFiles.ts';
import {
  type BatchLimits,
  DATA_FORMATS,
  formatByEnding,
  type RowBatch,
  type RowOptions,
  rowBatches,
} from './rowBatches.ts';
import type { OfflineSummary, Origin, StoppedRun } from './stoppedRun.ts';

/** Rows that are scored together, and in one run. A queue has fewer, but nobody waits for one row of a file. */
const ROWS = 2048;

const HELP = `Usage: batchscore score MODEL FILE [options]

Scores a file without a queue: the same code as on AWS, in constant memory. Results are written
in the order of the file, one for each line, or each row of Parquet.

  MODEL             a model folder such as models/digits, a .onnx file, or the name of a model
                    in the model repository
  FILE              what to score, or - for stdin:
                      JSON requests, one a line
                      plain objects, one a line, whose keys are the model's inputs
                      .csv or .tsv, whose first line names the columns
                      .parquet

  --inputs I=COLS   columns or keys that make up input I, such as image=p0..p63; may be repeated
                    (default: the one of its name)
  --keep COLS       columns or keys that are carried beside the result
  --separator C     what stands between the fields of CSV, such as ';', or tab (default , and a tab
                    in .tsv)
  --missing VALUE   what empty cells become, such as nan or 0 (default: an error)
  --format F        ${DATA_FORMATS.join(', ')} (default: by the ending; lines of JSON are requests
                    where the first has inputs, instances or model_name, else plain objects)
  --out FILE        where results go (default: stdout)
  --resume          go on after the results that a run with the same --out had written when it was
                    stopped
  --out-format F    ${FORMATS.join(', ')} (default: by the ending of --out, else jsonl)
  --models DIR      the model repository (default models)
  --batch-size N    lines scored together (default: about a second of them, up to ${ROWS})
  --max-rows N      most rows in one run (default ${ROWS})
  --providers LIST  execution providers, first choice first (default cpu)
  --json            print the summary as one JSON object
  --help            show this

A result's message_id is the number of its line, from 1, or of its row in Parquet, from 0. The
summary goes to stdout, or to stderr when the results go to stdout.
Exit code: 0 all lines scored, 3 some were answered with an error, 1 it could not go on, 2 wrong usage,
130 stopped by Ctrl-C, 143 by SIGTERM, 141 because nobody reads stdout any more.
`;

/** Maximum characters in a batch. It limits the memory. */
const CHARACTERS_A_BATCH = 2 * 1024 * 1024;
/** Lines of the first batch, whose duration is unknown. */
const LINES_AT_FIRST = 16;
/** Maximum growth from one batch to the next. */
const GROWTH = 8;
/** Target for a batch. Ctrl-C waits for it, and progress comes with its end. */
const BATCH_MS = 1_000;

/** Returns limits of a batch. @param given number of lines. @default as many as take about a second */
function batchLimits(given: number | undefined): BatchLimits {
  let lines = given ?? LINES_AT_FIRST;
  return {
    get lines() {
      return lines;
    },
    characters: CHARACTERS_A_BATCH,
    record(rows, ms) {
      if (given !== undefined) return;
      const fitting = 2 ** Math.floor(Math.log2((rows * BATCH_MS) / ms));
      lines = Math.max(1, Math.min(ROWS, GROWTH * rows, fitting));
    },
  };
}

/** Batches that are scored at once: one is scored while another one is read. */
const BATCHES_AT_ONCE = 2;
const SOME_LINES_FAILED = 3;

async function run(args: readonly string[], streams: Streams): Promise<number> {
  const { options, positionals } = parseCommand(args, ['MODEL', 'FILE'], {
    ...COLUMN_OPTIONS,
    format: { type: 'string' },
    out: { type: 'string' },
    'out-format': { type: 'string' },
    resume: { type: 'boolean', default: false },
    models: { type: 'string', default: 'models' },
    'batch-size': { type: 'string' },
    'max-rows': { type: 'string', default: String(ROWS) },
    providers: { type: 'string', default: 'cpu' },
    json: { type: 'boolean', default: false },
  });
  const [model = '', file = ''] = positionals;
  const lines = wholeNumber('--batch-size', options['batch-size'], 1, 100_000);
  const { min, max } = SETTINGS.maxBatchRows;
  const maxBatchRows = wholeNumber('--max-rows', options['max-rows'], min, max);
  const columns = columnSpec(options);
  const ofName = formatByEnding(file) ?? (columns.separator === undefined ? undefined : 'csv');
  const format = oneOf('--format', options.format, DATA_FORMATS) ?? ofName;
  const { out } = options;
  const outFormat = oneOf('--out-format', options['out-format'], FORMATS) ?? formatOfResults(out);
  if (options['out-format'] === undefined && isOtherTable(out ?? '')) {
    throw new UsageError(
      `--out: expected a name ending in .jsonl, .csv or .parquet, got '${out}'; choose one, or add --out-format`,
    );
  }
  const spec = format === 'csv' ? withSeparator(file, columns) : columns;
  const path = modelPath(model, options.models);
  const { path: modelFile, folder } = await locate(path);
  if (out !== undefined) await refuseOut(out, [file === '-' ? '/dev/stdin' : file, modelFile]);

  const input = await inputFile(file, streams);
  const isResumable = out !== undefined && input.bytes !== undefined && (await canBeUnfinished(out));
  if (options.resume && !isResumable) {
    throw new UsageError('--resume: expected a FILE and an --out that are files, got a pipe or none; leave it out');
  }
  const originOf = async (): Promise<Origin> => ({
    ...(await (await stoppedRuns()).originOfModel(modelFile, folder)),
    FILE: `${input.bytes} bytes of ${new Date(input.modifiedMs ?? 0).toISOString()}`,
    '--format': format ?? 'as the first line tells',
    '--out-format': outFormat,
    '--inputs': JSON.stringify(spec.inputs ?? {}),
    '--keep': (spec.keep ?? []).join(),
    '--separator': spec.separator ?? ',',
    '--missing': spec.missing ?? 'an error',
  });
  const before =
    options.resume && isResumable ? await (await stoppedRuns()).readStoppedRun(out, await originOf()) : undefined;
  const warn = (message: string): void => writeLine(streams.stderr, message);
  const { scorer, model: opened } = await openOffline(path, {
    maxBatchRows,
    providers: options.providers,
    checkPercent: SETTINGS.checkPercent.default,
    warn,
    onLost: ({ message }) => warn(message),
  });
  try {
    const startedAt = performance.now();
    const scoring = createOfflineScoring(scorer.score, warn, opened, before?.summary);
    const limits = batchLimits(lines);
    const takesRequests = outFormat === 'jsonl';
    const name = file === '-' ? 'stdin' : file;
    const rows: RowOptions = { model: opened, name, format, spec, takesRequests, limits };
    const results = await createResultFile(outFormat, outputsOf(opened), spec.keep ?? []);
    const exitCode = await scoreAll(input, rows, scoring, results, { out, isResumable, before }, streams);
    const seconds = (performance.now() - startedAt) / 1000;
    const place = format === 'parquet' ? 'row' : 'line';
    const summary = options.json
      ? [JSON.stringify({ ...scoring.summary, seconds })]
      : summaryLines(scoring.summary, before?.summary.lines ?? 0, seconds, place);
    for (const line of summary) writeLine(out === undefined ? streams.stderr : streams.stdout, line);
    if (exitCode !== undefined) {
      if (isResumable) await (await stoppedRuns()).noteStop(out, await originOf(), scoring.summary);
      const where = isResumable ? `in ${await unfinishedPath(out)}; add --resume to go on after them` : 'written';
      writeLine(
        streams.stderr,
        `stopped; the results of the first ${plural(scoring.summary.lines, place)} are ${where}`,
      );
    }
    return exitCode ?? (scoring.summary.scored === scoring.summary.lines ? 0 : SOME_LINES_FAILED);
  } finally {
    await scorer.close();
  }
}

/** Most runs are not stopped, and start sooner without this. */
const stoppedRuns = () => import('./stoppedRun.ts');

async function refuseOut(out: string, read: readonly string[]): Promise<void> {
  await refuseMissingFolder(out);
  await refuseFolder(out);
  for (const written of [out, await unfinishedPath(out), await notePath(out)]) {
    await refuseOverwriting('--out', written, read);
  }
}

interface Target {
  /** @default stdout */
  readonly out: string | undefined;
  readonly isResumable: boolean;
  /** Stopped run whose results are kept. */
  readonly before: StoppedRun | undefined;
}

/** @returns the exit code if SIGINT or SIGTERM stopped the run. The results so far are then kept next to `out`. */
async function scoreAll(
  input: InputFile,
  options: RowOptions,
  scoring: OfflineScoring,
  file: ResultFile,
  { out = '', isResumable, before }: Target,
  { stdout, stderr }: Streams,
): Promise<number | undefined> {
  const after = before && (await file.resume(await unfinishedPath(out), before.bytes));
  const rowsBefore = before?.summary.lines ?? 0;
  const progress = rowProgress('scoring', input.bytes !== undefined, rowsBefore, stderr);
  const { signal, exitCode, finished } = listenForInterruption('the lines that are being scored', progress.stop);
  let rows = rowsBefore;
  let isWhole = false;
  let change: string | undefined;
  const results = async function* (): AsyncGenerator<string | Uint8Array> {
    for await (const { found, share } of scoredInTurn(input, options, scoring, signal, rowsBefore)) {
      file.add(found);
      yield* file.take();
      rows += found.rows.length;
      const errors = Object.values(scoring.summary.errors).reduce((sum, count) => sum + count, 0);
      progress.update({ rows, errors, share });
      limitNewObjects();
    }
    change = signal.aborted ? undefined : await input.change();
    isWhole = !signal.aborted && change === undefined;
    yield file.end();
  };
  const chunks = results();
  try {
    // The output is opened after the first chunk, so that an unreadable input leaves an existing file unchanged.
    const first = await chunks.next();
    const all = startingWith([after === undefined ? file.head : '', first.value ?? ''], chunks);
    if (isResumable && after === undefined) await removeNote(out);
    await (out === ''
      ? pipeline(stdout.isTTY === true ? shown(all) : all, stdout, { end: false })
      : writeWhole(out, all, { isWhole: () => isWhole, after }));
    if (isResumable && isWhole) await removeNote(out);
  } finally {
    progress.stop();
    finished();
  }
  if (change !== undefined) {
    const kept = isResumable ? `; the results so far are in ${await unfinishedPath(out)}` : '';
    throw new Error(`${change}${kept}; score it again when nobody writes to it`);
  }
  return isWhole ? undefined : exitCode();
}

/** Memory for new objects that suffices: a batch is done before it is full. */
const NEW_OBJECTS_BYTES = 32 * 1024 * 1024;

/** Keeps V8 from giving new objects 128 MB, which would make the peak that much higher, and the run no faster. */
function limitNewObjects(): void {
  const space = getHeapSpaceStatistics().find(({ space_name: name }) => name === 'new_space');
  if (space !== undefined && space.space_size >= NEW_OBJECTS_BYTES) setFlagsFromString('--semi-space-growth-factor=1');
}

/**
 * Scores batches as they are read, and yields their results in order, each as soon as it is there. A pipe that pauses keeps
 * no results back.
 */
async function* scoredInTurn(
  input: InputFile,
  options: RowOptions,
  scoring: OfflineScoring,
  signal: AbortSignal,
  before: number,
): AsyncGenerator<{ readonly found: Results; readonly share: number | undefined }> {
  const ended = new AbortController();
  const batches = rowBatches(input, options, AbortSignal.any([signal, ended.signal]), before);
  const scored = async ({ rows, share }: RowBatch) => {
    const startedAt = performance.now();
    const found = await scoring.score(rows);
    options.limits.record(rows.length, performance.now() - startedAt);
    return { found, share };
  };
  try {
    yield* Readable.from(batches).map(scored, { concurrency: BATCHES_AT_ONCE });
  } finally {
    ended.abort();
  }
}

async function* startingWith(
  head: readonly (string | Uint8Array)[],
  chunks: AsyncGenerator<string | Uint8Array>,
): AsyncGenerator<string | Uint8Array> {
  for (const chunk of head) if (chunk.length > 0) yield chunk;
  for await (const chunk of chunks) if (chunk.length > 0) yield chunk;
}

/** Yields results as a terminal shows them. A file or a pipe receives them unchanged. */
async function* shown(chunks: AsyncGenerator<string | Uint8Array>): AsyncGenerator<string | Uint8Array> {
  for await (const chunk of chunks) yield typeof chunk === 'string' ? printableLines(chunk) : chunk;
}

export const score = { help: HELP, run };

function summaryLines(
  { lines, scored, errors, reasons, microBatches, rows }: OfflineSummary,
  before: number,
  seconds: number,
  place: 'line' | 'row',
): string[] {
  const failed = Object.entries(errors).map(([code, count]) => `, ${code} ${count}`);
  const first = Object.entries(reasons).map(
    ([code, { line, error }]) => `${code}, first in ${place} ${line}: ${error}`,
  );
  const runs =
    microBatches === 0
      ? ''
      : `; ${microBatches} ${microBatches === 1 ? 'micro-batch' : 'micro-batches'} of ${figure(rows / microBatches)} rows on average`;
  return [
    `${plural(lines, place)}${before === 0 ? '' : ` (${before} before)`} in ${duration(1000 * seconds)} ` +
      `(${count((lines - before) / seconds)}/s): ` +
      `${scored} scored${failed.join('')}${runs}`,
    ...first,
  ];
}

async function removeNote(out: string): Promise<void> {
  await rm(await notePath(out), { force: true });
}

type OfflineScoring = ReturnType<typeof createOfflineScoring>;

/**
 * Scores the rows of a file and counts them. The ID of a row is its message ID.
 *
 * @param warn is called once for each model whose rows turn out to depend on each other
 * @param model model of rows with columns. @default each row is a request
 * @param before counts of earlier rows
 */
export function createOfflineScoring(
  score: ScoreBodies,
  warn: (message: string) => void,
  model?: ModelDescription,
  before: OfflineSummary = { lines: 0, scored: 0, errors: {}, reasons: {}, microBatches: 0, rows: 0 },
) {
  const summary = structuredClone(before);
  const scoring = createRowScoring({
    score,
    table: model && { model, isMixing: false },
    observer: {
      batchMismatch: (mismatch) => warn(describe(mismatch)),
      microBatch: ({ rows }) => {
        summary.microBatches += 1;
        summary.rows += rows;
      },
    },
  });
  return {
    summary: summary as Readonly<OfflineSummary>,
    /** Scores rows and counts them. @throws Error if a row has no result */
    async score(rows: Rows): Promise<Results> {
      const results = await scoring.score(rows);
      if (results.count < rows.length)
        throw new Error(`line ${rows.idOf(results.count)}: expected an answer, got none`);
      summary.lines += rows.length;
      summary.scored += rows.length;
      for (let row = 0; row < rows.length; row++) {
        const result = results.single[row];
        if (result === undefined || result.failures.length === 0) continue;
        summary.scored -= 1;
        for (const { code, message } of result.failures) {
          summary.errors[code] = (summary.errors[code] ?? 0) + 1;
          summary.reasons[code] ??= { line: rows.idOf(row), error: message };
        }
      }
      return results;
    },
  };
}

function describe({ model, version, messageId, difference: { output } }: BatchMismatch): string {
  const found = `model '${model}/${version}': '${output}' of line ${messageId} is another when the request is run alone`;
  return `${found}; from here on all requests are. To be sure of the lines before, score again with --max-rows 1`;
}

interface OfflineOptions extends Pick<ScorerOptions, 'checkPercent' | 'warn' | 'onLost' | 'loaded'> {
  readonly maxBatchRows: number;
  /** Execution providers, first choice first, with commas between them. */
  readonly providers: string;
}

/** Opens the model at a path, without the limits of a queue. @throws Error if it cannot be opened */
export async function openOffline(path: string, { maxBatchRows, providers, ...options }: OfflineOptions) {
  const scorer = await openScorer({
    repository: { path },
    load: {
      maxBatchRows,
      maxBatchElements: SETTINGS.maxBatchElements.default,
      providers: providers.split(','),
      allowProviderFallback: false,
    },
    limits: OFFLINE_LIMITS,
    ...options,
  });
  const model = await scorer.find(undefined, undefined);
  if (!isFailure(model)) return { scorer, model };
  await scorer.close();
  throw new Error(model.message);
}

/** Limits for files. They are the maximums, because no queue or store adds limits of its own. */
export const OFFLINE_LIMITS: ScoringLimits = {
  maxRequestRows: SETTINGS.maxRequestRows.max,
  maxRequestsPerMessage: SETTINGS.maxRequestsPerMessage.max,
  maxAnswerCharacters: SETTINGS.maxAnswerCharacters.max,
  maxBatchElements: SETTINGS.maxBatchElements.default,
  deadlineMarginMs: 0,
};
