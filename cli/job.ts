import { mkdir } from 'node:fs/promises';
import { dirname, relative, resolve, sep } from 'node:path';
import { WriteStream } from 'node:tty';
import type { S3Client } from '@aws-sdk/client-s3';
import type { Batchscore, JobOptions, JobStatus, ResultObject } from '../client/index.ts';
import { createJobStorage } from '../lambda/aws/jobStorage.ts';
import { type Clock, SYSTEM_CLOCK } from '../lambda/core/concurrency.ts';
import { plural } from '../lambda/core/failure.ts';
import { JOB_MEMORY_MB, JOB_RANGES } from '../lambda/core/limits.ts';
import { findFiles } from '../lambda/jobs/inputFiles.ts';
import { COMPRESSIONS, FORMATS, type InputFile, type JobInput, type JobStorage } from '../lambda/jobs/jobFiles.ts';
import { countRows, FILES_A_PART } from '../lambda/jobs/planJob.ts';
import { formatOfResults } from '../lambda/jobs/resultFiles.ts';
import { isListing, listFiles } from '../lambda/jobs/submitJob.ts';
import {
  COLUMN_OPTIONS,
  columnSpec,
  knownName,
  oneOf,
  parseCommand,
  type Streams,
  UsageError,
  wholeNumber,
} from './arguments.ts';
import { dollars, duration } from './format.ts';
import { connectToJobs, JOB_DEPLOYMENT_HELP, JOB_DEPLOYMENT_OPTIONS } from './network/deployment.ts';
import { PRICES, type Prices } from './priceList.ts';
import { listenForInterruption, progressBar, writeLine } from './terminal.ts';
import { refuseFolder, writeWhole } from './textFiles.ts';

const HELP = `Usage: batchscore job ACTION [arguments] [options]

Scores files in S3 in place: JSON lines, CSV or Parquet, any size. One row out for every row in, in
order, under the output prefix of the deployment.

  submit s3://BUCKET/KEY  start the job of an object; the same version, asked for in the same
                          way, is one job. One that started a job as it was put is that job.
                          Prints its ID, with --json as an object. A KEY that ends in / stands for
                          all objects under it, one with * for those that match, and one that ends
                          in .manifest for those that it names
  status JOB              how it stands
  wait JOB                wait until it has ended
  cancel JOB              end it; what is finished stays
  resume JOB              score what has no result, of a job that has ended
  fetch JOB --out FILE    get all results as one file, of JSON lines or CSV
  fetch JOB --out FOLDER/ get the objects with the results, also of Parquet

  of submit:
  --model NAME            the model (default: the deployment's)
  --model-version N       its version (default: the highest)
  --inputs INPUT=COLUMNS  columns, or keys of plain objects, that make up an input, such as
                          image=p0..p63 or x=a,b; for each input that has not the name of its
                          only column
  --keep COLUMNS          columns or keys to carry beside the results
  --separator C           of CSV: what stands between fields, such as ';', or tab (default , and a tab
                          in .tsv)
  --missing VALUE         what empty cells become, such as nan or 0 (default: an error)
  --format FORMAT         jsonl, csv or parquet (default: by the key's ending)
  --compression NAME      none, gzip or zstd (default: by the key's ending)
  --results FORMAT        write the results as jsonl, csv or parquet; the last two need rows with columns
                          (default jsonl)
  --concurrency N         most calls at a time (default: the deployment's)
  --out s3://BUCKET/KEY/  a folder under the output prefix (default: the output prefix)
  --again                 start a new job with a folder of its own, whatever was submitted before
  --wait                  wait until it has ended
  --estimate              print parts, rows, dollars and minutes, and start nothing
  --rows-per-second N     of the estimate: what one call scores (default 20000)
  --memory MB             of the estimate: the function's memory (default 1769)

${JOB_DEPLOYMENT_HELP}
  --json                  print the answer as one JSON object
  --help                  show this

Exit code: 0 started, or done and all rows scored, 3 done, and some rows were answered with an error
or given up, 1 the job failed or was cancelled, 2 wrong usage, 130 stopped by Ctrl-C, 143 by SIGTERM:
the job goes on.
`;

const OPTIONS = { ...JOB_DEPLOYMENT_OPTIONS, json: { type: 'boolean', default: false } } as const;

const SOME_ROWS_FAILED = 3;

