import { mkdtempSync, readdirSync, readFileSync } from 'node:fs';
import { chmod, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { DeleteMessageBatchCommand, type Message, ReceiveMessageCommand, SQSClient } from '@aws-sdk/client-sqs';
import { afterAll, afterEach, beforeAll } from '@jest/globals';
import type { SQSRecord } from 'aws-lambda';
import { MAX_RECEIVES } from '../../lambda/core/limits.ts';
import type { SqsServer } from './awsServers.ts';
import type { Step } from './frontServer.ts';
import { lookupRequest, recordOfMessage } from './handler.ts';
import { lookupModel } from './onnxModels.ts';
import { afterThisTest, modelsDirectory, type RepositoryFiles } from './openModels.ts';
import * as processes from './processes.ts';
import { type Intercept, MAX_HIDDEN_SECONDS, redrivePolicy, type StrictSqs, startStrictSqs } from './strictSqs.ts';

/*
 * Hosts in processes of their own, and what they are sent. It is long because it has two ways to drive them: `useHosts`, from
 * outside and for both hosts alike, and `deployment`, for what is the worker's alone.
 */

/** What scores messages: `lambda/handler.ts` behind a mapping of SQS, and `lambda/worker.ts`. Each is a process of its own. */
export const HOSTS = ['the function', 'the worker'] as const;
export type HostName = (typeof HOSTS)[number];

interface HostOptions {
  readonly models: RepositoryFiles;
  /** What the host is told besides. */
  readonly environment?: Readonly<Record<string, string>>;
  readonly fifo?: boolean;
  /** That an invocation of the function, or a batch of the worker, may take. @default 30 */
  readonly timeoutSeconds?: number;
  /** Most messages of an invocation, or of a batch. @default 500 */
  readonly batchSize?: number;
  /** Of Node. */
  readonly execArgv?: readonly string[];
}

/** What was written under a message ID. */
export interface Answer {
  readonly message_id: string;
  readonly id?: string;
  readonly code?: string;
  readonly error?: string;
  readonly outputs?: readonly {
    readonly name: string;
    readonly datatype: string;
    readonly shape: readonly number[];
    readonly data: readonly (number | string)[];
  }[];
}

export interface Host {
  /** Names of its queues; `requests` sends its messages to `dead` after `MAX_RECEIVES`. */
  readonly requests: string;
  readonly results: string;
  readonly dead: string;
  /** Puts messages on the request queue. @returns their message IDs */
  send(bodies: readonly unknown[], groupOf?: (index: number) => string): string[];
  /** Waits until there is an answer under each ID. @returns them in order; what was written twice must be the same */
  answers(ids: readonly string[]): Promise<Answer[]>;
  /** All that was written so far, in order. */
  written(): Answer[];
  /** What has become of each message. */
  fates(ids: readonly string[]): string[];
  /** Waits until each has this fate. */
  become(fate: string, ids: readonly string[]): Promise<void>;
  receives(ids: readonly string[]): number[];
  /** Waits until the host, or a predecessor, has printed this. @returns the last line that has it, parsed */
  says(text: string): Promise<Record<string, unknown>>;
  /** Process ID of the host that runs now. */
  pid(): number;
  /** The most memory that the host that runs now, and its scorers, have had resident. */
  peakBytes(): number;
  /** The names of the threads of the host that runs now, and of its scorers, sorted. */
  threads(): string[];
  /** All that was printed, by its predecessors too. */
  printed(): string;
  /** Asks the worker to end, and the mapping of the function to invoke it no more. @returns the worker's exit code */
  stop(): Promise<number | null>;
  /** Asks the worker to end; another takes its place. @returns its exit code */
  replace(): Promise<number | null>;
  /** Ends it at once. What it held comes back, and another takes its place, as whenever a host ends that was not stopped. */
  kill(): Promise<void>;
}

const SECOND_MS = 0.5;
const VISIBILITY_SECONDS = String(MAX_HIDDEN_SECONDS);
/** What a host holds, or has not been able to delay, stays hidden for longer than any run of these tests takes. */
const HELD_MS = 120_000;

/**
 * Hosts that tests drive from outside: messages in, answers and the fates of messages out. A second that a host delays a
 * message by takes half a millisecond, so that what is to come back after an hour does.
 *
 * @param secondMs what such a second takes. @default half a millisecond
 * @example const hosts = useHosts();
 *   it.each(HOSTS)('%s answers', async (name) => {
 *     const host = await hosts.start(name, { models: LOOKUP });
 *     const ids = host.send([lookup(0)]);
 *     expect(await host.answers(ids)).toMatchObject([{ outputs: [{ data: [10] }] }]);
 *     await host.become('deleted', ids);
 *   });
 */
export function useHosts(secondMs = SECOND_MS) {
  let running: StrictSqs | undefined;
  let started = 0;
  const sqs = (): StrictSqs => {
    if (running === undefined) throw new Error('hosts are started while tests run, not while they are defined');
    return running;
  };
  beforeAll(async () => {
    running = await startStrictSqs((seconds) => (seconds === MAX_HIDDEN_SECONDS ? HELD_MS : secondMs * seconds));
  });
  afterEach(() => sqs().intercept());
  afterAll(() => running?.stop());
  return {
    sqs,
    /** Comes between hosts and SQS until the test has ended. */
    intercept: (between: Intercept): void => sqs().intercept(between),
    start: async (name: HostName, options: HostOptions): Promise<Host> =>
      await startHost(sqs(), name, options, started++),
  };
}

async function startHost(sqs: StrictSqs, name: HostName, options: HostOptions, index: number): Promise<Host> {
  const { models, environment, fifo = false, timeoutSeconds = 30, batchSize = 500, execArgv } = options;
  const suffix = `-${index}${fifo ? '.fifo' : ''}`;
  const [requests, results, dead] = [`requests${suffix}`, `results${suffix}`, `dead${suffix}`] as const;
  const redrive = { RedrivePolicy: redrivePolicy(sqs.createQueue(dead), MAX_RECEIVES) };
  const queueUrl = sqs.createQueue(requests, { VisibilityTimeout: VISIBILITY_SECONDS, ...redrive });
  const variables = {
    AWS_ENDPOINT_URL_SQS: sqs.endpoint,
    BATCHSCORE_MODELS_DIR: await modelsDirectory(models),
    BATCHSCORE_REQUEST_QUEUE_URL: queueUrl,
    BATCHSCORE_RESULT_QUEUE_URL: sqs.createQueue(results),
    BATCHSCORE_VISIBILITY_SECONDS: VISIBILITY_SECONDS,
    BATCHSCORE_TIMEOUT_SECONDS: String(timeoutSeconds),
    BATCHSCORE_BATCH_SIZE: String(batchSize),
    BATCHSCORE_STOP_SECONDS: '4',
    ...environment,
  };
  const start = name === 'the function' ? startFunction : startWorker;
  const expire = (): void => sqs.expire(requests);
  const running = await start({ variables, queueUrl, timeoutSeconds, batchSize, execArgv, expire });
  afterThisTest(running.end);

  const known = (ids: readonly string[]) => {
    const byId = new Map(sqs.history(requests).map((one) => [one.messageId, one]));
    return ids.map((id) => byId.get(id)).filter((one) => one !== undefined);
  };
  const answersRead: Answer[] = [];
  let messagesRead = 0;
  const written = (): Answer[] => {
    const more = sqs.history(results, messagesRead);
    messagesRead += more.length;
    for (const { body } of more) answersRead.push(...[JSON.parse(body)].flat(2));
    return [...answersRead];
  };
  return {
    requests,
    results,
    dead,
    ...running,
    send: (bodies, groupOf) =>
      bodies.map((body, at) =>
        sqs.sendMessage(requests, typeof body === 'string' ? body : JSON.stringify(body), groupOf?.(at)),
      ),
    written,
    async answers(ids) {
      for (;;) {
        const byId = Map.groupBy(written(), ({ message_id }) => message_id);
        const answers = ids.map((id) => theOne(byId.get(id) ?? []));
        if (answers.every((answer) => answer !== undefined)) return answers;
        await aMoment();
      }
    },
    fates: (ids) => known(ids).map(({ fate }) => fate),
    receives: (ids) => known(ids).map(({ receives }) => receives),
    async become(wanted, ids) {
      for (;;) {
        const fates = known(ids).map(({ fate }) => fate);
        if (fates.every((fate) => fate === wanted)) return;
        // Nothing becomes of these any more.
        const final = fates.find((fate) => fate !== wanted && (fate === 'dead' || fate === 'deleted'));
        if (final !== undefined && wanted !== 'in flight')
          throw new Error(`expected ${wanted} messages, one is ${final}`);
        await aMoment();
      }
    },
    async says(text) {
      for (;;) {
        const line = running
          .printed()
          .split('\n')
          .findLast((one) => one.includes(text));
        if (line !== undefined) return JSON.parse(line);
        await aMoment();
      }
    },
  };
}

/** A result may be written again: then it is the same. */
function theOne(same: readonly Answer[]): Answer | undefined {
  const [first, ...others] = same;
  for (const other of others) {
    const [one, another] = [JSON.stringify(first), JSON.stringify(other)];
    if (one !== another) throw new Error(`expected one answer under ${first?.message_id}, got ${one} and ${another}`);
  }
  return first;
}

interface Starting {
  readonly variables: Readonly<Record<string, string>>;
  readonly queueUrl: string;
  readonly timeoutSeconds: number;
  readonly batchSize: number;
  readonly execArgv: readonly string[] | undefined;
  /** Lets what a host held that has ended come back. */
  expire(): void;
}

type Running = Pick<Host, 'pid' | 'printed' | 'peakBytes' | 'threads' | 'stop' | 'replace' | 'kill'> & {
  readonly end: () => Promise<void>;
};

/** The function, and an event source mapping that invokes it with all that there is, one invocation at a time. */
async function startFunction(starting: Starting): Promise<Running> {
  const { variables, queueUrl, timeoutSeconds, batchSize, execArgv, expire } = starting;
  const sqs = new SQSClient({
    endpoint: new URL(queueUrl).origin,
    region: 'us-east-1',
    credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
    useQueueUrlAsEndpoint: false,
    maxAttempts: 1,
  });
  let printedBefore = '';
  const options = { execArgv, isFrozen: true, cleanUp: () => {} };
  let handler: Awaited<ReturnType<typeof startHandler>> | undefined = await startHandler(variables, options);
  const gone = new AbortController();
  let isStopped = false;
  const leave = async (): Promise<void> => {
    printedBefore += (await handler?.end()) ?? '';
    handler = undefined;
    expire();
  };
  const invoke = async (messages: readonly Message[]): Promise<void> => {
    handler ??= await startHandler(variables, options);
    if (isStopped) return;
    const records = messages.map((message) => recordOf(message, queueUrl));
    const response = await handler.invoke(records, undefined, 1000 * timeoutSeconds).catch(() => undefined);
    if (response === undefined) return isStopped ? undefined : await leave();
    const failed = new Set(response.batchItemFailures.map(({ itemIdentifier }) => itemIdentifier));
    const done = messages.filter(({ MessageId = '' }) => !failed.has(MessageId));
    for (let from = 0; from < done.length; from += 10) {
      const Entries = done.slice(from, from + 10).map(({ ReceiptHandle }, id) => ({ Id: String(id), ReceiptHandle }));
      await sqs.send(new DeleteMessageBatchCommand({ QueueUrl: queueUrl, Entries }));
    }
  };
  const mapping = (async () => {
    while (!isStopped) {
      const messages: Message[] = await receive(sqs, queueUrl, 1, gone.signal, Math.min(10, batchSize));
      while (messages.length > 0 && messages.length < batchSize) {
        const more = await receive(sqs, queueUrl, 0, gone.signal, Math.min(10, batchSize - messages.length));
        if (more.length === 0) break;
        messages.push(...more);
      }
      if (messages.length > 0) await invoke(messages);
    }
  })();
  return {
    printed: () => printedBefore + (handler?.printed() ?? ''),
    pid: () => handler?.pid ?? 0,
    peakBytes: () => peakBytesOf(handler?.pid),
    threads: () => threadsOf(handler?.pid),
    async stop() {
      isStopped = true;
      await mapping;
      return 0;
    },
    replace: async () => {
      throw new Error('expected the worker to be replaced, got the function: it is told nothing when it ends');
    },
    kill: leave,
    async end() {
      isStopped = true;
      gone.abort();
      await handler?.end();
      await mapping;
      await handler?.end();
      sqs.destroy();
    },
  };
}

async function receive(
  sqs: SQSClient,
  QueueUrl: string,
  WaitTimeSeconds: number,
  abortSignal: AbortSignal,
  MaxNumberOfMessages = 10,
): Promise<Message[]> {
  const all = { MessageAttributeNames: ['All'], MessageSystemAttributeNames: ['All' as const] };
  const command = new ReceiveMessageCommand({ QueueUrl, WaitTimeSeconds, MaxNumberOfMessages, ...all });
  const answer = await sqs.send(command, { abortSignal }).catch((error: unknown) => {
    if (!abortSignal.aborted) throw error;
  });
  return answer?.Messages ?? [];
}

function recordOf(message: Message, queueUrl: string): SQSRecord {
  const record = recordOfMessage(message, queueUrl);
  return { ...record, attributes: { ...record.attributes, ...message.Attributes } };
}

/** Turns of the event loop in which the server has read and answered what a process sent before it ended. */
const TURNS_TO_READ = 20;

/** The worker, and another one when it ends without having been stopped, as ECS does. */
async function startWorker({ variables, expire }: Starting): Promise<Running> {
  let printedBefore = '';
  let isStopped = false;
  const start = (): WorkerProcess => {
    const mine = startWorkerProcess(variables, () => {});
    void mine.ended.then(async ({ code }) => {
      if (isStopped) return;
      printedBefore += `${mine.printed()}\n`;
      // Who ends as it was asked to hands back what it held. Of others the last polls are still to be read.
      if (code !== 0) {
        for (let turn = 0; turn < TURNS_TO_READ; turn++) await setImmediate();
        expire();
      }
      worker = start();
    });
    return mine;
  };
  let worker = start();
  await worker.says('the worker is ready');
  const end = async (signal: NodeJS.Signals): Promise<number | null> => {
    isStopped = true;
    worker.send(signal);
    return (await worker.ended).code;
  };
  return {
    printed: () => `${printedBefore}${worker.printed()}`,
    pid: () => worker.pid ?? 0,
    peakBytes: () => peakBytesOf(worker.pid),
    threads: () => threadsOf(worker.pid),
    stop: () => end('SIGTERM'),
    async replace() {
      const mine = worker;
      mine.send('SIGTERM');
      return (await mine.ended).code;
    },
    async kill() {
      const mine = worker;
      mine.send('SIGKILL');
      await mine.ended;
    },
    end: async () => void (await end('SIGKILL')),
  };
}

/** Of the host and its scorers. Linux tells it; `maxRSS` also counts what a parent held when the process was started. */
function peakBytesOf(host = 0): number {
  const peaks = [host, ...processes.scorersOf(host)].map((pid) => {
    const [, kibibytes = Number.NaN] = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
    return 1024 * Number(kibibytes);
  });
  return peaks.reduce((sum, bytes) => sum + bytes, 0);
}

/** Of the host and its scorers. */
function threadsOf(host = 0): string[] {
  return [host, ...processes.scorersOf(host)]
    .map((pid) => `/proc/${pid}/task`)
    .flatMap((tasks) => readdirSync(tasks).map((id) => readFileSync(`${tasks}/${id}/comm`, 'utf8').trim()))
    .toSorted();
}

export function aMoment(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 5));
}

