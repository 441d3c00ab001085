import { DeleteMessageBatchCommand, type Message } from '@aws-sdk/client-sqs';
import { afterEach } from '@jest/globals';
import { Batchscore, type BatchscoreOptions, type ScoringResult } from '../../client/index.ts';
import { createPayloads } from '../../lambda/aws/payloads.ts';
import { createQueueWriter, type ResultPacking } from '../../lambda/aws/resultQueue.ts';
import { createTableWriter } from '../../lambda/aws/resultTable.ts';
import type { Model } from '../../lambda/core/model.ts';
import type { MessageRecord, Result, ResultWriter } from '../../lambda/core/record.ts';
import { scoreRecords } from '../../lambda/hosts/records.ts';
import {
  type DynamoDbServer,
  type S3Server,
  type SqsServer,
  useDynamoDbServer,
  useS3Server,
  useSqsServer,
} from './awsServers.ts';
import { enoughTime, lineModel, repositoryOf, scoringDependencies } from './scoring.ts';

/** What a deployment is: queues, a result store, a payload bucket, and the scoring between them. */
interface Deployment {
  readonly requestQueueUrl: string;
  readonly resultQueueUrl: string;
  readonly resultTable: string;
  readonly payloadBucket: string;
  /** A client of this deployment; it is closed after the test. */
  client(overrides?: Partial<BatchscoreOptions>): Batchscore;
  /** Scores the next `count` messages with the real scoring, and resolves when their results are written. */
  answer(count: number, ...models: readonly Model[]): Promise<void>;
  /** Writes results as a deployment does. */
  readonly writer: ResultWriter;
}

interface Deployments {
  readonly sqs: SqsServer;
  readonly dynamodb: DynamoDbServer;
  readonly s3: S3Server;
  /**
   * A deployment of its own for the test that asks, whose results go to `store`.
   *
   * @param prefix of its keys in the payload bucket. @default ''
   */
  create(
    store: 'queue' | 'table',
    queues?: 'standard' | 'fifo',
    packing?: ResultPacking,
    prefix?: string,
  ): Promise<Deployment>;
}

/**
 * Deployments for clients: queues, stores and a real handler behind them.
 *
 * ```ts
 * const deployments = useDeployments();
 * const { client } = await deployments.create('queue');
 * expect(idsOf(await allOf(client().collect(ids, IN_TIME)))).toEqual(ids);
 * ```
 */
export function useDeployments(): Deployments {
  const clients: Batchscore[] = [];
  // Registered first, so that clients are closed before the servers' own clients are.
  afterEach(async () => {
    await Promise.all(clients.splice(0).map((client) => client.close()));
  });
  const sqs = useSqsServer();
  const dynamodb = useDynamoDbServer();
  const s3 = useS3Server();

  return {
    sqs,
    dynamodb,
    s3,
    async create(store, queues = 'standard', packing, prefix) {
      const queue = queues === 'fifo' ? sqs.fifoQueue : sqs.queue;
      const [requestQueueUrl, resultQueueUrl] = [queue(), queue()];
      const [resultTable, payloadBucket] = await Promise.all([dynamodb.table(), s3.bucket()]);
      const payloads = createPayloads({ s3: s3.client(), bucket: payloadBucket, prefix, maxBytes: 100_000_000 });
      const writer =
        store === 'queue'
          ? createQueueWriter({ sqs: sqs.client(), queueUrl: resultQueueUrl, payloads, packing })
          : createTableWriter({ dynamodb: dynamodb.client(), tableName: resultTable, ttlSeconds: 60, payloads });
      return {
        requestQueueUrl,
        resultQueueUrl,
        resultTable,
        payloadBucket,
        writer,
        client(overrides = {}) {
          const client = new Batchscore({
            requestQueueUrl,
            ...(store === 'queue' ? { resultQueueUrl } : { resultTable }),
            payloadBucket,
            payloadPrefix: prefix,
            sqs: sqs.client(),
            dynamodb: dynamodb.client(),
            s3: s3.client(),
            ...overrides,
          });
          clients.push(client);
          return client;
        },
        async answer(count, ...models) {
          const deps = scoringDependencies({
            models: repositoryOf(...(models.length > 0 ? models : [lineModel()])),
            writer,
            payloads,
          });
          for (let answered = 0; answered < count; ) {
            const messages = await sqs.receive(requestQueueUrl, { waitSeconds: 20 });
            const outcomes = await scoreRecords(messages.map(toRecord), deps, enoughTime());
            answered += outcomes.filter(({ status }) => status === 'answered').length;
            await remove(sqs, requestQueueUrl, messages);
          }
        },
      };
    },
  };
}

async function remove(sqs: SqsServer, QueueUrl: string, messages: readonly Message[]): Promise<void> {
  if (messages.length === 0) return;
  const Entries = messages.map(({ ReceiptHandle }, index) => ({ Id: String(index), ReceiptHandle }));
  await sqs.client().send(new DeleteMessageBatchCommand({ QueueUrl, Entries }));
}

function toRecord({ MessageId = '', ReceiptHandle = '', Body = '', Attributes }: Message): MessageRecord {
  const group = Attributes?.MessageGroupId;
  return {
    messageId: MessageId,
    receiptHandle: ReceiptHandle,
    body: Body,
    attributes: { ApproximateReceiveCount: '1', SentTimestamp: '0', MessageGroupId: group },
    messageAttributes: {},
    eventSourceARN: `arn:aws:sqs:us-east-1:000000000000:requests${group === undefined ? '' : '.fifo'}`,
  };
}

export const IN_TIME = { timeoutMs: 20_000 };

/** A signal that never aborts. */
export const ALIVE = new AbortController().signal;

/** A result as a deployment writes it, that says no more than whose it is. */
export function resultOf(messageId: string): Result {
  return { messageId, body: JSON.stringify({ message_id: messageId, predictions: [] }), messageGroupId: undefined };
}

export function idsOf(results: readonly ScoringResult[]): string[] {
  return results.map(({ messageId }) => messageId).toSorted();
}

export function byId(results: readonly ScoringResult[]): Map<string, ScoringResult> {
  return new Map(results.map((result) => [result.messageId, result]));
}