const ACTIONS = {
  submit: submitJob,
  status: showStatus,
  wait: waitForJob,
  cancel: cancelJob,
  resume: resumeJob,
  fetch: fetchResults,
} satisfies Readonly<Record<string, (args: readonly string[], telling: Telling) => Promise<number>>>;

const NAMES = Object.keys(ACTIONS) as (keyof typeof ACTIONS)[];

interface Telling extends Pick<Streams, 'stderr'> {
  readonly clock: Clock;
}

async function run(
  [name, ...args]: readonly string[],
  { stderr }: Pick<Streams, 'stderr'> = process,
  clock = SYSTEM_CLOCK,
): Promise<number> {
  return ACTIONS[knownName('an action', name, NAMES)](args, { stderr, clock });
}

export const job = { help: HELP, run };

const SUBMIT_OPTIONS = {
  ...OPTIONS,
  model: { type: 'string' },
  'model-version': { type: 'string' },
  ...COLUMN_OPTIONS,
  format: { type: 'string' },
  compression: { type: 'string' },
  results: { type: 'string' },
  concurrency: { type: 'string' },
  out: { type: 'string' },
  again: { type: 'boolean', default: false },
  wait: { type: 'boolean', default: false },
  estimate: { type: 'boolean', default: false },
  'rows-per-second': { type: 'string', default: '20000' },
  memory: { type: 'string', default: String(JOB_MEMORY_MB.default) },
} as const;

async function submitJob(args: readonly string[], telling: Telling): Promise<number> {
  const { options, positionals } = parseCommand(args, ['s3://BUCKET/KEY'], SUBMIT_OPTIONS);
  const [uri = ''] = positionals;
  const { min, max } = JOB_RANGES.concurrency;
  const { concurrency: said, again } = options;
  const calls = said === undefined ? {} : { concurrency: wholeNumber('--concurrency', said, min, max) };
  const spec = specOf(options);
  const { client, close, bucket, s3, concurrency: granted } = await connectToJobs(options);
  try {
    if (options.estimate) {
      const rowsPerSecond = wholeNumber('--rows-per-second', options['rows-per-second'], 1, 1e9);
      const memoryMb = wholeNumber('--memory', options.memory, JOB_MEMORY_MB.min, JOB_MEMORY_MB.max);
      const concurrency = Math.min(calls.concurrency ?? granted, granted);
      const expected = await estimateOf(s3, uri, spec, { concurrency, rowsPerSecond, memoryMb });
      print(options.json, expected, describeEstimate(expected));
      return 0;
    }
    const outputPrefix = options.out === undefined ? {} : { outputPrefix: prefixIn(bucket, options.out) };
    const submitted = await client.jobs.submit(uri, { ...spec, ...calls, ...outputPrefix, again });
    const { job, isNew, folder } = submitted;
    const before = isNew || options.wait ? undefined : await client.jobs.status(job);
    const stands = before === undefined ? '' : `; ${describe(before)}`;
    const was = isNew ? 'is submitted' : 'was submitted before';
    const tell = (): void =>
      print(
        options.json,
        submitted,
        `${job} ${was}; results go to s3://${bucket}/${folder}${stands}${isNew ? '' : '; --again scores the file anew'}`,
        ...(before === undefined ? [] : firstErrors(before)),
      );
    if (options.wait) return await waitAndReport(client, job, options.json, telling, options.json ? undefined : tell);
    tell();
    return before === undefined || before.state === 'running' ? 0 : exitCodeOf(before);
  } finally {
    await close();
  }
}

interface SpecValues {
  readonly model?: string | undefined;
  readonly 'model-version'?: string | undefined;
  readonly inputs?: readonly string[] | undefined;
  readonly keep?: string | undefined;
  readonly separator?: string | undefined;
  readonly missing?: string | undefined;
  readonly format?: string | undefined;
  readonly compression?: string | undefined;
  readonly results?: string | undefined;
}

function specOf(values: SpecValues): JobOptions {
  const { model, 'model-version': version } = values;
  const format = oneOf('--format', values.format, FORMATS);
  const compression = oneOf('--compression', values.compression, COMPRESSIONS);
  const results = oneOf('--results', values.results, FORMATS);
  return {
    ...(model !== undefined && { model }),
    ...(version !== undefined && { version }),
    ...(format !== undefined && { format }),
    ...(compression !== undefined && { compression }),
    ...(results !== undefined && { results }),
    ...columnSpec(values),
  };
}

