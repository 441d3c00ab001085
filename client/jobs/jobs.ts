import { HeadObjectCommand } from '@aws-sdk/client-s3';
import { StopExecutionCommand } from '@aws-sdk/client-sfn';
import { hasCode } from '../../lambda/adapters/hasCode.ts';
import { createJobStorage } from '../../lambda/adapters/s3/jobStorage.ts';
import { createExecutions } from '../../lambda/adapters/sfn/executions.ts';
import { cancelledKey, dataKeys, manifestKey } from '../../lambda/core/job/keys.ts';
import type { JobInput, JobStart, Spec } from '../../lambda/core/job/words.ts';
import { MANIFEST, parseObject } from '../../lambda/jobs/schemas.ts';
import { startJob } from '../../lambda/jobs/submit/startJob.ts';
import { type Execution, type JobSettings, latestRun, runName } from './execution.ts';
import { type JobStatus, statusOf } from './status.ts';

export interface JobOptions extends Spec {
  /** Most calls at a time, 1 to 10,000; no more than the deployment has. @default as many as it has */
  readonly concurrency?: number | undefined;
  /** What the job's folder lies under: the deployment's output prefix, or a key prefix below it that ends in `/`. */
  readonly outputPrefix?: string | undefined;
}

export interface SubmittedJob {
  /** What the other methods take. */
  readonly job: string;
  /** False: the same version of the object was submitted before, in the same way; it is that job. */
  readonly isNew: boolean;
  /** What the keys of its objects begin with. */
  readonly folder: string;
}

export interface WaitOptions {
  /** Told how the job stands, each time it is asked. */
  readonly onStatus?: ((status: JobStatus) => void) | undefined;
  /** Milliseconds between two questions. @default 5000 */
  readonly pollMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** The jobs of a deployment: files in S3 that are scored in place. */
export interface Jobs {
  /**
   * Starts the job of an object, `s3://bucket/key`: as it is now.
   *
   * @throws Error when there is no such object, it does not lie where the deployment's jobs read, or so many columns are
   * named that Step Functions does not take them
   */
  submit(uri: string, options?: JobOptions): Promise<SubmittedJob>;
  /** @throws Error when there is no such job */
  status(job: string): Promise<JobStatus>;
  /** Waits until it has ended, in whatever way. @throws the signal's reason when it aborts */
  wait(job: string, options?: WaitOptions): Promise<JobStatus>;
  /** Ends it: no further call is made, those at work end after their piece, and what is finished stays. @throws Error when it has ended */
  cancel(job: string): Promise<void>;
  /** Scores what has no report, of a job that has ended. @throws Error when it is running */
  resume(job: string): Promise<SubmittedJob>;
  /**
   * All results, in the order of the input, as chunks of JSON lines.
   *
   * @throws Error when it is not done; behind the last chunk, when there are not as many results as the job had rows
   */
  results(job: string): AsyncGenerator<Uint8Array>;
}

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
    async submit(
      uri,
      { concurrency: asked = settings.concurrency, outputPrefix = settings.outputPrefix, ...spec } = {},
    ) {
      if (!outputPrefix.startsWith(settings.outputPrefix) || !outputPrefix.endsWith('/')) {
        throw new Error(
          `output: expected keys under s3://${bucket}/${settings.outputPrefix}, got ${outputPrefix}; choose a folder there`,
        );
      }
      const concurrency = Math.min(asked, settings.concurrency);
      const input = await headOf(settings, uri);
      const { start, isNew } = await startJob(input, { spec, outputPrefix, concurrency }, executions);
      // It was started before, and its results lie where it was told to put them then.
      const { folder } = isNew ? start : (await describe(start.job)).start;
      return { job: start.job, isNew, folder };
    },
    status: async (job) => statusOf(storage, await describe(job)),
    async wait(job, { onStatus, pollMs = 5_000, signal } = {}) {
      for (;;) {
        const status = await jobs.status(job);
        onStatus?.(status);
        if (status.state !== 'running') return status;
        await pause(pollMs, signal);
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
      const { start } = await describe(job);
      const text = await storage.get(manifestKey(start.folder));
      if (text === undefined)
        throw new Error(`job ${job}: expected it to be done, it has no manifest; wait, or resume it`);
      const { rows } = parseObject(MANIFEST, text, manifestKey(start.folder));
      let results = 0;
      for await (const chunk of readData(settings, start)) {
        results += lineCount(chunk);
        yield chunk;
      }
      if (results === rows) return;
      throw new Error(
        `job ${job}: expected ${rows} results, got ${results}; score the file anew, with batchscore job submit --again`,
      );
    },
  };
  return jobs;
}

async function headOf({ s3, bucket, inputPrefix }: JobSettings, uri: string): Promise<JobInput> {
  const [, asked, key] = /^s3:\/\/([^/]+)\/(.+)$/s.exec(uri) ?? [];
  if (asked !== bucket || !key?.startsWith(inputPrefix)) {
    throw new Error(
      `input: expected an object where jobs read, s3://${bucket}/${inputPrefix}…, got '${uri}'; put it there`,
    );
  }
  try {
    const { ETag: etag, ContentLength: bytes = 0 } = await s3.send(new HeadObjectCommand({ Bucket: bucket, Key: key }));
    if (etag === undefined) throw new Error('S3 told no ETag');
    return { bucket, key, etag, bytes };
  } catch (cause) {
    if (hasCode(cause, 'ECONNREFUSED')) throw cause;
    throw new Error(`input: expected ${uri} to be there, it cannot be read; check the key and the permissions`, {
      cause,
    });
  }
}

async function* readData({ s3, bucket }: JobSettings, { folder }: JobStart): AsyncGenerator<Uint8Array> {
  const storage = createJobStorage({ s3, bucket });
  for await (const { key, bytes } of storage.list(dataKeys(folder))) {
    const { ETag: etag } = await s3.send(new HeadObjectCommand({ Bucket: bucket, Key: key }));
    if (etag === undefined) throw new Error(`s3://${bucket}/${key}: expected an ETag, S3 told none`);
    if (bytes > 0) yield await storage.readRange({ bucket, key, etag, bytes }, { start: 0, end: bytes });
  }
}

const NEWLINE = 10;

/** Lines of a chunk that are not blank. A chunk is whole lines. */
function lineCount(chunk: Uint8Array): number {
  let lines = 0;
  let start = 0;
  for (let end = chunk.indexOf(NEWLINE); end >= 0; end = chunk.indexOf(NEWLINE, start)) {
    if (end > start) lines += 1;
    start = end + 1;
  }
  return lines;
}

function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const stop = (): void => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', stop);
      resolve();
    }, ms);
    signal?.addEventListener('abort', stop, { once: true });
  });
}
