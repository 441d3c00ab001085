import pLimit from 'p-limit';
import * as z from 'zod';
import type { Announce, JobEnded } from '../aws/announce.ts';
import { isObject, parseIfJson } from '../core/json.ts';
import { JobError, type JobStorage } from './jobFiles.ts';
import {
  dataKey,
  dataKeys,
  dataPlaceIn,
  failedKeys,
  failureKey,
  manifestKey,
  type Place,
  parseObject,
  partAndPieceIn,
  placeIn,
  planKey,
  readHead,
  readParts,
  reportKey,
  reportKeys,
} from './jobObjects.ts';
import {
  ANSWERED,
  FAILED_PIECE,
  FAILURE,
  type FailedPiece,
  JOB_START,
  type JobFailure,
  type JobStart,
  type Manifest,
  type Part,
  pieceIn,
  piecesOf,
  REPORT,
  type Reasons,
  type Report,
} from './jobTypes.ts';
import { type Checkpoint, NOTHING, readCheckpoint, sumOf } from './pieceOutput.ts';
import { isS3Event, type Started, type SubmitDependencies, submitEvent } from './submitJob.ts';

export type ControlEvent = FinishEvent | ExplainEvent | StatusChange | { readonly Records: readonly unknown[] };
type ControlAnswer = FinishAnswer | JobFailure | JobEnded | readonly Started[];
export type ControlHandler = (event: ControlEvent) => Promise<ControlAnswer>;

interface ControlDependencies extends SubmitDependencies {
  /** Describes an execution, like Step Functions' `DescribeExecution`. */
  readonly describe: (executionArn: string) => Promise<EndedExecution>;
  /** Announces the end of a job. @default nothing is announced */
  readonly announce?: Announce | undefined;
}

/** EventBridge event of an ended execution. It lacks input and output if a KMS key of the deployer encrypts them. */
interface StatusChange {
  readonly detail: { readonly executionArn: string; readonly status: string };
}

export interface EndedExecution {
  readonly status?: string | undefined;
  readonly input?: string | undefined;
  readonly output?: string | undefined;
  readonly error?: string | undefined;
  readonly cause?: string | undefined;
}

const STATES: Readonly<Record<string, JobEnded['state']>> = { SUCCEEDED: 'done', ABORTED: 'cancelled' };
const FINISHED = z.object({ rows: z.number(), errors: z.record(z.string(), z.number()), failedParts: z.number() });

/**
 * Builds the announcement of an ended job.
 *
 * @throws Error if Step Functions does not describe the end yet. Lambda retries the call after one and two minutes.
 * @see https://docs.aws.amazon.com/step-functions/latest/apireference/API_DescribeExecution.html on its consistency
 */
async function describeEnd(
  { status: ended }: StatusChange['detail'],
  { status = 'nothing', input, output, error, cause }: EndedExecution,
  storage: JobStorage,
): Promise<JobEnded> {
  const state = STATES[ended] ?? 'failed';
  if (status !== ended || input === undefined || (state === 'done' && output === undefined)) {
    throw new Error(`expected the description of an execution that has ended, got ${status} after it was ${ended}`);
  }
  const { job, bucket, key, folder, spec } = JOB_START.parse(JSON.parse(input));
  const { model, version } = (await readHead(storage, folder)) ?? spec;
  const places = { input: `s3://${bucket}/${key}`, output: `s3://${bucket}/${folder}` };
  return {
    ...{ event: 'job-ended', job, state, ...places, model, version },
    ...(state === 'done' && output !== undefined && FINISHED.parse(JSON.parse(output))),
    ...(state === 'failed' && { code: error ?? ended, message: cause }),
  };
}

/** Creates the handler of the function without models. It starts jobs on S3 events and finishes them. */
export function createControlHandler(deps: ControlDependencies): ControlHandler {
  return async (event) => {
    if ('detail' in event) {
      const ended = await describeEnd(event.detail, await deps.describe(event.detail.executionArn), deps.storage);
      await deps.announce?.([ended]);
      return ended;
    }
    if (!('action' in event)) {
      if (!isS3Event(event))
        throw new Error('expected an S3 event, or the action finish or explain, got another event');
      return submitEvent(event, deps);
    }
    if (event.action === 'explain') return explainJob(event, deps.storage);
    try {
      return await finishJob(event, deps.storage, Date.now);
    } catch (error) {
      await noteFailure(deps.storage, event.start.folder, error);
      throw error;
    }
  };
}

interface FinishEvent {
  readonly action: 'finish';
  readonly start: JobStart;
}

interface FinishAnswer {
  readonly job: string;
  readonly rows: number;
  readonly errors: Readonly<Record<string, number>>;
  readonly reasons: Reasons;
  readonly failedParts: number;
  readonly manifest: string;
}

const READING = 64;
/** Maximum number of failed pieces in the manifest. All of them are under `failed/`. */
const MAX_TOLD = 1_000;

