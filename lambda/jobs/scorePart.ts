import { timeoutSignal } from '../core/concurrency.ts';
import { failure, isFailure } from '../core/failure.ts';
import type { ModelFinder } from '../core/model.ts';
import type { Observer } from '../core/observer.ts';
import type { TimeLimit } from '../core/record.ts';
import type { Scorer } from '../scorer/scorer.ts';
import { noteFailure } from './finishJob.ts';
import type { JobStorage } from './jobFiles.ts';
import { cancelWatch, failedKey, type Place, parseObject, placeIn, readHead, reportKey } from './jobObjects.ts';
import {
  type FailedPiece,
  type JobHead,
  type Next,
  type Part,
  type PartFile,
  pieceIn,
  piecesOf,
  REPORT,
  type Report,
  wantedFrom,
} from './jobTypes.ts';
import { openParquet } from './parquetRows.ts';
import { type Checkpoint, createOutput, NOTHING, type Output, readCheckpoint } from './pieceOutput.ts';
import { type PlanAnswer, type PlanEvent, planJob } from './planJob.ts';
import { createResultFile, type ResultFile } from './resultFiles.ts';
import type { Rows } from './rows.ts';
import { createRowScoring, errorOf, MAX_SIZE_HELD, type RowScoring, type TableModel } from './scoreRows.ts';
import { type GoesOn, openText, type PieceReader, type PieceRows, UnreadableError } from './textRows.ts';

export interface ScoreHandlerDependencies {
  readonly storage: (bucket: string) => JobStorage;
  readonly scorer: Pick<Scorer, 'score'> & ModelFinder;
  readonly partBytes: number;
  readonly pieceBytes: number;
  /** Maximum size of a line. A longer one is refused as a row. */
  readonly maxLineBytes: number;
  readonly observer: Partial<Observer>;
}

export type JobEvent = PlanEvent | ScoreEvent | SkipEvent;
type CallTime = { readonly getRemainingTimeInMillis: () => number };
export type ScoreHandler = (event: JobEvent, context: CallTime) => Promise<PlanAnswer | ScoreEvent>;

function placeOf(event: JobEvent): Pick<ScoreEvent, 'bucket' | 'folder'> {
  if (event.action === 'plan') return event.start;
  return event.action === 'skip' ? event.call : event;
}

/** Creates the handler of the function with the models. It plans jobs, scores parts and skips pieces that end it. */
export function createScoreHandler(deps: ScoreHandlerDependencies): ScoreHandler {
  const { scorer, partBytes, pieceBytes, observer } = deps;
  const options = { score: scorer.score, observer, maxSize: MAX_SIZE_HELD };
  const tableModelOf = createTableModels(scorer);
  const answer = async (event: JobEvent, context: CallTime): Promise<PlanAnswer | ScoreEvent> => {
    if (event.action === 'plan') {
      const storage = deps.storage(event.start.bucket);
      const totalMs = context.getRemainingTimeInMillis();
      const hasTime = (): boolean => context.getRemainingTimeInMillis() > totalMs * READING_SHARE;
      return planJob(event, { storage, models: scorer, partBytes, pieceBytes, hasTime, now: Date.now });
    }
    const { bucket, folder } = placeOf(event);
    const storage = deps.storage(bucket);
    const head = await readHead(storage, folder);
    if (head === undefined) throw new Error(`${folder}: expected a job that was planned, got no plan`);
    if (event.action === 'skip') return skipPiece(event.call, storage, head);
    const reader = openReader(storage, head, event, deps.maxLineBytes);
    const time = { remainingMs: () => context.getRemainingTimeInMillis(), signal: new AbortController().signal };
    // Requests without a model mean the job's model and version.
    const scoring = createRowScoring({ ...options, defaults: head, table: await tableModelOf(head) });
    return scorePart(event, { storage, head, reader, scoring }, time);
  };
  return async (event, context) => {
    try {
      return await answer(event, context);
    } catch (error) {
      const { bucket, folder } = placeOf(event);
      await noteFailure(deps.storage(bucket), folder, error);
      throw error;
    }
  };
}

/** Returns a function that finds the table model of a job. It keeps the models for later calls. */
export function createTableModels(models: ModelFinder): (head: JobHead) => Promise<TableModel | undefined> {
  const known = new Map<string, TableModel>();
  return async ({ model: name, version, inputs }) => {
    const key = `${name}/${version}`;
    if (inputs === undefined) return undefined;
    const before = known.get(key);
    if (before !== undefined) return before;
    const model = await models.find(name, version);
    if (isFailure(model)) return undefined;
    const table = known.get(key) ?? { model, isMixing: false };
    known.set(key, table);
    return table;
  };
}

