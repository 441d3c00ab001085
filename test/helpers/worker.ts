import type { Step } from './frontServer.ts';
import { lookupRequest } from './handler.ts';
import { lookupModel } from './onnxModels.ts';
import { modelsDirectory, type RepositoryFiles } from './openModels.ts';
import type { SqsServer } from './sqsServer.ts';
import { startWorkerProcess, type WorkerProcess } from './workerProcess.ts';

/** Decoding a request takes as many milliseconds as it says. */
export const SLOW = {
  'slow/1/model.onnx': lookupModel(),
  'slow/config.json': { transform: 'transform.mjs' },
  'slow/transform.mjs': `export async function decode({ ms }) {
    await new Promise((resolve) => setTimeout(resolve, ms));
    return [{ name: 'index', datatype: 'INT64', shape: [1], data: [0] }];
  }`,
} satisfies RepositoryFiles;

export const LOOKUP = { 'lookup/1/model.onnx': lookupModel() } satisfies RepositoryFiles;

/** One of three requests that the model `lookup` answers. */
export function lookup(index: number): string {
  return JSON.stringify({ id: String(index), ...lookupRequest(index % 3) });
}

export function slow(ms: number): string {
  return JSON.stringify({ model_name: 'slow', ms });
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

export interface Deployment {
  readonly requestQueueUrl: string;
  readonly resultQueueUrl: string;
  start(environment?: Readonly<Record<string, string>>): WorkerProcess;
  /** Waits for so many answers or more. @returns those that came, in order */
  results(count: number): Promise<Result[]>;
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

const MOST_CALLS = 20_000;

export async function deployment(server: SqsServer, options: DeploymentOptions = {}): Promise<Deployment> {
  const { models = LOOKUP, environment = {}, attributes = {}, fifo = false, between } = options;
  const create = fifo ? server.fifoQueue : server.queue;
  const [requestQueueUrl, resultQueueUrl] = [create(attributes), create({})];
  const front = between === undefined ? undefined : await server.front(...Array<Step>(MOST_CALLS).fill(between));
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
    start: (more = {}) => startWorkerProcess({ ...variables, ...more }),
    async results(count) {
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
