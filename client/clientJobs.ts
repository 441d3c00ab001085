import { setTimeout } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { HeadObjectCommand, type S3Client } from '@aws-sdk/client-s3';
import {
  DescribeExecutionCommand,
  type DescribeExecutionCommandOutput,
  type SFNClient,
  StopExecutionCommand,
} from '@aws-sdk/client-sfn';
import type * as z from 'zod';
import { createExecutions } from '../lambda/aws/jobExecutions.ts';
import { createJobStorage } from '../lambda/aws/jobStorage.ts';
import { hasCode } from '../lambda/core/failure.ts';
import type { Format, InputFile, JobInput, JobStorage } from '../lambda/jobs/jobFiles.ts';
import { cancelledKey, failureKey, headKey, manifestKey, parseObject, reportKeys } from '../lambda/jobs/jobObjects.ts';
import {
  FAILURE,
  type FailedPiece,
  JOB_HEAD,
  JOB_START,
  type JobHead,
  type JobStart,
  MANIFEST,
  type Reasons,
  type Spec,
} from '../lambda/jobs/jobTypes.ts';
import { withSeparator } from '../lambda/jobs/rowRequests.ts';
import {
  etagOf,
  isListing,
  jobId,
  listFiles,
  readSpec,
  settingsOf,
  startJob,
  startsByItself,
} from '../lambda/jobs/submitJob.ts';

export interface JobOptions extends Spec {
  /** Maximum calls at a time, 1 to 10,000, but no more than the deployment allows. @default the deployment's */
  readonly concurrency?: number | undefined;
  /** Prefix of the job's folder: the deployment's output prefix, or a key prefix below it that ends in `/`. */
  readonly outputPrefix?: string | undefined;
  /** True to start a new job with its own folder, even if the same was submitted before. @default false */
  readonly again?: boolean | undefined;
}

export interface SubmittedJob {
  /** Job ID for the other methods. */
  readonly job: string;
  /** False if the same object version was submitted before with the same options. The job is then that earlier one. */
  readonly isNew: boolean;
  /** Prefix of the keys of its objects. */
  readonly folder: string;
}