/** Decoding a request takes as many milliseconds as it says. */
export const SLOW = {
  'slow/1/model.onnx': lookupModel(),
  'slow/config.json': { transform: 'transform.mjs' },
  'slow/transform.mjs': `export async function decode({ ms, fails }) {
    await new Promise((resolve) => setTimeout(resolve, ms));
    if (fails) throw Object.assign(new Error('not now'), { retryable: true });
    return [{ name: 'index', datatype: 'INT64', shape: [1], data: [0] }];
  }`,
} satisfies RepositoryFiles;

export const LOOKUP = { 'lookup/1/model.onnx': lookupModel() } satisfies RepositoryFiles;

/** One of three requests that the model `lookup` answers. */
export function lookup(index: number): string {
  return JSON.stringify({ id: String(index), ...lookupRequest(index % 3) });
}

/** @param fails whether it is to come again. @default it is answered */
export function slow(ms: number, fails = false): string {
  return JSON.stringify({ model_name: 'slow', ms, fails });
}

/** A request that keeps its model, `turns`, busy for hours. */
export const ENDLESS = JSON.stringify({
  model_name: 'turns',
  inputs: [{ name: 'turns', datatype: 'INT64', shape: [1], data: [4e12] }],
});

export interface DeploymentOptions {
  /** @default lookup */
  readonly models?: RepositoryFiles;
  readonly environment?: Readonly<Record<string, string>>;
  /** Of the request queue. */
  readonly attributes?: Record<string, string>;
  readonly fifo?: boolean;
  /** Answers what the worker asks of SQS, in the place of the server. */
  readonly between?: Step;
}