/**
 * Writes the manifest. It requires that each piece of the plan has its report or was given up, and that each row in a
 * report has its result.
 *
 * @throws JobError PIECES_MISSING or RESULTS_MISSING otherwise
 */
export async function finishJob(
  { start: { folder } }: FinishEvent,
  storage: JobStorage,
  now: () => number,
): Promise<FinishAnswer> {
  const head = await readHead(storage, folder);
  if (head === undefined) throw new JobError('PIECES_MISSING', `${folder}: expected a plan, got none; submit it again`);
  const reports = await readAll<Report>(storage, reportKeys(folder), REPORT);
  const lastOf = new Map([...reports.values()].filter(({ last }) => last).map(({ part, piece }) => [part, piece]));
  const failed = new Map(
    [...(await readAll<FailedPiece>(storage, failedKeys(folder), FAILED_PIECE))].filter(
      // A failed piece after the last one does not exist: a call died after it wrote the last report.
      ([place, { part, piece }]) => !reports.has(place) && piece <= (lastOf.get(part) ?? piece),
    ),
  );
  const missing: string[] = [];
  const parts = await readParts(storage, planKey(folder, 1));
  for (const part of parts) {
    const count = piecesOf(part, head.pieceBytes);
    for (let piece = 0; count === undefined || piece < count; piece++) {
      const place = placeOf(part.part, piece);
      const report = reports.get(place);
      if (report === undefined && !failed.has(place)) {
        // The last report of a compressed part tells its number of pieces. If that piece failed, nothing does.
        if (count === undefined && failed.has(placeOf(part.part, piece - 1))) break;
        missing.push(reportKey('', part.part, piece));
        break;
      }
      if (report?.last) break;
    }
  }
  if (missing.length > 0) throw piecesMissing(folder, missing);
  const lost = await findWithoutResults(storage, folder, parts, reports);
  if (lost.length > 0) throw resultsMissing(folder, lost);

  const partOf = new Map(parts.map((part) => [part.part, part]));
  const at = ({ part, piece }: Pick<Report, 'part' | 'piece'>): Place =>
    placeIn(folder, partOf.get(part) as Part, piece, head);
  const checkpoints = await checkpointsOf(storage, at, [...failed.values()]);
  const total = totalOf([...reports.values()], [...checkpoints.values()]);
  const ofGivenUp = [...checkpoints].map(([{ part, piece }, { errors }]) => ({ part, piece, errors }));
  const reasons = await reasonsOf(storage, at, [...reports.values(), ...ofGivenUp]);
  const { job, bucket, key, etag, bytes, files, model, version, plannedAt } = head;
  const manifest: Manifest = {
    job,
    input: { bucket, key, etag, bytes },
    files,
    model,
    version,
    rows: total.rows,
    errors: total.errors,
    reasons,
    failedParts: [...checkpoints].slice(0, MAX_TOLD).map(([piece, { rows }]) => ({ ...piece, rows })),
    data: { prefix: dataKeys(folder), objects: total.objects, format: head.results },
    bytesIn: total.bytesIn,
    bytesOut: total.bytes,
    plannedAt,
    finishedAt: new Date(now()).toISOString(),
  };
  await storage.put(manifestKey(folder), JSON.stringify(manifest));
  const { rows, errors } = total;
  return { job, rows, errors, reasons, failedParts: failed.size, manifest: manifestKey(folder) };
}

function piecesMissing(folder: string, missing: readonly string[]): JobError {
  return new JobError(
    'PIECES_MISSING',
    `${folder}: expected a report of every piece, got none of ${someOf(missing)}; resume the job`,
  );
}

function resultsMissing(folder: string, lost: readonly string[]): JobError {
  return new JobError(
    'RESULTS_MISSING',
    `${folder}: expected one result for every row of ${someOf(lost)}, got missing or other ones under data/; ` +
      'score the file again: batchscore job submit --again',
  );
}

function someOf(names: readonly string[]): string {
  return `${names.slice(0, 3).join(', ')}${names.length > 3 ? ', …' : ''}`;
}

interface Found {
  objects: number;
  bytes: number;
  /** Rows that the first and the last object begin with. */
  readonly firstRow: number;
  lastRow: number;
}

/**
 * Returns the reports of pieces whose data objects do not match them in number, bytes or first rows. For Parquet, the
 * plan also tells the number of rows. Each result was checked against its row when it was put.
 */
async function findWithoutResults(
  storage: JobStorage,
  folder: string,
  parts: readonly Part[],
  reports: ReadonlyMap<string, Report>,
): Promise<string[]> {
  const found = new Map<string, Found>();
  for await (const { key, bytes } of storage.list(dataKeys(folder))) {
    const at = dataPlaceIn(key);
    if (at === undefined) continue;
    const place = placeOf(at.part, at.piece);
    const own = found.get(place);
    if (own === undefined) found.set(place, { objects: 1, bytes, firstRow: at.row, lastRow: at.row });
    else Object.assign(own, { objects: own.objects + 1, bytes: own.bytes + bytes, lastRow: at.row });
  }
  const partOf = new Map(parts.map((part) => [part.part, part]));
  const isWhole = ([place, { part, piece, rows, objects, bytesOut }]: readonly [string, Report]): boolean => {
    if (rows !== (plannedRows(partOf.get(part), piece) ?? rows)) return false;
    const own = found.get(place);
    if (own === undefined) return rows === 0 && objects === 0;
    return own.objects === objects && own.bytes === bytesOut && own.firstRow === 0 && own.lastRow < rows;
  };
  return [...reports].filter((entry) => !isWhole(entry)).map(([, { part, piece }]) => reportKey('', part, piece));
}