export interface WaitOptions {
  /** Called with the status each time it is read. */
  readonly onStatus?: ((status: JobStatus) => void) | undefined;
  /** Milliseconds between two reads. @default the time waited so far, at least 500 and at most 5,000 */
  readonly pollMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Jobs of a deployment, which score files in S3. */
export interface Jobs {
  /**
   * Starts the job of an object, `s3://bucket/key`, in its current version. A key that ends in `/` stands for all
   * objects under it, one with `*` for those that match, and one that ends in `.manifest` for those that it names. The
   * settings are those of the nearest `_job.json` above it, overridden by `options`, which have the same format. For
   * example, columns may be ranges such as `p0..p63`. If putting the object has already started a job with these
   * settings, that job is returned.
   *
   * @throws Error if an option is invalid, there is no object or one outside the prefix that jobs read, it has started
   * a job with other settings, or the columns are too many for Step Functions
   */
  submit(uri: string, options?: JobOptions): Promise<SubmittedJob>;
  /** @throws Error if the job does not exist */
  status(job: string): Promise<JobStatus>;
  /** Waits until the job ends, with any outcome. @throws the signal's reason if it aborts */
  wait(job: string, options?: WaitOptions): Promise<JobStatus>;
  /**
   * Cancels the job. No further calls start, active calls end after their piece, and finished output stays.
   * @throws Error if the job has ended
   */
  cancel(job: string): Promise<void>;
  /** Scores the pieces without a report, of a job that has ended. @throws Error if the job is running */
  resume(job: string): Promise<SubmittedJob>;
  /**
   * Yields all results as chunks of JSON lines, or of one CSV table: files in the order of their paths, and the rows of
   * each in order.
   *
   * @throws Error if the job is not done or its results are Parquet, and after the last chunk if results are missing
   */
  results(job: string): AsyncGenerator<Uint8Array>;
  /** Yields the objects with the results, in the order of their keys. @throws Error like {@link results} */
  objects(job: string): AsyncGenerator<ResultObject>;
}

export interface ResultObject {
  /** Key without the prefix `data/` of the job. It begins with the path of the file if the job has many files. */
  readonly path: string;
  readonly format: Format;
  readonly bytes: Uint8Array;
}

export interface JobSettings {
  readonly stateMachineArn: string;
  readonly bucket: string;
  readonly inputPrefix: string;
  readonly outputPrefix: string;
  readonly concurrency: number;
  readonly s3: S3Client;
  readonly sfn: SFNClient;
}

const MIN_POLL_MS = 500;
const MAX_POLL_MS = 5_000;

export function createJobs(settings: JobSettings): Jobs {
  const { s3, sfn, bucket, stateMachineArn } = settings;
  const storage = createJobStorage({ s3, bucket });
  const executions = createExecutions({ sfn, stateMachineArn });
  const describe = async (job: string): Promise<Execution> => {
    const latest = await latestRun(settings, job);
    if (latest === undefined) {
      throw new Error(
        `job: expected one that was submitted here, got '${job}'; executions are forgotten after 90 days`,
      );
    }
    return latest;
  };
  const jobs: Jobs = {
    async submit(uri, { outputPrefix = settings.outputPrefix, again, ...options } = {}) {
      // JSON removes undefined values, as in a `_job.json`.
      const asked = readSpec(JSON.stringify(options));
      if (!outputPrefix.startsWith(settings.outputPrefix) || !outputPrefix.endsWith('/')) {
        throw new Error(
          `output: expected keys under s3://${bucket}/${settings.outputPrefix}, got ${outputPrefix}; choose a folder there`,
        );
      }
      const { input, files } = await inputOf(settings, storage, uri);
      const folder = await settingsOf(input.key, { storage, inputPrefix: settings.inputPrefix });
      const concurrency = Math.min(
        asked.concurrency ?? folder.concurrency ?? settings.concurrency,
        settings.concurrency,
      );
      const spec = { ...folder.spec, ...asked.spec };
      if (!again) refuseStarted(settings, uri, files);
      const own = again || files.length > 0 ? undefined : await startedByItself(settings, input, folder.spec, spec);
      if (own !== undefined) return { job: own.job, isNew: false, folder: own.folder };
      // Without this check, a running job would be started again.
      const job = jobId(input, spec);
      const known = again ? undefined : await describeRun(settings, job);
      if (known !== undefined) return { job, isNew: false, folder: known.start.folder };
      const { start, isNew } = await startJob(input, { spec, outputPrefix, concurrency, again }, executions);
      // A job that was started before has its results in the folder that it was given then.
      const { folder: where } = isNew ? start : (await describe(start.job)).start;
      return { job: start.job, isNew, folder: where };
    },
    status: async (job) => statusOf(storage, await describe(job)),
    async wait(job, { onStatus, pollMs, signal } = {}) {
      const startedAt = Date.now();
      for (;;) {
        const status = await jobs.status(job);
        onStatus?.(status);
        if (status.state !== 'running') return status;
        await pause(pollMs ?? Math.min(MAX_POLL_MS, Math.max(MIN_POLL_MS, Date.now() - startedAt)), signal);
      }
    },
    async cancel(job) {
      const { start, executionArn, status } = await describe(job);
      if (status !== 'RUNNING') throw new Error(`job ${job}: expected one that is running, it has ended`);
      await storage.put(cancelledKey(start.folder), 'somebody cancelled the job\n');
      await sfn.send(
        new StopExecutionCommand({ executionArn, error: 'CANCELLED', cause: 'somebody cancelled the job' }),
      );
    },
    async resume(job) {
      const { start, status } = await describe(job);
      if (status === 'RUNNING')
        throw new Error(`job ${job}: expected one that has ended, it is running; wait, or cancel it`);
      const run = start.run + 1;
      const isNew = await executions.start(runName(job, run), { ...start, run });
      return { job, isNew, folder: start.folder };
    },
    async *results(job) {
      let isFirst = true;
      for await (const { format, bytes } of jobs.objects(job)) {
        if (format === 'parquet') {
          throw new Error(`job ${job}: expected results that can be joined, got Parquet; read its objects one by one`);
        }
        yield format === 'csv' && !isFirst ? withoutHeader(bytes) : bytes;
        isFirst = false;
      }
    },
    async *objects(job) {
      const { start } = await describe(job);
      const manifest = await parsed(storage, manifestKey(start.folder), MANIFEST);
      if (manifest === undefined)
        throw new Error(`job ${job}: expected it to be done, it has no manifest; wait, or resume it`);
      const { data, bytesOut } = manifest;
      let [objects, bytes] = [0, 0];
      for await (const { key, etag, bytes: size } of storage.list(data.prefix)) {
        objects += 1;
        bytes += size;
        const content = await storage.readRange({ bucket, key, etag, bytes: size }, { start: 0, end: size });
        yield { path: key.slice(data.prefix.length), format: data.format, bytes: content };
      }
      if (objects === data.objects && bytes === bytesOut) return;
      throw new Error(
        `job ${job}: expected ${data.objects} objects of ${bytesOut} bytes, got ${objects} of ${bytes}; score the file ` +
          'anew, with batchscore job submit --again',
      );
    },
  };
  return jobs;
}

/** @returns the input of a job, and its files if it is a prefix or a glob */
async function inputOf(
  { s3, bucket, inputPrefix }: JobSettings,
  storage: JobStorage,
  uri: string,
): Promise<{ readonly input: JobInput; readonly files: readonly InputFile[] }> {
  const [, asked, key] = /^s3:\/\/([^/]+)\/(.+)$/s.exec(uri) ?? [];
  if (asked !== bucket || !key?.startsWith(inputPrefix)) {
    throw new Error(
      `input: expected an object where jobs read, s3://${bucket}/${inputPrefix}…, got '${uri}'; put it there, as aws s3 cp FILE does`,
    );
  }
  if (isListing(key)) {
    const files = await listFiles(storage, { bucket, key });
    const bytes = files.reduce((sum, file) => sum + file.bytes, 0);
    return { input: { bucket, key, etag: etagOf(files), bytes }, files };
  }
  try {
    const { ETag: etag, ContentLength: bytes = 0 } = await s3.send(new HeadObjectCommand({ Bucket: bucket, Key: key }));
    if (etag === undefined) throw new Error('S3 told no ETag');
    return { input: { bucket, key, etag, bytes }, files: [] };
  } catch (cause) {
    if (hasCode(cause, 'ECONNREFUSED')) throw cause;
    throw new Error(`input: expected ${uri} to be there, it cannot be read; check the key and the permissions`, {
      cause,
    });
  }
}

/** @throws Error if files of a prefix or a glob start jobs by themselves, because they would be scored twice */
function refuseStarted(settings: JobSettings, uri: string, files: readonly InputFile[]): void {
  const started = files.find(({ key }) => startsByItself(key, settings));
  if (started === undefined) return;
  throw new Error(
    `input: expected files in a folder whose name begins with _ in ${uri}, got ${started.key}, which starts a job by ` +
      'itself as soon as it is put; move the files, or score them twice with again (batchscore job submit --again)',
  );
}

/**
 * Returns the job that putting the object has started, if it has the settings of the request.
 *
 * @returns undefined if there is no such job, it could not score anything, or the requested job has the same name
 * anyway
 * @throws Error if the job has other settings, or its settings are not known yet, because the object would be scored
 * twice
 */
async function startedByItself(
  settings: JobSettings,
  input: JobInput,
  ofFolder: Spec,
  spec: Spec,
): Promise<JobStart | undefined> {
  const name = jobId(input, ofFolder);
  if (!startsByItself(input.key, settings) || name === jobId(input, spec)) return undefined;
  const latest = await latestRun(settings, name);
  if (latest !== undefined) {
    const planned = await parsed(createJobStorage(settings), headKey(latest.start.folder), JOB_HEAD);
    if (planned === undefined && latest.status !== 'RUNNING') return undefined;
    if (planned !== undefined && isAskedFor(spec, planned)) return latest.start;
  }
  throw new Error(
    `input: expected the settings of its folder for ${input.key}, which starts a job by itself as soon as it is put ` +
      `(${name}), got others; put it into a folder whose name begins with _, say them in a _job.json before it is put, ` +
      'or ask for a second job with again (batchscore job submit --again)',
  );
}

/** Returns true if a planned job has the settings of the request. */
function isAskedFor(asked: Spec, head: JobHead): boolean {
  const {
    model,
    version,
    format,
    compression,
    inputs = {},
    keep = [],
    separator,
    missing,
    results = 'jsonl',
  } = head.format === 'csv' ? withSeparator(head.key, asked) : asked;
  const columnsOf = new Map([...(head.inputs ?? []).map(({ input, columns }) => [input, columns] as const)]);
  return (
    isSameOrOpen(model, head.model) &&
    isSameOrOpen(version, head.version) &&
    isSameOrOpen(format, head.format) &&
    isSameOrOpen(compression, head.compression) &&
    separator === head.separator &&
    missing === head.missing &&
    results === head.results &&
    isDeepStrictEqual(keep, head.keep) &&
    Object.entries(inputs).every(([input, columns]) => isDeepStrictEqual(columns, columnsOf.get(input)))
  );
}

function isSameOrOpen(asked: string | undefined, planned: string): boolean {
  return asked === undefined || asked === planned;
}

const NEWLINE = 10;
const QUOTE = 34;

/** Returns CSV without its first line. A line break in quotes does not end the line. */
function withoutHeader(bytes: Uint8Array): Uint8Array {
  let isQuoted = false;
  const end = bytes.findIndex((byte) => {
    if (byte === QUOTE) isQuoted = !isQuoted;
    return byte === NEWLINE && !isQuoted;
  });
  return bytes.subarray(end + 1);
}

/** @throws the signal's reason if it aborts */
async function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  try {
    await setTimeout(ms, undefined, { signal });
  } catch (error) {
    signal?.throwIfAborted();
    throw error;
  }
}

