import { CreateBucketCommand, HeadObjectCommand, type S3Client } from '@aws-sdk/client-s3';
import { createJobs, type JobStatus, type Jobs } from '../../client/clientJobs.ts';
import type { Announce } from '../../lambda/aws/announce.ts';
import { createSfnClient } from '../../lambda/aws/jobExecutions.ts';
import { createJobStorage } from '../../lambda/aws/jobStorage.ts';
import type { Telemetry } from '../../lambda/aws/telemetry.ts';
import { messageOf } from '../../lambda/core/failure.ts';
import { JOB_PREFIXES, JOB_TIMEOUT_SECONDS } from '../../lambda/core/limits.ts';
import { type Config, loadJobScoreConfig } from '../../lambda/hosts/config.ts';
import { type ControlHandler, createControlHandler } from '../../lambda/jobs/finishJob.ts';
import { JOB_START } from '../../lambda/jobs/jobTypes.ts';
import { createScoreHandler, type JobEvent, type ScoreHandler } from '../../lambda/jobs/scorePart.ts';
import type { Scorer } from '../../lambda/scorer/scorer.ts';
import { JOB_CONFIG_KEYS } from '../../lambda/settings.ts';
import { credentials } from './localServices.ts';
import { type LocalStates, startLocalStates } from './localStates.ts';
import type { Ended } from './runJob.ts';

interface LocalJobsOptions {
  readonly s3: S3Client;
  readonly region: string;
  readonly onObject: (listener: (bucket: string, key: string) => void) => void;
  readonly scorer: Scorer;
  readonly telemetry: Telemetry;
  readonly config: Config;
  /** Variables that set the sizes of parts and pieces. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Takes a sentence about each job that begins, ends or fails. */
  readonly say: (message: string) => void;
  readonly announce: Announce;
}

export type LocalJobs = Awaited<ReturnType<typeof startLocalJobs>>;

const BUCKET = 'batchscore-jobs';
const CONCURRENCY = 2;
const JOBS_KEPT = 10;
const MIB = 1024 * 1024;
/** Small sizes, so that a file of a few MiB has several parts and little work is lost when the process ends. */
const SIZES = { [JOB_CONFIG_KEYS.jobsPartBytes]: 4 * MIB, [JOB_CONFIG_KEYS.jobsPieceBytes]: MIB };

/** Starts the functions and the state machine of jobs in this process. */
export async function startLocalJobs(options: LocalJobsOptions) {
  const { s3, region, onObject, say } = options;
  await s3.send(new CreateBucketCommand({ Bucket: BUCKET }));
  const calls = createCalls(createScore(options));
  const states = await startLocalStates({
    region,
    score: calls.score,
    control: (event) => control(event),
    storage: createJobStorage({ s3, bucket: BUCKET }),
    onEnd(detail, how) {
      say(ending(detail.name, how));
      control({ detail }).catch((error: unknown) => say(`job ${detail.name}: no event: ${messageOf(error)}`));
    },
  });
  const control = createControl(options, states);
  const sfn = createSfnClient({ region, endpoint: states.endpoint, credentials });
  const places = { bucket: BUCKET, inputPrefix: JOB_PREFIXES.input, outputPrefix: JOB_PREFIXES.output };
  const { stateMachineArn } = states;
  const client = createJobs({ ...places, stateMachineArn, concurrency: CONCURRENCY, s3, sfn });
  onObject((bucket, key) => {
    if (bucket !== BUCKET || !key.startsWith(JOB_PREFIXES.input)) return;
    const told = fileEvent(s3, bucket, key).then(control);
    told.catch((error: unknown) => say(`${key}: no job: ${messageOf(error)}`));
  });
  return {
    /** Addresses for jobs, with the names of the client's options as keys. */
    whereabouts: {
      jobStateMachine: stateMachineArn,
      jobBucket: BUCKET,
      jobInputPrefix: JOB_PREFIXES.input,
      jobOutputPrefix: JOB_PREFIXES.output,
      sfnEndpoint: states.endpoint,
    },
    /** Returns the status of the latest jobs, the newest last. */
    newest: createNewest(states, client),
    async stop(): Promise<void> {
      sfn.destroy();
      await states.stop();
      await calls.finish();
    },
  };
}

