import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { GetObjectCommand, ListObjectsV2Command, PutObjectCommand } from '@aws-sdk/client-s3';
import { SFNClient } from '@aws-sdk/client-sfn';
import { createDevTelemetry } from '../../cli/dev.ts';
import { localBucketClient } from '../../cli/local/localServices.ts';
import { type LocalStack, startLocalStack } from '../../cli/local/localStack.ts';
import { Batchscore } from '../../client/index.ts';
import type { ModelRepository } from '../../lambda/core/model.ts';
import type { TimeLimit } from '../../lambda/core/record.ts';
import { finishJob, noteFailure } from '../../lambda/jobs/finishJob.ts';
import { JobError, type JobStorage } from '../../lambda/jobs/jobFiles.ts';
import { dataKeys, planKey, readHead, readParts } from '../../lambda/jobs/jobObjects.ts';
import type { JobStart, Manifest, Spec } from '../../lambda/jobs/jobTypes.ts';
import { type PlanAnswer, planJob } from '../../lambda/jobs/planJob.ts';
import { createTableModels, openReader, type ScoreEvent, scorePart, skipPiece } from '../../lambda/jobs/scorePart.ts';
import { createRowScoring, MAX_SIZE_HELD } from '../../lambda/jobs/scoreRows.ts';
import { REPOSITORY } from './command.ts';
import { lineModel, repositoryOf, scoreModels } from './scoring.ts';

export const LIMITS = {
  maxRequestRows: 100,
  maxRequestsPerMessage: 100,
  maxAnswerCharacters: 100_000,
  maxBatchElements: 100_000,
  deadlineMarginMs: 1,
};
export const FOLDER = 'out/job/';
const MODELS = repositoryOf(lineModel());
const NO_DEADLINE: TimeLimit = {
  remainingMs: () => Number.POSITIVE_INFINITY,
  signal: new AbortController().signal,
};

export interface MemoryStorage extends JobStorage {
  readonly objects: Map<string, Buffer>;
  /** What was put, in order. */
  readonly puts: string[];
}

/** A bucket in memory, with versions by content. @param chunkBytes that an object is read in, where all of it is */
export function memoryStorage(chunkBytes = 7_001): MemoryStorage {
  const objects = new Map<string, Buffer>();
  const puts: string[] = [];
  const abouts = new Map<string, string>();
  const input = (key: string, etag: string): Buffer => {
    const bytes = objects.get(key);
    if (bytes === undefined) throw new JobError('INPUT_NOT_FOUND', key);
    if (etagOf(bytes) !== etag) throw new JobError('INPUT_CHANGED', key);
    return bytes;
  };
  return {
    objects,
    puts,
    readRange: async ({ key, etag }, { start, end }) => input(key, etag).subarray(start, end),
    readAll: ({ key, etag }) => inChunks(() => input(key, etag), chunkBytes),
    get: async (key) => objects.get(key)?.toString(),
    async put(key, body) {
      puts.push(key);
      objects.set(key, Buffer.from(body));
    },
    async putNew(key, body, about) {
      if (objects.has(key)) return false;
      puts.push(key);
      objects.set(key, Buffer.from(body));
      abouts.set(key, about);
      return true;
    },
    async look(key) {
      const body = objects.get(key);
      return body && { bytes: body.length, etag: etagOf(body), about: abouts.get(key) ?? '' };
    },
    remove: async (key) => void objects.delete(key),
    async *list(prefix) {
      for (const key of [...objects.keys()].filter((one) => one.startsWith(prefix)).toSorted()) {
        const body = objects.get(key) ?? Buffer.alloc(0);
        yield { key, etag: etagOf(body), bytes: body.length };
      }
    },
  };
}