/** Maximum number of runs to look for. Each resume adds one. */
const MAX_RUNS = 1_000;

interface Execution {
  readonly executionArn: string;
  readonly status: DescribeExecutionCommandOutput['status'];
  readonly start: JobStart;
  readonly error: string | undefined;
  readonly cause: string | undefined;
}

async function latestRun(settings: JobSettings, job: string): Promise<Execution | undefined> {
  let latest: Execution | undefined;
  for (let run = 1; run <= MAX_RUNS; run++) {
    const execution = await describeRun(settings, runName(job, run));
    if (execution === undefined) return latest;
    latest = execution;
  }
  return latest;
}

function runName(job: string, run: number): string {
  return run === 1 ? job : `${job}-${run}`;
}

async function describeRun({ sfn, stateMachineArn }: JobSettings, name: string): Promise<Execution | undefined> {
  const executionArn = `${stateMachineArn.replace(':stateMachine:', ':execution:')}:${name}`;
  try {
    const answer = await sfn.send(new DescribeExecutionCommand({ executionArn }));
    const start = parseObject(JOB_START, answer.input ?? '', executionArn);
    return { executionArn, status: answer.status, start, error: answer.error, cause: answer.cause };
  } catch (error) {
    if (error instanceof Error && error.name === 'ExecutionDoesNotExist') return undefined;
    throw error;
  }
}

