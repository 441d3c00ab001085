import { DeleteMessageBatchCommand, type Message } from '@aws-sdk/client-sqs';
import { afterEach } from '@jest/globals';
import { Batchscore, type BatchscoreOptions, type ScoringResult } from '../../client/index.ts';
import { createPayloads } from '../../lambda/aws/payloads.ts';
import { createQueueWriters, type ResultPacking } from '../../lambda/aws/resultQueue.ts';
import { createTableWriter } from '../../lambda/aws/resultTable.ts';
import type { Model } from '../../lambda/core/model.ts';
import type { MessageRecord, Result, ResultWriter } from '../../lambda/core/record.ts';
import { scoreRecords } from '../../lambda/hosts/records.ts';
import { type SqsServer, useDynamoDbServer, useS3Server, useSqsServer } from './awsServers.ts';
import { enoughTime, lineModel, repositoryOf, scoringDependencies } from './scoring.ts';

/**
 * Deployments for clients: queues, stores and a real handler behind them.
 * @example const { client } = await deployments.create('queue');
 */
export function useDeployments() {
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
    /**
     * A deployment of its own for the test that asks, whose results go to `store`.
     *
     * @param prefix of its keys in the payload bucket. @default ''
     */
    async create(
      store: 'queue' | 'table',
      queues: 'standard' | 'fifo' = 'standard',
      packing?: ResultPacking,
      prefix?: string,
    ) {
      const queue = queues === 'fifo' ? sqs.fifoQueue : sqs.queue;
      const [requestQueueUrl, resultQueueUrl, ...clientQueueUrls] = [queue(), queue(), queue(), queue()] as const;
      const [resultTable, payloadBucket] = await Promise.all([dynamodb.table(), s3.bucket()]);
      const payloads = createPayloads({ s3: s3.client(), bucket: payloadBucket, prefix, maxBytes: 100_000_000 });
      const writer: ResultWriter =
        store === 'queue'
          ? createQueueWriters([resultQueueUrl, ...clientQueueUrls], { sqs: sqs.client(), payloads, packing })
          : createTableWriter({ dynamodb: dynamodb.client(), tableName: resultTable, ttlSeconds: 60, payloads });
      return {
        requestQueueUrl,
        resultQueueUrl,
        /** Two, each for a client of its own. */
        clientQueueUrls,
        resultTable,
        payloadBucket,
        writer,
        /** A client of this deployment; it is closed after the test. */
        client(overrides: Partial<BatchscoreOptions> = {}): Batchscore {
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
        /** Scores the next `count` messages with the real scoring, and resolves when their results are written. */
        async answer(count: number, ...models: readonly Model[]): Promise<void> {
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

function toRecord({ MessageId = '', ReceiptHandle = '', Body = '', Attributes, ...message }: Message): MessageRecord {
  const group = Attributes?.MessageGroupId;
  return {
    messageId: MessageId,
    receiptHandle: ReceiptHandle,
    body: Body,
    attributes: { ApproximateReceiveCount: '1', SentTimestamp: '0', MessageGroupId: group },
    messageAttributes: Object.fromEntries(
      Object.entries(message.MessageAttributes ?? {}).map(([name, { StringValue }]) => [
        name,
        { stringValue: StringValue },
      ]),
    ),
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