function prefixIn(bucket: string, uri: string): string {
  const place = `s3://${bucket}/`;
  if (!uri.startsWith(place))
    throw new UsageError(`--out: expected a folder in the bucket of jobs, ${place}…, got '${uri}'`);
  const prefix = uri.slice(place.length);
  return prefix.endsWith('/') ? prefix : `${prefix}/`;
}

async function estimateOf(
  s3: S3Client,
  uri: string,
  spec: JobOptions,
  of: { readonly concurrency: number; readonly rowsPerSecond: number; readonly memoryMb: number },
): Promise<Estimate> {
  const [, bucket = '', key = ''] = /^s3:\/\/([^/]+)\/(.+)$/s.exec(uri) ?? [];
  if (key === '') throw new UsageError(`expected s3://BUCKET/KEY, got '${uri}'`);
  const storage = createJobStorage({ s3, bucket });
  const files = await filesOf(storage, { bucket, key });
  const [first] = files as readonly [InputFile];
  const { rows, textBytes, isCompressed } = await countRows(storage, first, spec);
  // The other files are taken to be like the first.
  const times = files.reduce((sum, { bytes }) => sum + bytes, 0) / Math.max(1, first.bytes);
  const { partBytes, pieceBytes } = JOB_RANGES;
  return estimate(
    {
      ...of,
      rows: Math.round(rows * times),
      bytes: Math.round(textBytes * times),
      files: files.length,
      architecture: 'arm64',
      partBytes: isCompressed ? Math.max(1, textBytes) : partBytes.default,
      pieceBytes: pieceBytes.default,
    },
    PRICES,
  );
}

async function filesOf(storage: JobStorage, input: Pick<JobInput, 'bucket' | 'key'>): Promise<readonly InputFile[]> {
  if (isListing(input.key)) return listFiles(storage, input);
  const found = await storage.look(input.key);
  const { bucket, key } = input;
  if (found === undefined) throw new Error(`expected s3://${bucket}/${key} to be there, it is not; check the key`);
  return findFiles(storage, { ...input, ...found });
}

function describeEstimate({ rows, parts, pieces, minutes, dollars: cost, dollarsPerMillion }: Estimate): string {
  return (
    `about ${plural(rows, 'row')} in ${plural(parts, 'part')}, ${plural(pieces, 'piece')}: ${dollars(cost.all)}, ` +
    `${duration(60_000 * minutes)}; ` +
    `compute ${dollars(cost.compute)}, S3 ${dollars(cost.objects)}, transitions ${dollars(cost.transitions)}; ` +
    `${dollars(dollarsPerMillion)} a million rows`
  );
}

async function showStatus(args: readonly string[]): Promise<number> {
  return withJob(args, async (client, job, json) => {
    const status = await client.jobs.status(job);
    print(json, status, describe(status), ...firstErrors(status));
    return status.state === 'running' ? 0 : exitCodeOf(status);
  });
}

async function waitForJob(args: readonly string[], telling: Telling): Promise<number> {
  return withJob(args, (client, job, json) => waitAndReport(client, job, json, telling));
}

/** Interval of progress lines if stderr is not a terminal. */
const SAY_EVERY_MS = 10_000;

/**
 * Waits with a progress bar, and prints the final status of the job.
 *
 * @param begin first sentence to print, because a user may interrupt as soon as it appears
 * @returns the exit code
 */
async function waitAndReport(
  client: Batchscore,
  job: string,
  json: boolean,
  { stderr, clock }: Telling,
  begin: () => void = () => {},
): Promise<number> {
  let bar: ReturnType<typeof progressBar> | undefined;
  let saidAt = clock.now();
  const stopBar = (): void => bar?.stop();
  const { signal, exitCode, finished } = listenForInterruption('nothing: the job goes on', stopBar);
  begin();
  try {
    const status = await client.jobs.wait(job, {
      signal,
      onStatus(status) {
        const { state, pieces } = status;
        const now = clock.now();
        if (!(stderr instanceof WriteStream) && state === 'running' && now - saidAt >= SAY_EVERY_MS) {
          saidAt = now;
          writeLine(stderr, describe(status));
        }
        if (pieces?.all === undefined) return;
        bar ??= progressBar('scoring', pieces.all, 'count');
        bar.update(pieces.done);
      },
    });
    stopBar();
    print(json, status, describe(status), ...firstErrors(status));
    return exitCodeOf(status);
  } catch (error) {
    if (!signal.aborted) throw error;
    writeLine(stderr, `stopped waiting; the job goes on. batchscore job cancel ${job} ends it`);
    return exitCode() ?? 1;
  } finally {
    stopBar();
    finished();
  }
}

