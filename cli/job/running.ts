import { rename, rm } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { Batchscore, JobStatus } from '../../client/index.ts';
import { parseCommand, UsageError } from '../arguments.ts';
import { connectToJobs, JOB_DEPLOYMENT_OPTIONS } from '../network/deployment.ts';
import { listenForInterruption, progressBar } from '../terminal.ts';
import { openOutput, refuseFolder } from '../textFiles.ts';

const OPTIONS = { ...JOB_DEPLOYMENT_OPTIONS, json: { type: 'boolean', default: false } } as const;

const SOME_ROWS_FAILED = 3;

export async function showStatus(args: readonly string[]): Promise<number> {
  return withJob(args, async (client, job, json) => {
    const status = await client.jobs.status(job);
    print(json, status, describe(status));
    return status.state === 'running' ? 0 : exitCodeOf(status);
  });
}

export async function waitForJob(args: readonly string[]): Promise<number> {
  return withJob(args, (client, job, json) => waitAndReport(client, job, json));
}

/**
 * Waits with a progress bar, and prints how the job has ended.
 *
 * @param begin what to say first: whoever has read it may interrupt the waiting
 * @returns the exit code
 */
export async function waitAndReport(
  client: Batchscore,
  job: string,
  json: boolean,
  begin: () => void = () => {},
): Promise<number> {
  let bar: ReturnType<typeof progressBar> | undefined;
  const stopBar = (): void => bar?.stop();
  const { signal, exitCode, finished } = listenForInterruption('nothing: the job goes on', stopBar);
  begin();
  try {
    const status = await client.jobs.wait(job, {
      signal,
      onStatus({ pieces }) {
        if (pieces?.all === undefined) return;
        bar ??= progressBar('scoring', pieces.all, 'count');
        bar.update(pieces.done);
      },
    });
    stopBar();
    print(json, status, describe(status));
    return exitCodeOf(status);
  } catch (error) {
    if (!signal.aborted) throw error;
    process.stderr.write(`stopped waiting; the job goes on. batchscore job cancel ${job} ends it\n`);
    return exitCode() ?? 1;
  } finally {
    stopBar();
    finished();
  }
}

export async function cancelJob(args: readonly string[]): Promise<number> {
  return withJob(args, async (client, job, json) => {
    await client.jobs.cancel(job);
    print(json, { job, cancelled: true }, `${job} is cancelled; batchscore job resume ${job} goes on`);
    return 0;
  });
}

export async function resumeJob(args: readonly string[]): Promise<number> {
  return withJob(args, async (client, job, json) => {
    const resumed = await client.jobs.resume(job);
    print(json, resumed, `${job} is resumed`);
    return 0;
  });
}

/** The file has its name once it is whole. */
export async function fetchResults(args: readonly string[]): Promise<number> {
  const { options, positionals } = parseCommand(args, ['JOB'], { ...OPTIONS, out: { type: 'string' } });
  const [job = ''] = positionals;
  const { out } = options;
  if (out === undefined) throw new UsageError('expected --out FILE, got none');
  await refuseFolder(out);
  const { client, close } = await connectToJobs(options);
  const unfinished = `${out}.part`;
  const { signal, exitCode, finished } = listenForInterruption('nothing', () => {});
  try {
    const results = Readable.from(client.jobs.results(job), { objectMode: false });
    await pipeline(results, (await openOutput(unfinished, 'w')).createWriteStream(), { signal });
    await rename(unfinished, out);
    const status = await client.jobs.status(job);
    print(options.json, { ...status, out }, `${describe(status)}; the results are in ${out}`);
    return exitCodeOf(status);
  } catch (error) {
    await rm(unfinished, { force: true });
    if (!signal.aborted) throw error;
    return exitCode() ?? 1;
  } finally {
    await close();
    finished();
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

export function print(json: boolean, value: object, sentence: string): void {
  process.stdout.write(`${json ? JSON.stringify(value) : sentence}\n`);
}

function exitCodeOf({ state, errors = {}, failedParts = [] }: JobStatus): number {
  if (state !== 'done') return 1;
  return Object.keys(errors).length > 0 || failedParts.length > 0 ? SOME_ROWS_FAILED : 0;
}

function describe({
  job,
  state,
  pieces,
  rows = 0,
  errors = {},
  failedParts = [],
  output,
  code,
  message,
}: JobStatus): string {
  const done = pieces === undefined ? 'not planned yet' : `${pieces.done} of ${pieces.all ?? 'its'} pieces scored`;
  if (state === 'running') return `${job} is running: ${done}`;
  if (state !== 'done')
    return [`${job} ${state === 'failed' ? 'has failed' : 'was cancelled'}, ${done}`, code, message].join(': ');
  const failed = Object.entries(errors).map(([name, count]) => `, ${name} ${count}`);
  const given = failedParts.length > 0 ? `; ${failedParts.length} pieces were given up, see ${output}failed/` : '';
  return `${job} is done: ${rows} rows in ${output}data/${failed.join('')}${given}`;
}
