import { SendMessageBatchCommand } from '@aws-sdk/client-sqs';
import { describe, expect, it } from '@jest/globals';
import { type CallReport, observed } from '../../../lambda/aws/observedCalls.ts';
import { createPayloads } from '../../../lambda/aws/payloads.ts';
import { createAcknowledger, createRetryDelay } from '../../../lambda/aws/requestQueue.ts';
import { createQueueWriter } from '../../../lambda/aws/resultQueue.ts';
import { createTableWriter } from '../../../lambda/aws/resultTable.ts';
import type { RetryOptions } from '../../../lambda/aws/sendBatches.ts';
import { useDynamoDbServer } from '../../helpers/dynamodbServer.ts';
import { answersJson, refusesXml, type Step } from '../../helpers/frontServer.ts';
import { useS3Server } from '../../helpers/s3Server.ts';
import { recordOfMessage } from '../../helpers/sqsEvents.ts';
import { useSqsServer } from '../../helpers/sqsServer.ts';

const sqsServer = useSqsServer();
const dynamodbServer = useDynamoDbServer();
const s3Server = useS3Server();
const { signal } = new AbortController();
const retry: RetryOptions = { random: () => 0 };
const results = ['a', 'b', 'c'].map((messageId) => ({ messageId, body: '"SECRET"', messageGroupId: undefined }));
const unavailable = answersJson(503, { __type: 'ServiceUnavailable' });

/** Passes all entries on but the first, and says that this one failed. */
const failsFirst: Step = async (exchange) => {
  const { QueueUrl, Entries } = JSON.parse(exchange.body);
  const [first, ...others] = Entries;
  const { body } = await exchange.reach(JSON.stringify({ QueueUrl, Entries: others }));
  const Failed = [{ Id: first.Id, Code: 'InternalError', Message: 'SECRET', SenderFault: false }];
  answersJson(200, { ...JSON.parse(body.toString()), Failed })(exchange);
};

describe('an observed client', () => {
  it('tells of each call how many entries it had, how long it took, which attempt it was and how it ended', async () => {
    const calls: CallReport[] = [];
    const front = await sqsServer.front(failsFirst, unavailable);
    const sqs = observed(sqsServer.client(front), (call) => void calls.push(call));

    await createQueueWriter({ sqs, queueUrl: sqsServer.queue(), retry }).write(results, signal);

    const call = { aws: 'SQS', operation: 'SendMessageBatch', ms: expect.any(Number) };
    expect(calls).toEqual([
      { ...call, entries: 3, attempt: 1, outcome: 'refused in part', refused: 1 },
      { ...call, entries: 1, attempt: 2, outcome: 'failed', error: 'ServiceUnavailable' },
      { ...call, entries: 1, attempt: 3, outcome: 'done' },
    ]);
    for (const { ms } of calls) expect(ms).toBeGreaterThan(0);
    expect(JSON.stringify(calls)).not.toContain('SECRET');
  });

  it('tells of what DynamoDB left unprocessed', async () => {
    const calls: CallReport[] = [];
    const front = await dynamodbServer.front((exchange) => {
      const { RequestItems } = JSON.parse(exchange.body);
      answersJson(200, { UnprocessedItems: RequestItems })(exchange);
    });
    const dynamodb = observed(dynamodbServer.client(front), (call) => void calls.push(call));
    const tableName = await dynamodbServer.table();

    await createTableWriter({ dynamodb, tableName, ttlSeconds: 60, retry }).write(results, signal);

    const call = { aws: 'DynamoDB', operation: 'BatchWriteItem', entries: 3 };
    expect(calls).toMatchObject([
      { ...call, attempt: 1, outcome: 'refused in part', refused: 3 },
      { ...call, attempt: 2, outcome: 'done' },
    ]);
  });

  it('tells of objects that are put and read', async () => {
    const calls: CallReport[] = [];
    const slowDown = refusesXml(503, 'SlowDown');
    const front = await s3Server.front(slowDown, undefined, slowDown);
    const s3 = observed(s3Server.client(front), (call) => void calls.push(call));
    const bucket = await s3Server.bucket();
    await s3Server.put(bucket, 'requests/one', '"SECRET"');
    const payloads = createPayloads({ s3, bucket, maxBytes: 100, retry });

    await payloads.put('"SECRET"', signal);
    await payloads.read({ bucket, key: 'requests/one' }, { admit: async () => {}, signal });

    const [put, get] = ['PutObject', 'GetObject'].map((operation) => ({ aws: 'S3', operation, entries: 1 }));
    expect(calls).toMatchObject([
      { ...put, attempt: 1, outcome: 'failed', error: 'SlowDown' },
      { ...put, attempt: 2, outcome: 'done' },
      { ...get, attempt: 1, outcome: 'failed', error: 'SlowDown' },
      { ...get, attempt: 2, outcome: 'done' },
    ]);
  });

  it('tells of deletes and delays, and of their attempts', async () => {
    const calls: CallReport[] = [];
    const front = await sqsServer.front(unavailable, undefined, unavailable);
    const sqs = observed(sqsServer.client(front), (call) => void calls.push(call));
    const queueUrl = sqsServer.queue();
    sqsServer.send(queueUrl, ['one', 'two']);
    const records = (await sqsServer.receive(queueUrl)).map((message) => recordOfMessage(message, queueUrl));
    const options = { sqs, queueUrl, retry, onProblem: () => {} };

    await createRetryDelay(options)(records, signal);
    await createAcknowledger(options)(records, signal);

    expect(calls.map(({ operation, entries, attempt }) => [operation, entries, attempt])).toEqual([
      ['ChangeMessageVisibilityBatch', 2, 1],
      ['ChangeMessageVisibilityBatch', 2, 2],
      ['DeleteMessageBatch', 2, 1],
      ['DeleteMessageBatch', 2, 2],
    ]);
  });

  it('is left as it is where nobody asks', async () => {
    const sqs = sqsServer.client();
    const before = sqs.middlewareStack.identify();

    expect(observed(sqs, undefined)).toBe(sqs);

    expect(sqs.middlewareStack.identify()).toEqual(before);
    observed(sqs, () => {});
    expect(sqs.middlewareStack.identify()).not.toEqual(before);
    await sqs.send(
      new SendMessageBatchCommand({ QueueUrl: sqsServer.queue(), Entries: [{ Id: '0', MessageBody: 'x' }] }),
    );
  });
});