async function* inChunks(open: () => Buffer, size: number): AsyncGenerator<Uint8Array> {
  const bytes = open();
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

function etagOf(bytes: Uint8Array): string {
  return `"${createHash('md5').update(bytes).digest('hex')}"`;
}

export interface JobOptions {
  readonly storage: JobStorage;
  readonly models: ModelRepository;
  readonly key: string;
  readonly content: Uint8Array;
  /** Of the input. @default that of the content */
  readonly etag?: string;
  readonly spec?: Spec;
  readonly partBytes?: number;
  readonly pieceBytes?: number;
  readonly maxLineBytes?: number;
  readonly limits?: typeof LIMITS;
  /** The time of each call. @default no end */
  readonly time?: () => TimeLimit;
  readonly run?: number;
}

/** A job of one object, which lies in a bucket of its own in memory. @param options the line model, unless they name others */
export function jobOf(
  key: string,
  given: string | Uint8Array,
  options: Partial<Omit<JobOptions, 'storage'>> & { readonly storage?: MemoryStorage } = {},
): JobOptions & { readonly storage: MemoryStorage } {
  const { storage = memoryStorage() } = options;
  const content = Buffer.from(given);
  storage.objects.set(key, content);
  return { models: MODELS, ...options, storage, key, content };
}

/** What a job that has finished says of itself. */
export function manifestIn({ objects }: MemoryStorage): Manifest {
  return JSON.parse(objects.get(`${FOLDER}manifest.json`)?.toString() ?? '');
}

export function startOf({ key, content, etag = etagOf(content), spec = {}, run = 1 }: JobOptions): JobStart {
  const input = { bucket: 'bucket', key, etag, bytes: content.length };
  return { ...input, job: 'job', run, folder: FOLDER, concurrency: 2, spec };
}

export function planOf(options: JobOptions): Promise<PlanAnswer> {
  const { storage, models, partBytes = 64, pieceBytes = 16 } = options;
  const deps = { storage, models, partBytes, pieceBytes, now: () => 0 };
  return planJob({ action: 'plan', start: startOf(options) }, deps);
}

/** One call of `score`, as the function answers it. */
export async function callScore(event: ScoreEvent, options: JobOptions): Promise<ScoreEvent> {
  const { storage, models, limits = LIMITS, maxLineBytes = 100_000, time = () => NO_DEADLINE } = options;
  const head = await readHead(storage, event.folder);
  if (head === undefined) throw new Error('expected a head');
  const maxSize = MAX_SIZE_HELD;
  const table = await createTableModels(models)(head);
  const scoring = createRowScoring({ score: scoreModels(models, limits), observer: {}, maxSize, table });
  const reader = openReader(storage, head, event, maxLineBytes);
  return scorePart(event, { storage, head, scoring, reader }, time());
}

/** A call that dies is made once more, then its piece is passed over: as the state machine has it. */
async function callOrSkip(event: ScoreEvent, options: JobOptions): Promise<ScoreEvent> {
  for (let tries = 0; tries < 2; tries++) {
    try {
      return await callScore(event, options);
    } catch (error) {
      if (!(error instanceof ProcessEnded)) throw error;
    }
  }
  const head = await readHead(options.storage, event.folder);
  if (head === undefined) throw new Error('expected a head');
  const error = { Error: 'Runtime.ExitError', Cause: 'the process ended' };
  const call = { ...event, error };
  // Its first answer is lost.
  await skipPiece(call, options.storage, head);
  return skipPiece(call, options.storage, head);
}

/** Stands for the end of the process: nothing of the call is done after it is thrown. */
export class ProcessEnded extends Error {}

/**
 * Plays the state machine: plan, every part until it is done, finish.
 *
 * @returns the rows, parsed, in the order of the keys
 * @example expect(await runJob(jobOf('in/rows.jsonl', LINES))).toHaveLength(3);
 */
export async function runJob(options: JobOptions): Promise<Record<string, unknown>[]> {
  await playJob(options);
  return rowsOf(options.storage);
}

/** Does the same, and leaves the results where they are, whatever their format. */
export async function playJob(options: JobOptions): Promise<void> {
  const { storage, run = 1 } = options;
  await planOf(options);
  for (const part of await readParts(storage, planKey(FOLDER, run))) {
    let event: ScoreEvent = { action: 'score', bucket: 'bucket', folder: FOLDER, part };
    do event = await callOrSkip(event, options);
    while (event.next !== undefined);
  }
  await finishJob({ action: 'finish', start: startOf(options) }, storage, () => 0);
}

/** All rows that were written, in the order of the keys. */
export async function rowsOf(storage: JobStorage): Promise<Record<string, unknown>[]> {
  let text = '';
  for await (const { key } of storage.list(dataKeys(FOLDER))) text += await storage.get(key);
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line));
}

export type JobsServer = Awaited<ReturnType<typeof startJobsServer>>;

interface Execution {
  readonly input: string;
  status: string;
  error?: string;
  cause?: string;
}

const ARN = 'arn:aws:states:us-east-1:000000000000:stateMachine:jobs';

/**
 * The three actions of Step Functions that clients of jobs use, over what an execution does: it plans, scores and
 * finishes with the real code, one part after the other.
 *
 * @param waits whether executions wait for `go`: until then they are running. @default false
 * @returns among others `started`, the names of the executions that were started
 */