/** Opens the reader of a part's pieces. @param maxLineBytes longer lines are refused as rows */
export function openReader(
  storage: JobStorage,
  head: JobHead,
  { part }: Pick<ScoreEvent, 'part'>,
  maxLineBytes: number,
): PieceReader {
  const { files } = part;
  const open = (file: PartFile): PieceReader => {
    const ofFile = { ...head, ...file, idPrefix: file.path === '' ? '' : `${file.path}#` };
    if (head.format === 'parquet') return openParquet(storage, ofFile, file);
    return openText(storage, ofFile, file, maxLineBytes);
  };
  if (files.length === 1) return open(files[0] as PartFile);
  return {
    async read(piece, goesOn) {
      const { file } = pieceIn(part, piece);
      const reader = file && open(file);
      try {
        const rows = await reader?.read(0, goesOn);
        return rows && { ...rows, isLast: piece === files.length - 1 };
      } finally {
        reader?.close();
      }
    },
    close: () => {},
  };
}

/** Input and output of a call. `next` is the start of the next call; the part is done if it is missing. */
export interface ScoreEvent {
  readonly action: 'score';
  readonly bucket: string;
  readonly folder: string;
  readonly part: Part;
  readonly next?: Next | undefined;
}

interface PartDependencies {
  readonly storage: JobStorage;
  readonly head: JobHead;
  readonly reader: PieceReader;
  readonly scoring: RowScoring;
}

/** Share of a call's time that is reserved for writing results, within these limits. */
const WRITING_SHARE = 0.1;
const WRITING_MS = { min: 300, max: 10_000 };
/** Share of a call's time that is reserved for scoring while the text before the first piece is skipped. */
const READING_SHARE = 0.5;

/** Maximum size of a results object relative to a piece. Most pieces have one object. */
const OBJECT_PIECES = 2;

/** Maximum number of small files that are read, and written, while another is scored. */
const FILES_AT_ONCE = 32;

/**
 * Scores the pieces of a part one after the other, until little of the call's time is left. While a piece is scored,
 * the next one is read and the previous one is written; of small files, several are. A repeated or later call continues
 * after the results of this one.
 */
export async function scorePart(event: ScoreEvent, deps: PartDependencies, time: TimeLimit): Promise<ScoreEvent> {
  try {
    return await scorePieces(event, deps, time);
  } finally {
    deps.reader.close();
  }
}