export interface JobStatus {
  readonly job: string;
  /**
   * `done` means that all rows have results, except those of `failedParts`. `failed` and `cancelled` jobs can be
   * resumed.
   */
  readonly state: 'running' | 'done' | 'failed' | 'cancelled';
  /** Input as it was submitted, `s3://bucket/key`. `output` is the URI of the job's folder in the same form. */
  readonly input: string;
  readonly output: string;
  /**
   * Number of scored pieces and of all pieces. Undefined before the job is planned. `all` is undefined if only reading
   * the complete input would tell.
   */
  readonly pieces: { readonly done: number; readonly all: number | undefined } | undefined;
  /** Format of the results, of a job that is done. */
  readonly results?: Format | undefined;
  /** Number of files, of a job that is done and whose input is not one object. */
  readonly files?: number | undefined;
  /** Number of rows, of a job that is done. */
  readonly rows?: number | undefined;
  /** Error results by code, of a job that is done. */
  readonly errors?: Readonly<Record<string, number>> | undefined;
  /** First error result of each code, of a job that is done. */
  readonly reasons?: Reasons | undefined;
  readonly failedParts?: readonly FailedPiece[] | undefined;
  readonly code?: string | undefined;
  readonly message?: string | undefined;
}

const STATES = { RUNNING: 'running', SUCCEEDED: 'done', ABORTED: 'cancelled' } as const;

async function statusOf(storage: JobStorage, { start, status, error, cause }: Execution): Promise<JobStatus> {
  const { job, bucket, key, folder } = start;
  const state = STATES[status as keyof typeof STATES] ?? 'failed';
  const about = { job, state, input: `s3://${bucket}/${key}`, output: `s3://${bucket}/${folder}` };
  const pieces = await piecesOf(storage, folder);
  if (state === 'done') {
    const manifest = await parsed(storage, manifestKey(folder), MANIFEST);
    if (manifest === undefined)
      throw new Error(`${about.output}: expected the manifest of a job that is done, got none`);
    const { files, rows, errors, reasons, failedParts, data } = manifest;
    return { ...about, pieces, results: data.format, files, rows, errors, reasons, failedParts };
  }
  if (state === 'running') return { ...about, pieces };
  const said = await parsed(storage, failureKey(folder), FAILURE);
  return { ...about, pieces, code: said?.code ?? error ?? status, message: said?.message ?? cause };
}

async function piecesOf(storage: JobStorage, folder: string): Promise<JobStatus['pieces']> {
  const head = await parsed(storage, headKey(folder), JOB_HEAD);
  if (head === undefined) return undefined;
  let done = 0;
  for await (const _ of storage.list(reportKeys(folder))) done += 1;
  return { done, all: head.pieces };
}

async function parsed<T>(storage: JobStorage, key: string, schema: z.ZodType<T>): Promise<T | undefined> {
  const text = await storage.get(key);
  return text === undefined ? undefined : parseObject(schema, text, key);
}