export async function startJobsServer(storage: JobStorage, { waits = false } = {}) {
  const executions = new Map<string, Execution>();
  const started: string[] = [];
  const begun = Promise.withResolvers<void>();
  if (!waits) begun.resolve();
  const actions: Record<string, (body: Record<string, string>) => object> = {
    StartExecution({ name = '', input = '' }) {
      const known = executions.get(name);
      if (known !== undefined && (known.status !== 'RUNNING' || known.input !== input)) {
        return { __type: 'ExecutionAlreadyExists', message: name };
      }
      if (known === undefined) {
        const execution: Execution = { input, status: 'RUNNING' };
        executions.set(name, execution);
        started.push(name);
        void begun.promise.then(() => play(storage, execution));
      }
      return { executionArn: name, startDate: 0 };
    },
    DescribeExecution({ executionArn = '' }) {
      const execution = executions.get(executionArn.split(':').at(-1) ?? '');
      return execution ?? { __type: 'ExecutionDoesNotExist', message: executionArn };
    },
    StopExecution({ executionArn = '', error, cause }) {
      const execution = executions.get(executionArn.split(':').at(-1) ?? '');
      if (execution?.status === 'RUNNING') Object.assign(execution, { status: 'ABORTED', error, cause });
      return { stopDate: 0 };
    },
  };
  const server = createServer(async (request, response) => {
    const body = JSON.parse((await buffer(request)).toString());
    const action = String(request.headers['x-amz-target']).split('.').at(-1) ?? '';
    const answer = actions[action]?.(body) ?? {};
    response.writeHead('__type' in answer ? 400 : 200, { 'content-type': 'application/x-amz-json-1.0' });
    response.end(JSON.stringify(answer));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const credentials = { accessKeyId: 'test', secretAccessKey: 'test' };
  const sfn = new SFNClient({ endpoint, region: 'us-east-1', credentials });
  const stop = (): void => {
    sfn.destroy();
    server.closeAllConnections();
    server.close();
  };
  return { endpoint, stateMachineArn: ARN, sfn, started, go: begun.resolve, stop };
}

async function play(storage: JobStorage, execution: Execution): Promise<void> {
  const start = JSON.parse(execution.input) as JobStart;
  const { folder, run, bucket } = start;
  try {
    await planJob(
      { action: 'plan', start },
      { storage, models: MODELS, partBytes: 400, pieceBytes: 100, now: Date.now },
    );
    for (const part of await readParts(storage, planKey(folder, run))) {
      let event: ScoreEvent = { action: 'score', bucket, folder, part };
      const options = { storage, models: MODELS, key: start.key, content: new Uint8Array() };
      do {
        if (execution.status !== 'RUNNING') return;
        event = await callOrSkip(event, options);
      } while (event.next !== undefined);
    }
    await finishJob({ action: 'finish', start }, storage, Date.now);
    execution.status = 'SUCCEEDED';
  } catch (error) {
    await noteFailure(storage, folder, error);
    const { name, message } = error as Error;
    Object.assign(execution, {
      status: 'FAILED',
      error: error instanceof JobError ? 'States.TaskFailed' : name,
      cause: message,
    });
  }
}

export type JobStack = Awaited<ReturnType<typeof startJobStack>>;

const BUCKET = 'batchscore-jobs';
/** So small that a few rows make several parts and pieces. */
const SIZES = { BATCHSCORE_JOBS_PART_BYTES: '2000', BATCHSCORE_JOBS_PIECE_BYTES: '700' };

/** The local stack with the models of the repository, in this process. */
export async function startJobStack(environment = SIZES) {
  const said: string[] = [];
  const waiting = new Set<() => void>();
  const say = (message: string): void => {
    said.push(message);
    for (const look of [...waiting]) look();
  };
  const stack: LocalStack = await startLocalStack({
    port: 0,
    modelsDirectory: `${REPOSITORY}/models`,
    defaultModel: 'digits',
    environment,
    jobs: true,
    telemetry: createDevTelemetry(() => {}),
    warn: say,
  });
  const { region, endpoint } = stack.queues;
  const s3 = localBucketClient(endpoint, region);
  const credentials = { accessKeyId: 'any', secretAccessKey: 'any' };
  const sfn = new SFNClient({ region, endpoint: stack.jobs?.sfnEndpoint ?? '', credentials, maxAttempts: 1 });
  const { jobStateMachine = '', jobBucket = '' } = stack.jobs ?? {};
  const client = new Batchscore({ jobStateMachine, jobBucket, region, s3, sfn });
  return {
    s3,
    sfn,
    client,
    stateMachineArn: jobStateMachine,
    /** Every line that was said, in order. */
    said,
    async put(key: string, body: string): Promise<void> {
      await s3.send(new PutObjectCommand({ Bucket: BUCKET, Key: key, Body: body }));
    },
    async get(key: string): Promise<string> {
      const { Body } = await s3.send(new GetObjectCommand({ Bucket: BUCKET, Key: key }));
      return (await Body?.transformToString()) ?? '';
    },
    async keysUnder(prefix: string): Promise<string[]> {
      const { Contents = [] } = await s3.send(new ListObjectsV2Command({ Bucket: BUCKET, Prefix: prefix }));
      return Contents.flatMap(({ Key }) => Key ?? []).toSorted();
    },
    /** The first line that matches, from now on or before. */
    line: (pattern: RegExp) =>
      new Promise<string>((resolve) => {
        const look = (): void => {
          const found = said.find((one) => pattern.test(one));
          if (found === undefined) return;
          waiting.delete(look);
          resolve(found);
        };
        waiting.add(look);
        look();
      }),
    async stop(): Promise<void> {
      await client.close();
      s3.destroy();
      sfn.destroy();
      await stack.stop();
    },
  };
}

/** One row for digits, which `turn` tells from others. */
export function row(turn: number): string {
  const data = Array.from({ length: 64 }, (_, pixel) => (pixel + turn) % 17);
  return JSON.stringify({ id: `row-${turn}`, inputs: [{ name: 'image', datatype: 'FP32', shape: [1, 64], data }] });
}

export function fileOf(rows: readonly string[]): string {
  return rows.map((one) => `${one}\n`).join('');
}
