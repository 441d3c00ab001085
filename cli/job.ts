import { mkdir } from 'node:fs/promises';
import { dirname, relative, resolve, sep } from 'node:path';
import { WriteStream } from 'node:tty';
import type { Batchscore, JobStatus, ResultObject } from '../client/index.ts';
import { type Clock, SYSTEM_CLOCK } from '../lambda/core/concurrency.ts';
import { plural } from '../lambda/core/failure.ts';
import { JOB_RANGES } from '../lambda/core/limits.ts';
import { COMPRESSIONS, FORMATS } from '../lambda/jobs/jobFiles.ts';
import { formatOfResults, isOtherTable } from '../lambda/jobs/resultFiles.ts';
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
import { connectToJobs, JOB_DEPLOYMENT_HELP, JOB_DEPLOYMENT_OPTIONS } from './network/deployment.ts';
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
} as const;

async function submitJob(args: readonly string[], telling: Telling): Promise<number> {
  const { options, positionals } = parseCommand(args, ['s3://BUCKET/KEY'], SUBMIT_OPTIONS);
  const [uri = ''] = positionals;
  const { model, 'model-version': version, again, out } = options;
  const { min, max } = JOB_RANGES.concurrency;
  const asked = {
    model,
    version,
    format: oneOf('--format', options.format, FORMATS),
    compression: oneOf('--compression', options.compression, COMPRESSIONS),
    results: oneOf('--results', options.results, FORMATS),
    ...columnSpec(options),
    concurrency: wholeNumber('--concurrency', options.concurrency, min, max),
    again,
  };
  const { client, close, bucket } = await connectToJobs(options);
  try {
    const outputPrefix = out === undefined ? undefined : prefixIn(bucket, out);
    const submitted = await client.jobs.submit(uri, { ...asked, outputPrefix });
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

function prefixIn(bucket: string, uri: string): string {
  const place = `s3://${bucket}/`;
  if (!uri.startsWith(place))
    throw new UsageError(`--out: expected a folder in the bucket of jobs, ${place}…, got '${uri}'`);
  const prefix = uri.slice(place.length);
  return prefix.endsWith('/') ? prefix : `${prefix}/`;
}

async function showStatus(args: readonly string[]): Promise<number> {
  return withJob(args, async (client, job, json) => {
    const status = await client.jobs.status(job);
    print(json, status, ...linesOf(status));
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
    print(json, status, ...linesOf(status));
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
    if (status.state === 'running') {
      throw new Error(`${describe(status)}; batchscore job wait ${job} waits for its end, and then it can be fetched`);
    }
    if (status.state !== 'done') throw new Error(`${describe(status)}, and then it can be fetched`);
    if (!isFolder) refuseOtherFormat(out, status);
    if (isFolder) await fetchObjects(client.jobs.objects(job), out, signal);
    else await writeWhole(out, client.jobs.results(job), { signal });
    const [sentence, ...errors] = linesOf(status);
    print(options.json, { ...status, out }, `the results are in ${out}; ${sentence}`, ...errors);
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
  if (isOtherTable(out)) {
    throw new UsageError(`--out: expected a name ending in .jsonl or .csv, got '${out}'; choose one, or a folder`);
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

/** Describes a status, with the first error of each code. */
function linesOf(status: JobStatus): readonly string[] {
  return [describe(status), ...firstErrors(status)];
}

function describe(status: JobStatus): string {
  const { job, state, pieces, files, rows = 0, errors = {}, failedParts = [], output, code, message } = status;
  const done = pieces === undefined ? 'not planned yet' : `${pieces.done} of ${pieces.all ?? 'its'} pieces scored`;
  if (state === 'running') return `${job} is running: ${done}`;
  if (state !== 'done') {
    const ended = [`${job} ${state === 'failed' ? 'has failed' : 'was cancelled'}, ${done}`, code, message];
    const sentence = ended.filter((part) => part !== undefined).join(': ');
    return `${sentence.trimEnd()}; ${cureOf(status)}`;
  }
  const failed = Object.entries(errors).map(([name, count]) => `, ${name} ${count}`);
  const given =
    failedParts.length > 0 ? `; given up: ${plural(failedParts.length, 'piece')}, see ${output}failed/` : '';
  const ofFiles = files === undefined ? '' : ` of ${plural(files, 'file')}`;
  return `${job} is done: ${plural(rows, 'row')}${ofFiles} in ${output}data/${failed.join('')}${given}`;
}

/** Says what goes on after a job that ended before it was done. */
function cureOf({ code, job, input }: JobStatus): string {
  const resume = `batchscore job resume ${job}`;
  if (code === 'INVALID_JOB') return `correct that and submit it again, or ${resume} tries it as it was`;
  if (code === 'INPUT_CHANGED') return `batchscore job submit ${input} scores it as it is now`;
  if (code === 'RESULTS_MISSING') return `batchscore job submit ${input} --again scores it anew`;
  return `${resume} goes on`;
}

function firstErrors({ reasons = {} }: JobStatus): string[] {
  return Object.entries(reasons).map(
    ([name, { message_id: id, error }]) => `${name}, first in the row with message_id ${id}: ${error}`,
  );
}