async function scorePieces(event: ScoreEvent, deps: PartDependencies, time: TimeLimit): Promise<ScoreEvent> {
  const { folder, part, next: begin = { piece: 0 }, ...rest } = event;
  const done: ScoreEvent = { ...rest, folder, part };
  const { reader, storage, scoring, head } = deps;
  const { fruitless = 0 } = begin;
  const totalMs = time.remainingMs();
  const reserveMs = Math.min(WRITING_MS.max, Math.max(WRITING_MS.min, totalMs * WRITING_SHARE));
  const steps = createSteps(time, reserveMs, fruitless);
  const isCancelled = cancelWatch(storage, folder);
  /** @param leftMs reserved part of the call's time */
  const startReading = (piece: number, leftMs = reserveMs) => {
    const hasTime = (): boolean => !Number.isFinite(totalMs) || time.remainingMs() > leftMs;
    return readPiece(
      reader,
      storage,
      placeIn(folder, part, piece, head),
      async () => hasTime() && !(await isCancelled()),
    );
  };
  const writes = createWrites(head.pieceBytes);
  let longestMs = 0;
  let piece = wantedFrom(part, begin.piece);
  const reading = new Map([[piece, startReading(piece, totalMs * READING_SHARE)]]);
  const readOn = (from: number): void => {
    const ahead = piecesAhead(part, from, head);
    for (const next of ahead) if (!reading.has(next)) reading.set(next, startReading(next));
  };
  for (let isFirst = true; ; isFirst = false) {
    if (!isFirst && (steps.hasNoTimeFor(longestMs) || (await isCancelled()))) {
      return { ...done, next: { piece: (await writes.finish()) ?? piece } };
    }
    const startedAt = performance.now();
    const read = await (reading.get(piece) ?? startReading(piece));
    reading.delete(piece);
    const place = placeIn(folder, part, piece, head);
    const following = wantedFrom(part, piece + 1);
    if (read instanceof UnreadableError) {
      if (read.isOutOfTime && (!isFirst || (await isCancelled()))) {
        return { ...done, next: { piece: (await writes.finish()) ?? piece } };
      }
      await giveUpPiece(storage, place, read);
      if (read.isOutOfTime) break;
      piece = following;
      continue;
    }
    const { rows, checkpoint } = read;
    if (rows === undefined) break;
    const isSuspect = isFirst && begin.isSuspect === true;
    const next = rows.isLast ? Number.POSITIVE_INFINITY : following;
    if (!isSuspect) readOn(next);
    const objectBytes = OBJECT_PIECES * head.pieceBytes;
    const output = await createOutput({ storage, place, checkpoint, objectBytes, open: () => resultFileOf(head) });
    const left = leftOf(rows, output.rows);
    const isWhole = await scorePiece(left, output, { scoring, steps, fruitless: isFirst ? fruitless : 0 });
    const overtaken = await writes.makeRoom(output.bytes);
    if (overtaken !== undefined) return { ...done, next: { piece: overtaken } };
    if (!isWhole) {
      const earlier = await writes.finish();
      if (earlier !== undefined) return { ...done, next: { piece: earlier } };
      const isFruitless = (await output.finish()).rows === checkpoint.rows && !output.isOvertaken;
      const again: Next = isSuspect ? { piece, isSuspect } : { piece };
      return { ...done, next: isFruitless ? { ...again, fruitless: isFirst ? fruitless + 1 : 0 } : again };
    }
    const ms = performance.now() - startedAt;
    longestMs = Math.max(longestMs, ms);
    const last = rows.isLast && piecesOf(part, head.pieceBytes) === undefined ? { last: true as const } : {};
    const { bytes } = output;
    writes.add(piece, bytes, finishPiece(storage, place, output, { bytesIn: rows.bytes, ms: Math.round(ms), ...last }));
    // The next piece may end the process. If the report of this piece were missing, this piece would be blamed.
    if (isSuspect) {
      const own = await writes.finish();
      if (own !== undefined) return { ...done, next: { piece: own } };
      readOn(next);
    }
    piece = following;
  }
  const overtaken = await writes.finish();
  return overtaken === undefined ? done : { ...done, next: { piece: overtaken } };
}

function resultFileOf({ results, outputs = 'own', keep }: JobHead): Promise<ResultFile> {
  return createResultFile(results, outputs, keep);
}

/** Returns the pieces to read from `from` on while another is scored: one, or several small files of text. */
function piecesAhead(part: Part, from: number, { format, pieceBytes }: JobHead): readonly number[] {
  const max = part.files.length === 1 || format === 'parquet' ? 1 : FILES_AT_ONCE;
  const count = piecesOf(part, pieceBytes) ?? Number.POSITIVE_INFINITY;
  const ahead: number[] = [];
  let bytes = 0;
  for (let piece = from; piece < count && ahead.length < max; piece = wantedFrom(part, piece + 1)) {
    bytes += pieceIn(part, piece).file?.bytes ?? 0;
    if (ahead.length > 0 && bytes > pieceBytes) break;
    ahead.push(piece);
  }
  return ahead;
}

/**
 * Creates the pending writes of pieces. Each resolves to false if another call is ahead of this one. The functions
 * return the first such piece: the next call continues there.
 *
 * @param maxBytes of results in memory, unless one piece has more
 */
function createWrites(maxBytes: number) {
  const pending: { readonly piece: number; readonly bytes: number; readonly written: Promise<boolean> }[] = [];
  const settleUntil = async (isEnough: () => boolean): Promise<number | undefined> => {
    while (pending.length > 0 && !isEnough()) {
      const [{ piece, written }] = pending as [(typeof pending)[number]];
      if (!(await written)) return piece;
      pending.shift();
    }
    return undefined;
  };
  const heldBytes = (): number => pending.reduce((sum, { bytes }) => sum + bytes, 0);
  return {
    /** Waits until the results of another piece fit. */
    makeRoom: (bytes: number) => settleUntil(() => pending.length < FILES_AT_ONCE && heldBytes() + bytes <= maxBytes),
    add(piece: number, bytes: number, written: Promise<boolean>): void {
      // The rejection is handled where the promise is awaited.
      written.catch(() => {});
      pending.push({ piece, bytes, written });
    },
    finish: () => settleUntil(() => false),
  };
}

/**
 * Writes the remaining results and then the report, so a piece with a report has all its rows.
 * @returns false if another call is ahead of this one
 */
