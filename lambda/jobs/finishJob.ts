import pLimit from 'p-limit';
import * as z from 'zod';
import type { Announce, JobEnded } from '../aws/announce.ts';
import { isObject, parseIfJson } from '../core/json.ts';
import {
  dataKey,
  dataKeys,
  dataPlaceIn,
  failedKeys,
  failureKey,
  manifestKey,
  parseObject,
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
  JobError,
  type JobFailure,
  type JobStart,
  type JobStorage,
  type Manifest,
  type Part,
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
  /** As Step Functions does it. */
  readonly describe: (executionArn: string) => Promise<EndedExecution>;
  /** Tells others. @default nobody is told */
  readonly announce?: Announce | undefined;
}

/** What EventBridge tells of an execution that has ended, also of one whose key is the deployer's. */
interface StatusChange {
  readonly detail: { readonly executionArn: string; readonly status: string };
}

/** What of an execution `DescribeExecution` tells. */
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
 * What others are told of a job that has ended, in whatever way.
 *
 * @throws Error where Step Functions does not describe its end yet: Lambda makes the call again, after one minute and two
 * @see https://docs.aws.amazon.com/step-functions/latest/apireference/API_DescribeExecution.html on its consistency
 */
async function jobEnded(
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

/** The function that has no models: it starts jobs when S3 tells of objects, and finishes them. */
export function createControlHandler(deps: ControlDependencies): ControlHandler {
  return async (event) => {
    if ('detail' in event) {
      const ended = await jobEnded(event.detail, await deps.describe(event.detail.executionArn), deps.storage);
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

/** What an execution ends with. */
interface FinishAnswer {
  readonly job: string;
  readonly rows: number;
  readonly errors: Readonly<Record<string, number>>;
  readonly reasons: Reasons;
  readonly failedParts: number;
  readonly manifest: string;
}

/** Reports read at a time. */
const READING = 64;
/** Of pieces that were given up so many are told of in the manifest; all of them lie under `failed/`. */
const MAX_TOLD = 1_000;

/**
 * Writes the manifest, once every piece of the plan has its report or was given up, and every row that a report counts
 * has its result.
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
      // Behind the last piece there is none: calls died after its report, and took the blame for it.
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
        // How many pieces a compressed part has is known from its last report, or not at all where that one failed.
        if (count === undefined && failed.has(placeOf(part.part, piece - 1))) break;
        missing.push(reportKey('', part.part, piece));
        break;
      }
      if (report?.last) break;
    }
  }
  if (missing.length > 0) throw piecesMissing(folder, missing);
  const lost = await withoutResults(storage, folder, parts, reports);
  if (lost.length > 0) throw resultsMissing(folder, lost);

  const checkpoints = await checkpointsOf(storage, folder, [...failed.values()]);
  const total = totalOf([...reports.values()], [...checkpoints.values()]);
  const ofGivenUp = [...checkpoints].map(([{ part, piece }, { errors }]) => ({ part, piece, errors }));
  const reasons = await reasonsOf(storage, folder, [...reports.values(), ...ofGivenUp]);
  const { job, bucket, key, etag, bytes, model, version, plannedAt } = head;
  const manifest: Manifest = {
    job,
    input: { bucket, key, etag, bytes },
    model,
    version,
    rows: total.rows,
    errors: total.errors,
    reasons,
    failedParts: [...checkpoints].slice(0, MAX_TOLD).map(([piece, { rows }]) => ({ ...piece, rows })),
    data: { prefix: dataKeys(folder), objects: total.objects },
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
    `${folder}: expected one result for every row of ${someOf(lost)}, got fewer or others under data/; ` +
      'score the file anew: batchscore job submit --again',
  );
}

function someOf(names: readonly string[]): string {
  return `${names.slice(0, 3).join(', ')}${names.length > 3 ? ', …' : ''}`;
}

/** What data objects there are of a piece. */
interface Found {
  objects: number;
  bytes: number;
  /** The rows that the first and the last of them begin with. */
  readonly firstRow: number;
  lastRow: number;
}

/**
 * The reports of pieces whose results are not all there. Every result was checked against its row when it was put; here
 * the objects are: as many, as large and from the rows on that the report says. Of Parquet the plan knows how many rows
 * there are.
 */
async function withoutResults(
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
  const rowsOf = new Map(
    parts.flatMap(({ part, rows = [] }) => rows.map(({ from, to }, piece) => [placeOf(part, piece), to - from])),
  );
  const isWhole = ([place, { rows, objects, bytesOut }]: readonly [string, Report]): boolean => {
    if (rows !== (rowsOf.get(place) ?? rows)) return false;
    const own = found.get(place);
    if (own === undefined) return rows === 0 && objects === 0;
    return own.objects === objects && own.bytes === bytesOut && own.firstRow === 0 && own.lastRow < rows;
  };
  return [...reports].filter((entry) => !isWhole(entry)).map(([, { part, piece }]) => reportKey('', part, piece));
}

/** Small JSON objects by part and piece. */
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
    if (placeIn(key) !== undefined) reads.push(limit(() => read(key)));
  }
  const all = (await Promise.all(reads)).filter((one) => one !== undefined);
  return new Map(all.map((one) => [placeOf(one.part, one.piece), one]));
}

function placeOf(part: number, piece: number): string {
  return `${part}-${piece}`;
}

/** What stands of pieces that were given up: rows that calls had scored before. */
async function checkpointsOf(
  storage: JobStorage,
  folder: string,
  failed: readonly FailedPiece[],
): Promise<Map<FailedPiece, Checkpoint>> {
  const limit = pLimit(READING);
  const read = async (one: FailedPiece) => [one, await readCheckpoint(storage, { folder, ...one })] as const;
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

/**
 * The first error result of each code, in the order of the input. What is said about an object of results tells which
 * codes it has, so that as many are read as there are codes.
 */
async function reasonsOf(
  storage: JobStorage,
  folder: string,
  pieces: readonly Pick<Report, 'part' | 'piece' | 'errors'>[],
): Promise<Reasons> {
  const reasons: Record<string, Reasons[string]> = {};
  const lacks = (errors: Report['errors']) => Object.keys(errors).some((code) => !Object.hasOwn(reasons, code));
  const inOrder = pieces.toSorted((one, other) => one.part - other.part || one.piece - other.piece);
  for (const { part, piece, errors } of inOrder) {
    for (let row = 0; lacks(errors); ) {
      const key = dataKey(folder, part, piece, row);
      const there = await storage.look(key);
      if (there === undefined) break;
      const answered = parseObject(ANSWERED, there.about, key);
      row += answered.rows;
      if (!lacks(answered.errors)) continue;
      for (const { code, message_id, error } of errorsIn((await storage.get(key)) ?? '')) {
        reasons[code] ??= { message_id, error };
      }
    }
  }
  return reasons;
}

const ERROR_RESULT = z.object({ message_id: z.string(), code: z.string(), error: z.string() });

/** The error results among lines of results; a line has several where its request was a list of them. */
function* errorsIn(lines: string): Generator<z.infer<typeof ERROR_RESULT>> {
  for (const line of lines.split('\n')) {
    if (!line.includes('"code":')) continue;
    for (const result of [JSON.parse(line)].flat()) {
      const parsed = ERROR_RESULT.safeParse(result);
      if (parsed.success) yield parsed.data;
    }
  }
}

interface ExplainEvent {
  readonly action: 'explain';
  readonly start: JobStart & {
    readonly error?: { readonly Error?: string | undefined; readonly Cause?: string | undefined } | undefined;
  };
}

/** What a call of the job has said of it, before what Step Functions knows: a map says only that one of its children failed. */
async function explainJob({ start }: ExplainEvent, storage: JobStorage): Promise<JobFailure> {
  const said = await storage.get(failureKey(start.folder));
  if (said !== undefined) return parseObject(FAILURE, said, failureKey(start.folder));
  const { Error: code = 'unknown', Cause: cause = 'the state machine ended without saying why' } = start.error ?? {};
  return { code, message: messageIn(cause) };
}

/** Says why the job cannot go on, for whoever looks, and passes the error on. */
export async function noteFailure(storage: JobStorage, folder: string, error: unknown): Promise<void> {
  if (!(error instanceof JobError)) return;
  const failure: JobFailure = { code: error.name, message: error.message };
  await storage.put(failureKey(folder), JSON.stringify(failure));
}

/** Lambda's errors come as JSON with the message in it. */
function messageIn(cause: string): string {
  const thrown = parseIfJson(cause);
  return isObject(thrown) && typeof thrown.errorMessage === 'string' ? thrown.errorMessage : cause;
}