async function cancelJob(args: readonly string[]): Promise<number> {
  return withJob(args, async (client, job, json) => {
    await client.jobs.cancel(job);
    print(json, { job, cancelled: true }, `${job} is cancelled; batchscore job resume ${job} goes on`);
    return 0;
  });
}

async function resumeJob(args: readonly string[]): Promise<number> {
  return withJob(args, async (client, job, json) => {
    const resumed = await client.jobs.resume(job);
    print(json, resumed, `${job} is resumed; batchscore job wait ${job} waits for it`);
    return 0;
  });
}

async function fetchResults(args: readonly string[]): Promise<number> {
  const { options, positionals } = parseCommand(args, ['JOB'], { ...OPTIONS, out: { type: 'string' } });
  const [job = ''] = positionals;
  const { out } = options;
  if (out === undefined) throw new UsageError('expected --out FILE, or --out FOLDER/, got none');
  const isFolder = out.endsWith('/');
  if (!isFolder) await refuseFolder(out);
  const { client, close } = await connectToJobs(options);
  const { signal, exitCode, finished } = listenForInterruption('nothing', () => {});
  try {
    const status = await client.jobs.status(job);
    if (status.state !== 'done') throw new Error(`${describe(status)}; what is done can be fetched`);
    if (!isFolder) refuseOtherFormat(out, status);
    if (isFolder) await fetchObjects(client.jobs.objects(job), out, signal);
    else await writeWhole(out, client.jobs.results(job), { signal });
    print(options.json, { ...status, out }, `the results are in ${out}; ${describe(status)}`, ...firstErrors(status));
    return exitCodeOf(status);
  } catch (error) {
    if (!signal.aborted) throw error;
    return exitCode() ?? 1;
  } finally {
    await close();
    finished();
  }
}

/** @throws UsageError if one file cannot hold the results, or its name says another format */
function refuseOtherFormat(out: string, { results }: JobStatus): void {
  if (results === 'parquet') {
    throw new UsageError(
      `--out: expected a folder, such as ${out}/, because Parquet is fetched as objects, got a file`,
    );
  }
  const named = formatOfResults(out);
  if (named === results || named === 'jsonl') return;
  throw new UsageError(
    `--out: expected a file for ${results}, the format of the results, got '${out}'; for another format submit with ` +
      `--results ${named}`,
  );
}

/** Writes objects into a folder. @throws Error if the path of one leads out of it */
export async function fetchObjects(
  objects: AsyncIterable<ResultObject>,
  folder: string,
  signal: AbortSignal,
): Promise<void> {
  for await (const { path, bytes } of objects) {
    const place = resolve(folder, path);
    if (relative(folder, place).split(sep)[0] === '..') {
      throw new Error(`${path}: expected a path in ${folder}, got one that leads out of it; read that object from S3`);
    }
    await mkdir(dirname(place), { recursive: true });
    await writeWhole(place, [bytes], { signal });
  }
}

async function withJob(
  args: readonly string[],
  act: (client: Batchscore, job: string, json: boolean) => Promise<number>,
): Promise<number> {
  const { options, positionals } = parseCommand(args, ['JOB'], OPTIONS);
  const [job = ''] = positionals;
  const { client, close } = await connectToJobs(options);
  try {
    return await act(client, job, options.json);
  } finally {
    await close();
  }
}

function print(json: boolean, value: object, ...lines: readonly string[]): void {
  for (const line of json ? [JSON.stringify(value)] : lines) writeLine(process.stdout, line);
}

function exitCodeOf({ state, errors = {}, failedParts = [] }: JobStatus): number {
  if (state !== 'done') return 1;
  return Object.keys(errors).length > 0 || failedParts.length > 0 ? SOME_ROWS_FAILED : 0;
}