export interface Result {
  readonly message_id: string;
  readonly id?: string;
  readonly code?: string;
  readonly sentAt: number;
}

/** Which call of SQS a body is of: each has a key that the others lack. */
export function callOf(body: string): 'receive' | 'change visibility' | 'send' | 'delete' {
  if (body.includes('"WaitTimeSeconds"')) return 'receive';
  if (body.includes('"VisibilityTimeout"')) return 'change visibility';
  return body.includes('"MessageBody"') ? 'send' : 'delete';
}

const MAX_CALLS = 20_000;

export type Deployment = Awaited<ReturnType<typeof deployment>>;

export async function deployment(server: SqsServer, options: DeploymentOptions = {}) {
  const { models = LOOKUP, environment = {}, attributes = {}, fifo = false, between } = options;
  const create = fifo ? server.fifoQueue : server.queue;
  const [requestQueueUrl, resultQueueUrl] = [create(attributes), create({})];
  const front = between === undefined ? undefined : await server.front(...Array<Step>(MAX_CALLS).fill(between));
  const variables = {
    AWS_ENDPOINT_URL_SQS: front?.endpoint ?? new URL(requestQueueUrl).origin,
    BATCHSCORE_MODELS_DIR: await modelsDirectory(models),
    BATCHSCORE_REQUEST_QUEUE_URL: requestQueueUrl,
    BATCHSCORE_RESULT_QUEUE_URL: resultQueueUrl,
    BATCHSCORE_STOP_SECONDS: '6',
    ...environment,
  };
  const results: Result[] = [];
  return {
    requestQueueUrl,
    resultQueueUrl,
    start: (more: Readonly<Record<string, string>> = {}): WorkerProcess =>
      startWorkerProcess({ ...variables, ...more }),
    /** Waits for so many answers or more. @returns those that came, in order */
    async results(count: number): Promise<Result[]> {
      while (results.length < count) {
        for (const { Body = '', Attributes } of await server.drain(resultQueueUrl, { waitSeconds: 1 })) {
          const sentAt = Number(Attributes?.SentTimestamp);
          for (const one of [JSON.parse(Body)].flat(2)) results.push({ ...one, sentAt });
        }
      }
      return results;
    },
  };
}

/** Looks again and again, until it is so. */
export async function until(isSo: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await isSo())) await new Promise((resolve) => setTimeout(resolve, 10));
}

export type WorkerProcess = ReturnType<typeof startWorkerProcess>;

/** Killed after the test. */
function startWorkerProcess(variables: Readonly<Record<string, string>>, cleanUp = afterThisTest) {
  return processes.startWorkerProcess(variables, cleanUp);
}

/** Ended after the test, unless the options say otherwise. */
export function startHandler(
  variables: Readonly<Record<string, string>>,
  options: Partial<processes.HandlerOptions> = {},
) {
  return processes.startHandler(variables, { cleanUp: afterThisTest, ...options });
}

/** The environment in which `nvidia-smi` is this shell script, until the test is over. */
export async function nvidiaSmi(script: string): Promise<{ PATH: string }> {
  const folder = mkdtempSync(join(tmpdir(), 'batchscore-nvidia-smi-'));
  afterThisTest(() => rm(folder, { recursive: true }));
  const file = join(folder, 'nvidia-smi');
  await writeFile(file, `#!/bin/sh\n${script}\n`);
  await chmod(file, 0o755);
  return { PATH: `${folder}:/usr/bin:/bin` };
}
