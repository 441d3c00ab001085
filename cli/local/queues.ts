import { CreateQueueCommand, type SQSClient } from '@aws-sdk/client-sqs';
import { buildApp } from 'fauxqs';
import { createSqsClient, HOST_PATIENCE } from '../../lambda/aws/awsClients.ts';
import { hasCode } from '../../lambda/aws/awsError.ts';
import { takeObjectsOfAnySize } from './buckets.ts';
import { refuseForeignCallers } from './foreignCallers.ts';
import { listenToObjects } from './jobs/fileEvents.ts';
import { takeEveryCharacterOfSqs } from './messageCharacters.ts';

export interface LocalQueueOptions {
  /** TCP port of the queue server, 0–65535; 0 picks a free one. */
  port: number;
  /** Request queues, at least 1. @default 1 */
  shards?: number | undefined;
  /** How long a received request stays hidden, in seconds, 0–43,200. */
  visibilityTimeoutSeconds: number;
  /** Receives after which a request moves to the dead-letter queue, at least 1. */
  maxReceiveCount: number;
}

export interface LocalQueue {
  queueUrl: string;
  queueArn: string;
}

export interface LocalQueues {
  /** `http://127.0.0.1:PORT`: the endpoint to give any SQS client. */
  endpoint: string;
  region: string;
  /** One for each shard. */
  requestQueues: readonly LocalQueue[];
  /** Those of the first. */
  requestQueueUrl: string;
  requestQueueArn: string;
  resultQueueUrl: string;
  deadLetterQueueUrl: string;
  /** Has a listener told of every object that is put into a bucket of the server. */
  onObject(listener: (bucket: string, key: string) => void): void;
  /** Ends the server. What its queues held is gone: they are in memory. */
  stop(): Promise<void>;
}

const REGION = 'us-east-1';
const ACCOUNT = '000000000000';
const REQUESTS = 'batchscore-requests';
const RESULTS = 'batchscore-results';
const DEAD_LETTERS = 'batchscore-dead-letters';

/**
 * Starts an SQS server in this process, in memory, on 127.0.0.1, with the request queues (redriven to the
 * dead-letter queue) and the result queue.
 *
 * @throws when the port is taken, naming it and what to do.
 */
export async function startLocalQueues(options: LocalQueueOptions): Promise<LocalQueues> {
  takeEveryCharacterOfSqs();
  const names = Array.from({ length: options.shards ?? 1 }, (_, shard) =>
    shard === 0 ? REQUESTS : `${REQUESTS}-${shard + 1}`,
  );
  const server = buildApp({ logger: false });
  refuseForeignCallers(server.server);
  takeObjectsOfAnySize(server);
  const onObject = listenToObjects(server);
  const endpoint = await listenOnLoopback(server, options.port);
  try {
    await createQueues(endpoint, names, options);
  } catch (error) {
    await server.close();
    throw error;
  }
  return {
    endpoint,
    region: REGION,
    requestQueues: names.map((name) => ({ queueUrl: queueUrl(endpoint, name), queueArn: queueArn(name) })),
    requestQueueUrl: queueUrl(endpoint, REQUESTS),
    requestQueueArn: queueArn(REQUESTS),
    resultQueueUrl: queueUrl(endpoint, RESULTS),
    deadLetterQueueUrl: queueUrl(endpoint, DEAD_LETTERS),
    onObject,
    stop: async () => {
      await server.close();
    },
  };
}

/**
 * An SQS client for a local server: dummy credentials, and neither signatures nor checksums, which nobody needs on
 * loopback and which take a third of the time of each request.
 */
export function localSqsClient({ endpoint, region }: { endpoint: string; region: string }): SQSClient {
  return createSqsClient(HOST_PATIENCE, {
    endpoint,
    region,
    credentials: { accessKeyId: 'local', secretAccessKey: 'local' },
    signer: { sign: async (request) => request },
    useQueueUrlAsEndpoint: false,
    md5: false,
  });
}

// startFauxqs() listens on every interface; only this machine needs a development queue.
async function listenOnLoopback(server: ReturnType<typeof buildApp>, port: number): Promise<string> {
  try {
    return await server.listen({ port, host: '127.0.0.1' });
  } catch (error) {
    await server.close();
    throw isPortTaken(error)
      ? new Error(
          `port ${port} on 127.0.0.1: expected it to be free for the local queues, got another program that listens ` +
            'there; stop that program, name another port, or pass --port 0 to pick a free one',
          { cause: error },
        )
      : error;
  }
}

function isPortTaken(error: unknown): boolean {
  return hasCode(error, 'EADDRINUSE');
}

async function createQueues(endpoint: string, requests: readonly string[], options: LocalQueueOptions): Promise<void> {
  const sqs = localSqsClient({ endpoint, region: REGION });
  try {
    for (const name of [DEAD_LETTERS, RESULTS]) {
      await sqs.send(new CreateQueueCommand({ QueueName: name }));
    }
    for (const name of requests) {
      await sqs.send(new CreateQueueCommand({ QueueName: name, Attributes: requestQueueAttributes(options) }));
    }
  } finally {
    sqs.destroy();
  }
}

function requestQueueAttributes(options: LocalQueueOptions): Record<string, string> {
  return {
    VisibilityTimeout: String(options.visibilityTimeoutSeconds),
    RedrivePolicy: JSON.stringify({
      deadLetterTargetArn: queueArn(DEAD_LETTERS),
      maxReceiveCount: options.maxReceiveCount,
    }),
  };
}

// The server itself hands out http://sqs.us-east-1.localhost:PORT/…, a name not every resolver knows. It finds
// a queue by the last part of its URL, so an address that needs no resolver does as well.
function queueUrl(endpoint: string, name: string): string {
  return `${endpoint}/${ACCOUNT}/${name}`;
}

function queueArn(name: string): string {
  return `arn:aws:sqs:${REGION}:${ACCOUNT}:${name}`;
}