/** Returns the number of rows of a piece of Parquet, or undefined for text. */
function plannedRows(part: Part | undefined, piece: number): number | undefined {
  const found = part && pieceIn(part, piece);
  const rows = found?.file?.rows?.[found.piece];
  return rows && rows.to - rows.from;
}

async function readAll<T extends { readonly part: number; readonly piece: number }>(
  storage: JobStorage,
  prefix: string,
  schema: z.ZodType<T>,
): Promise<Map<string, T>> {
  const limit = pLimit(READING);
  const read = async (key: string): Promise<T | undefined> => {
    const text = await storage.get(key);
    return text === undefined ? undefined : parseObject(schema, text, key);
  };
  const reads: Promise<T | undefined>[] = [];
  for await (const { key } of storage.list(prefix)) {
    if (partAndPieceIn(key) !== undefined) reads.push(limit(() => read(key)));
  }
  const all = (await Promise.all(reads)).filter((one) => one !== undefined);
  return new Map(all.map((one) => [placeOf(one.part, one.piece), one]));
}

function placeOf(part: number, piece: number): string {
  return `${part}-${piece}`;
}

/** Reads the checkpoints of failed pieces: rows that earlier calls have scored. */
async function checkpointsOf(
  storage: JobStorage,
  at: (piece: FailedPiece) => Place,
  failed: readonly FailedPiece[],
): Promise<Map<FailedPiece, Checkpoint>> {
  const limit = pLimit(READING);
  const read = async (one: FailedPiece) => [one, await readCheckpoint(storage, at(one))] as const;
  return new Map(await Promise.all(failed.map((one) => limit(() => read(one)))));
}

function totalOf(
  reports: readonly Report[],
  checkpoints: readonly Checkpoint[],
): Checkpoint & { readonly bytesIn: number } {
  const written = reports.map(({ bytesOut, ...report }): Checkpoint => ({ ...report, bytes: bytesOut }));
  const bytesIn = reports.reduce((sum, report) => sum + report.bytesIn, 0);
  return { ...[...written, ...checkpoints].reduce(sumOf, NOTHING), bytesIn };
}

/** Finds the first error result of each code, in input order, in the metadata of the data objects. */
async function reasonsOf(
  storage: JobStorage,
  at: (piece: Pick<Report, 'part' | 'piece'>) => Place,
  pieces: readonly Pick<Report, 'part' | 'piece' | 'errors'>[],
): Promise<Reasons> {
  const reasons: Record<string, Reasons[string]> = {};
  const lacks = (errors: Report['errors']) => Object.keys(errors).some((code) => !Object.hasOwn(reasons, code));
  const inOrder = pieces.toSorted((one, other) => one.part - other.part || one.piece - other.piece);
  for (const piece of inOrder) {
    for (let row = 0; lacks(piece.errors); ) {
      const key = dataKey(at(piece), row);
      const there = await storage.look(key);
      if (there === undefined) break;
      const answered = parseObject(ANSWERED, there.about, key);
      row += answered.rows;
      for (const [code, reason] of Object.entries(answered.reasons ?? {})) reasons[code] ??= reason;
    }
  }
  return reasons;
}

interface ExplainEvent {
  readonly action: 'explain';
  readonly start: JobStart & {
    readonly error?: { readonly Error?: string | undefined; readonly Cause?: string | undefined } | undefined;
  };
}

/** Returns the failure that a call wrote, or what Step Functions knows: a failed map names no reason. */
async function explainJob({ start }: ExplainEvent, storage: JobStorage): Promise<JobFailure> {
  const said = await storage.get(failureKey(start.folder));
  if (said !== undefined) return parseObject(FAILURE, said, failureKey(start.folder));
  const { Error: code = 'unknown', Cause: cause = 'the state machine ended without saying why' } = start.error ?? {};
  return { code, message: messageIn(cause) };
}

/** Writes the reason why a job cannot continue. Other errors are ignored. */
export async function noteFailure(storage: JobStorage, folder: string, error: unknown): Promise<void> {
  if (!(error instanceof JobError)) return;
  const failure: JobFailure = { code: error.name, message: error.message };
  await storage.put(failureKey(folder), JSON.stringify(failure));
}

function messageIn(cause: string): string {
  const thrown = parseIfJson(cause);
  return isObject(thrown) && typeof thrown.errorMessage === 'string' ? thrown.errorMessage : cause;
}