function describe({
  job,
  state,
  pieces,
  files,
  rows = 0,
  errors = {},
  failedParts = [],
  output,
  code,
  message,
}: JobStatus): string {
  const done = pieces === undefined ? 'not planned yet' : `${pieces.done} of ${pieces.all ?? 'its'} pieces scored`;
  if (state === 'running') return `${job} is running: ${done}`;
  if (state !== 'done') {
    const resume = `batchscore job resume ${job}`;
    const cure =
      code === 'INVALID_JOB'
        ? `correct that and submit it again, or ${resume} tries it as it was`
        : `${resume} goes on`;
    const ended = [`${job} ${state === 'failed' ? 'has failed' : 'was cancelled'}, ${done}`, code, message];
    return `${ended
      .filter((part) => part !== undefined)
      .join(': ')
      .trimEnd()}; ${cure}`;
  }
  const failed = Object.entries(errors).map(([name, count]) => `, ${name} ${count}`);
  const given =
    failedParts.length > 0 ? `; given up: ${plural(failedParts.length, 'piece')}, see ${output}failed/` : '';
  const ofFiles = files === undefined ? '' : ` of ${plural(files, 'file')}`;
  return `${job} is done: ${plural(rows, 'row')}${ofFiles} in ${output}data/${failed.join('')}${given}`;
}

function firstErrors({ reasons = {} }: JobStatus): string[] {
  return Object.entries(reasons).map(
    ([name, { message_id: id, error }]) => `${name}, first in the row with message_id ${id}: ${error}`,
  );
}

interface EstimateInput {
  readonly rows: number;
  readonly bytes: number;
  readonly files: number;
  /** Rows per second in one call. */
  readonly rowsPerSecond: number;
  readonly concurrency: number;
  readonly memoryMb: number;
  readonly architecture: 'arm64' | 'x64';
  readonly partBytes: number;
  readonly pieceBytes: number;
}

/** Estimate for a job. The dollars are grouped by what they pay for. */
export interface Estimate {
  readonly rows: number;
  readonly parts: number;
  readonly pieces: number;
  readonly minutes: number;
  readonly dollars: {
    readonly compute: number;
    readonly objects: number;
    readonly transitions: number;
    readonly all: number;
  };
  readonly dollarsPerMillion: number;
}

/** State transitions of a part: it is scored, checked for more pieces, and done. */
const TRANSITIONS_A_PART = 3;
/** State transitions of a job: plan, parts, finish and done. */
const TRANSITIONS_A_JOB = 4;
/**
 * Objects written. A piece writes its data, mostly as one object, and its report. A job writes its head, the plan and
 * the manifest.
 */
const PUTS_A_PIECE = 2;
const PUTS_A_JOB = 3;
/**
 * Objects read. A piece is read, its output is looked up, and its report is read when the job finishes. A part reads
 * the head.
 */
const GETS_A_PIECE = 3;
const GETS_A_PART = 1;
const MIB_A_GIB = 1024;

/**
 * Estimates time and cost of a job from the rows that one call scores per second. The estimate measures nothing and
 * excludes cold starts, retries and logs. It assumes that all calls start at once.
 */
export function estimate(input: EstimateInput, prices: Prices): Estimate {
  const { rows, bytes, files, rowsPerSecond, concurrency, memoryMb, architecture, partBytes, pieceBytes } = input;
  const parts = Math.max(1, Math.ceil(bytes / partBytes), Math.ceil(files / FILES_A_PART));
  const whole = Math.floor(bytes / partBytes);
  const rest = bytes - whole * partBytes;
  const pieces = Math.max(files, whole * Math.ceil(partBytes / pieceBytes) + Math.ceil(rest / pieceBytes));
  const seconds = rows / rowsPerSecond;
  const gbSecond = architecture === 'arm64' ? prices.lambdaArmGbSecond : prices.lambdaX86GbSecond;
  const calls = (parts * prices.lambdaMillionRequests) / 1e6;
  const compute = (seconds * memoryMb * gbSecond) / MIB_A_GIB + calls;
  const puts = ((PUTS_A_PIECE * pieces + PUTS_A_JOB) * prices.s3ThousandPuts) / 1000;
  const gets = ((GETS_A_PIECE * pieces + GETS_A_PART * parts) * prices.s3ThousandGets) / 1000;
  const entered = TRANSITIONS_A_PART * parts + TRANSITIONS_A_JOB;
  const transitions = (entered * prices.stepFunctionsThousandTransitions) / 1000;
  const all = compute + puts + gets + transitions;
  return {
    rows,
    parts,
    pieces,
    minutes: seconds / Math.min(concurrency, parts) / 60,
    dollars: { compute, objects: puts + gets, transitions, all },
    dollarsPerMillion: rows === 0 ? 0 : (all / rows) * 1e6,
  };
}