async function finishPiece(
  storage: JobStorage,
  { folder, part, piece }: Place,
  output: Output,
  about: Pick<Report, 'bytesIn' | 'ms' | 'last'>,
): Promise<boolean> {
  const { rows, errors, bytes, objects } = await output.finish();
  if (output.isOvertaken) return false;
  const report: Report = { part, piece, rows, errors, bytesOut: bytes, objects, ...about };
  await storage.put(reportKey(folder, part, piece), JSON.stringify(report));
  return true;
}

async function giveUpPiece(
  storage: JobStorage,
  { folder, part, piece, path }: Place,
  unreadable: UnreadableError,
): Promise<void> {
  const failed: FailedPiece = { part, piece, ...pathOf(path), code: unreadable.name, error: unreadable.message };
  await storage.put(failedKey(folder, part, piece), JSON.stringify(failed));
}

function pathOf(path = ''): Pick<FailedPiece, 'path'> {
  return path === '' ? {} : { path };
}

interface ReadPiece {
  /** Undefined past the last piece. */
  readonly rows: PieceRows | undefined;
  readonly checkpoint: Checkpoint;
}

/** Starts to read a piece. Its rejection is handled where the promise is awaited. */
function readPiece(
  reader: PieceReader,
  storage: JobStorage,
  place: Place,
  goesOn: GoesOn,
): Promise<ReadPiece | UnreadableError> {
  if (!Number.isFinite(place.piece)) return Promise.resolve({ rows: undefined, checkpoint: NOTHING });
  const reading = Promise.all([reader.read(place.piece, goesOn), readCheckpoint(storage, place)]).then(
    ([rows, checkpoint]) => ({ rows, checkpoint }),
    (error: unknown) => {
      if (error instanceof UnreadableError) return error;
      throw error;
    },
  );
  reading.catch(() => {});
  return reading;
}

interface PieceOptions {
  readonly scoring: RowScoring;
  readonly steps: Steps;
  /** Number of previous calls that ended without an answer to any of these rows. */
  readonly fruitless: number;
}

/**
 * Scores the remaining rows of a piece, step by step.
 *
 * @returns true if all rows are answered, false if the time is up or another call is ahead
 */
async function scorePiece(left: RowsLeft, output: Output, options: PieceOptions): Promise<boolean> {
  const { steps, fruitless } = options;
  for (let isFirst = true; ; isFirst = false) {
    const size = steps.size();
    const step = left.take(Math.max(1, size));
    if (step === undefined) return true;
    if (size === 0) return false;
    const { count, isTooMuch } = await scoreStep(step, output, options);
    if (output.isOvertaken) return false;
    if (count < step.length && !isTooMuch) {
      // If one row takes more than a whole call, it fails. On a queue it would become a dead letter.
      if (isFirst && fruitless > 0 && count === 0 && step.length === 1) {
        const single = [errorOf(step, 0, NO_TIME)];
        await output.add({ rows: step, count: 1, single, shared: [], isTooMuch: false });
      }
      return false;
    }
    if (count < step.length) left.giveBack(step.slice(count));
  }
}

const NO_TIME = failure('DEADLINE', "expected the row to be scored alone within one call's time, it was not");

type RowsLeft = ReturnType<typeof leftOf>;

/** Returns the rows of a piece after the answered ones. The caller may give rows back to get them again. */
function leftOf(rows: PieceRows, answered: number) {
  const back: Rows[] = [];
  const take = (max: number): Rows | undefined => {
    const some = back.shift() ?? rows.take(max);
    if (some === undefined || some.length <= max) return some;
    back.unshift(some.slice(max));
    return some.slice(0, max);
  };
  for (let left = answered; left > 0; ) {
    const skipped = take(left)?.length ?? 0;
    if (skipped === 0) throw new Error(`expected ${answered} rows that were answered before, got ${answered - left}`);
    left -= skipped;
  }
  return { take, giveBack: (given: Rows) => void back.unshift(given) };
}

/** @returns number of answered rows at the start of the step, and true if the others were too much to hold */
async function scoreStep(
  step: Rows,
  output: Output,
  { scoring, steps }: PieceOptions,
): Promise<{ readonly count: number; readonly isTooMuch: boolean }> {
  const startedAt = performance.now();
  const results = await scoring.score(step, steps.time);
  const ms = performance.now() - startedAt;
  steps.record(results.count, ms, await output.add(results));
  return results;
}

/** Input of a call after another has ended without an answer, several times. */
interface SkipEvent {
  readonly action: 'skip';
  readonly call: DeadCall;
}

interface DeadCall extends ScoreEvent {
  /** Error as Step Functions reports it. */
  readonly error?: { readonly Error?: string | undefined; readonly Cause?: string | undefined } | undefined;
}