/** Creates a function that returns the newest jobs. It asks for the status of an ended job only once. */
function createNewest(states: LocalStates, { status }: Jobs): () => Promise<JobStatus[]> {
  const ended = new Map<string, JobStatus>();
  return () => {
    // A resumed job has several executions.
    const latest = new Map(
      states.newest(JOBS_KEPT).map(({ name, input }) => {
        const start = JOB_START.parse(JSON.parse(input));
        return [start.job, { ...start, name }];
      }),
    );
    const looks = [...latest.values()].map(async ({ job, name, bucket, key, folder }) => {
      const places = { input: `s3://${bucket}/${key}`, output: `s3://${bucket}/${folder}`, pieces: undefined };
      const unknown = (error: unknown): JobStatus => ({ job, ...places, state: 'failed', message: messageOf(error) });
      const seen = ended.get(name) ?? (await status(job).catch(unknown));
      if (seen.state !== 'running') ended.set(name, seen);
      return seen;
    });
    return Promise.all(looks);
  };
}

/**
 * Returns the event that S3 sends to a function for an object.
 *
 * @see https://docs.aws.amazon.com/AmazonS3/latest/userguide/notification-content-structure.html
 */
export async function fileEvent(s3: S3Client, bucket: string, key: string) {
  const { ContentLength = 0, ETag = '' } = await s3.send(new HeadObjectCommand({ Bucket: bucket, Key: key }));
  const object = {
    key: encodeURIComponent(key).replaceAll('%2F', '/').replaceAll('%20', '+'),
    size: ContentLength,
    eTag: ETag.replaceAll('"', ''),
  };
  return { Records: [{ s3: { bucket: { name: bucket }, object } }] };
}

function createScore({ s3, scorer, telemetry, config, environment }: LocalJobsOptions): ScoreHandler {
  const sizes = Object.entries(SIZES).map(([key, bytes]) => [key, environment[key] ?? String(bytes)]);
  const { jobsPartBytes, jobsPieceBytes } = loadJobScoreConfig(Object.fromEntries(sizes));
  return createScoreHandler({
    storage: (bucket) => createJobStorage({ s3, bucket }),
    scorer,
    partBytes: jobsPartBytes,
    pieceBytes: jobsPieceBytes,
    maxLineBytes: config.maxPayloadBytes,
    // Micro-batches are not reported. The page shows the progress of the job.
    observer: { ...telemetry.observer, microBatch: () => {} },
  });
}

function createControl({ s3, say, announce }: LocalJobsOptions, states: LocalStates): ControlHandler {
  return createControlHandler({
    storage: createJobStorage({ s3, bucket: BUCKET }),
    executions: {
      async start(name, input) {
        const isNew = states.start(name, JSON.stringify(input));
        if (isNew) say(`job ${name}: ${input.key}`);
        return isNew;
      },
    },
    describe: async (arn) => states.describe(arn) ?? {},
    announce,
    bucket: BUCKET,
    inputPrefix: JOB_PREFIXES.input,
    outputPrefix: JOB_PREFIXES.output,
    concurrency: CONCURRENCY,
    warn: say,
  });
}

/**
 * Creates calls of the scoring function. After `finish`, no call has time left, so that each one ends with its current
 * piece.
 */
function createCalls(handle: ScoreHandler) {
  const atWork = new Set<Promise<unknown>>();
  let finishing = false;
  return {
    score(event: JobEvent): Promise<unknown> {
      const deadline = performance.now() + JOB_TIMEOUT_SECONDS * 1000;
      const getRemainingTimeInMillis = (): number => (finishing ? 0 : deadline - performance.now());
      const call: Promise<unknown> = handle(event, { getRemainingTimeInMillis }).finally(() => atWork.delete(call));
      atWork.add(call);
      return call;
    },
    async finish(): Promise<void> {
      finishing = true;
      await Promise.allSettled(atWork);
    },
  };
}

function ending(name: string, how: Ended): string {
  if (how.status === 'SUCCEEDED') return `job ${name}: done, ${how.output}`;
  return how.status === 'FAILED' ? `job ${name}: ${how.error}: ${how.cause}` : `job ${name}: cancelled`;
}