/**
 * Handles a piece that calls have died of: the first one that has no report and was not given up. The next call reads
 * it alone. If that one dies of it too, the piece is reported as failed and the job continues after it.
 */
export async function skipPiece(
  { bucket, folder, part, next: asked, error }: DeadCall,
  storage: JobStorage,
  { pieceBytes }: JobHead,
): Promise<ScoreEvent> {
  const goOn: ScoreEvent = { action: 'score', bucket, folder, part };
  const count = piecesOf(part, pieceBytes);
  const piece = await firstOpen(storage, folder, part, count);
  if (piece === undefined) return goOn;
  if (asked?.isSuspect !== true || asked.piece !== piece) return { ...goOn, next: { piece, isSuspect: true } };
  const failed: FailedPiece = {
    part: part.part,
    piece,
    ...pathOf(pieceIn(part, piece).file?.path),
    code: error?.Error ?? 'unknown',
    error: (error?.Cause ?? 'its calls ended without an answer').slice(0, MAX_CHARACTERS),
  };
  await storage.put(failedKey(folder, part.part, piece), JSON.stringify(failed));
  const following = wantedFrom(part, piece + 1);
  return Number.isFinite(following) && following < (count ?? Number.POSITIVE_INFINITY)
    ? { ...goOn, next: { piece: following } }
    : goOn;
}

const MAX_CHARACTERS = 1000;

/**
 * Returns the first piece that has no report and was not given up. For compressed text, the report of the previous
 * piece tells if there is another one. Pieces that the part leaves out have reports.
 */
async function firstOpen(
  storage: JobStorage,
  folder: string,
  part: Part,
  count: number | undefined,
): Promise<number | undefined> {
  const next = (piece: number): number => (count === undefined ? piece : wantedFrom(part, piece));
  for (let piece = next(0); piece < (count ?? Number.POSITIVE_INFINITY); piece = next(piece + 1)) {
    const key = reportKey(folder, part.part, piece);
    const report = await storage.get(key);
    if (report !== undefined && parseObject(REPORT, report, key).last) return undefined;
    if (report === undefined && (await storage.get(failedKey(folder, part.part, piece))) === undefined) return piece;
  }
  return undefined;
}

/** Maximum rows of a step. Its overhead is small for that many, and its end is near. */
const ROWS_A_STEP = 1000;
/** Rows of the first step of a call. The time per row is unknown then. */
const ROWS_AT_FIRST = 16;
/** Maximum growth from one step to the next. */
const GROWTH = 8;
/** Safety factor on the time per row of the previous step. */
const CAUTION = 1.5;
/** Target size of a step's answers: half of what may be held. */
const CHARACTERS_A_STEP = 8 * 1024 * 1024;

interface Steps {
  /** Time for scoring: the call's time without the reserve for writing. */
  readonly time: TimeLimit;
  /** Returns the rows of the next step, or 0 if there is no time for it. */
  size(): number;
  /** Records a step of `rows` rows: its duration and the size of its answers. */
  record(rows: number, ms: number, characters: number): void;
  /** Returns true if less than `ms` is left. */
  hasNoTimeFor(ms: number): boolean;
}

/**
 * Creates the steps of a call. They grow to a thousand rows or some MiB of answers. When the time left is shorter than
 * such a step, they shrink to fit.
 *
 * @param reserveMs time to keep for writing results
 * @param fruitless number of previous calls without an answer: each makes the first step eight times smaller
 */
function createSteps(time: TimeLimit, reserveMs: number, fruitless: number): Steps {
  const left = () => time.remainingMs() - reserveMs;
  const deadline = timeoutSignal(left());
  let next = Math.max(1, ROWS_AT_FIRST >> (3 * fruitless));
  let msPerRow = 0;
  return {
    time: { remainingMs: left, signal: AbortSignal.any([time.signal, deadline]) },
    size() {
      const now = left();
      if (now <= 0) return 0;
      return msPerRow === 0 ? next : Math.floor(Math.min(next, now / (msPerRow * CAUTION)));
    },
    record(rows, ms, characters) {
      if (rows === 0) return;
      msPerRow = ms / rows;
      const fitting = Math.floor((CHARACTERS_A_STEP / Math.max(1, characters)) * rows);
      next = Math.max(1, Math.min(ROWS_A_STEP, GROWTH * rows, fitting));
    },
    // Node 22.12 may collect a signal that is not referenced, so that it never aborts.
    hasNoTimeFor: (ms) => deadline.aborted || left() < ms,
  };
}
