import { once } from 'node:events';
import { request } from 'node:http';
import { CreateBucketCommand, GetObjectCommand, PutObjectCommand } from '@aws-sdk/client-s3';
import {
  GetQueueAttributesCommand,
  GetQueueUrlCommand,
  ReceiveMessageCommand,
  SendMessageBatchCommand,
  SendMessageCommand,
  SQSClient,
} from '@aws-sdk/client-sqs';
import { afterEach, describe, expect, it } from '@jest/globals';
import {
  type LocalQueues,
  localBucketClient,
  localSqsClient,
  startLocalQueues,
} from '../../../../cli/local/localServices.ts';

const ANY = { accessKeyId: 'any', secretAccessKey: 'any' };

const cleanups: (() => Promise<void> | void)[] = [];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

async function started(): Promise<LocalQueues> {
  const queues = await startLocalQueues({ port: 0, visibilityTimeoutSeconds: 45, maxReceiveCount: 4 });
  cleanups.push(queues.stop);
  return queues;
}

function destroyed(sqs: SQSClient): SQSClient {
  cleanups.push(() => sqs.destroy());
  return sqs;
}

describe('the S3 side of startLocalQueues', () => {
  it.each([0, 1, 12 * 1024 * 1024, 40 * 1024 * 1024])('takes an object of %i bytes by one PUT', async (bytes) => {
    const queues = await started();
    const s3 = localBucketClient(queues.endpoint, queues.region);
    cleanups.push(() => s3.destroy());
    const Bucket = 'any-bucket';
    await s3.send(new CreateBucketCommand({ Bucket }));
    const body = Buffer.alloc(bytes, 'rows\n');
    await s3.send(new PutObjectCommand({ Bucket, Key: 'sdk', Body: body }));
    // As curl -T and the AWS CLI put a file whose type they do not know, without one; and as curl --data-binary does.
    for (const [Key, type] of [['plain'], ['form', 'application/x-www-form-urlencoded']] as const) {
      const headers = { 'content-length': bytes, ...(type && { 'content-type': type }) };
      const put = request(`${queues.endpoint}/${Bucket}/${Key}`, { method: 'PUT', headers });
      const [{ statusCode }] = await once(put.end(body), 'response');
      expect(statusCode).toBe(200);
    }
    for (const Key of ['sdk', 'plain', 'form']) {
      const { Body } = await s3.send(new GetObjectCommand({ Bucket, Key }));
      expect(Buffer.compare((await Body?.transformToByteArray()) ?? Buffer.from('none'), body)).toBe(0);
    }
  });
});

describe('startLocalQueues', () => {
  it('publishes URLs that need no name resolution', async () => {
    const queues = await started();

    expect(queues.endpoint).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
    expect(queues).toMatchObject({
      region: 'us-east-1',
      requestQueueUrl: `${queues.endpoint}/000000000000/batchscore-requests`,
      requestQueueArn: 'arn:aws:sqs:us-east-1:000000000000:batchscore-requests',
      resultQueueUrl: `${queues.endpoint}/000000000000/batchscore-results`,
      deadLetterQueueUrl: `${queues.endpoint}/000000000000/batchscore-dead-letters`,
    });
  });

  it('serves the three queues to the local client', async () => {
    const queues = await started();
    const sqs = destroyed(localSqsClient(queues));

    for (const QueueUrl of [queues.requestQueueUrl, queues.resultQueueUrl, queues.deadLetterQueueUrl]) {
      await sqs.send(new SendMessageCommand({ QueueUrl, MessageBody: `to ${QueueUrl}` }));
      const { Messages } = await sqs.send(new ReceiveMessageCommand({ QueueUrl }));
      expect(Messages).toMatchObject([{ Body: `to ${QueueUrl}` }]);
    }
  });

  it.each(['eu-west-1', 'us-east-1'])(
    'serves a client of %s that is told nothing but the endpoint and the queue URL',
    async (region) => {
      const queues = await started();
      const sqs = destroyed(new SQSClient({ endpoint: queues.endpoint, region, credentials: ANY }));

      const sent = await sqs.send(new SendMessageCommand({ QueueUrl: queues.requestQueueUrl, MessageBody: 'hello' }));

      expect(sent.MessageId).toEqual(expect.any(String));
    },
  );

  it('serves a client that follows the queue URL alone', async () => {
    const queues = await started();
    const logger = { trace() {}, debug() {}, info() {}, warn() {}, error() {} };
    const sqs = destroyed(new SQSClient({ region: queues.region, credentials: ANY, logger }));

    const sent = await sqs.send(new SendMessageCommand({ QueueUrl: queues.requestQueueUrl, MessageBody: 'hello' }));

    expect(sent.MessageId).toEqual(expect.any(String));
  });

  it('finds its queues by name', async () => {
    const queues = await started();
    const sqs = destroyed(localSqsClient(queues));

    const { QueueUrl } = await sqs.send(new GetQueueUrlCommand({ QueueName: 'batchscore-results' }));
    await sqs.send(new SendMessageCommand({ QueueUrl, MessageBody: 'found' }));
    const { Messages } = await sqs.send(new ReceiveMessageCommand({ QueueUrl: queues.resultQueueUrl }));

    expect(Messages).toMatchObject([{ Body: 'found' }]);
  });

  it.each([['emoji \u{1F600}'], ['the last plane \u{10FFFD}'], ['\t\n\r\uE000\uFFFD']])(
    'takes every character that SQS takes: %j',
    async (body) => {
      const queues = await started();
      const sqs = destroyed(new SQSClient({ endpoint: queues.endpoint, region: queues.region, credentials: ANY }));

      await sqs.send(new SendMessageCommand({ QueueUrl: queues.requestQueueUrl, MessageBody: body }));
      const Entries = [{ Id: '1', MessageBody: body }];
      await sqs.send(new SendMessageBatchCommand({ QueueUrl: queues.requestQueueUrl, Entries }));
      const { Messages } = await sqs.send(
        new ReceiveMessageCommand({ QueueUrl: queues.requestQueueUrl, MaxNumberOfMessages: 10 }),
      );

      expect(Messages).toMatchObject([{ Body: body }, { Body: body }]);
    },
  );

  it.each([['\u0000'], ['\u000B'], ['\uFFFE'], ['half an emoji \uD83D']])(
    'refuses the characters that SQS refuses: %j',
    async (body) => {
      const queues = await started();
      const sqs = destroyed(localSqsClient(queues));

      const sent = sqs.send(new SendMessageCommand({ QueueUrl: queues.requestQueueUrl, MessageBody: body }));

      await expect(sent).rejects.toThrow(/Invalid characters/);
    },
  );

  it('gives the request queue its visibility timeout and its redrive policy', async () => {
    const queues = await started();
    const sqs = destroyed(localSqsClient(queues));

    const { Attributes } = await sqs.send(
      new GetQueueAttributesCommand({ QueueUrl: queues.requestQueueUrl, AttributeNames: ['All'] }),
    );

    expect(Attributes?.VisibilityTimeout).toBe('45');
    expect(JSON.parse(Attributes?.RedrivePolicy ?? '')).toEqual({
      deadLetterTargetArn: 'arn:aws:sqs:us-east-1:000000000000:batchscore-dead-letters',
      maxReceiveCount: 4,
    });
  });

  it('is reachable from this machine alone', async () => {
    const { endpoint } = await started();
    const signal = AbortSignal.timeout(1000);

    expect((await fetch(`${endpoint}/health`, { signal })).ok).toBe(true);
    await expect(fetch(`${endpoint.replace('127.0.0.1', '127.0.0.2')}/health`, { signal })).rejects.toThrow();
  });

  it('says which port is taken and how to pick a free one', async () => {
    const { endpoint } = await started();
    const port = Number(new URL(endpoint).port);

    const second = startLocalQueues({ port, visibilityTimeoutSeconds: 30, maxReceiveCount: 3 });

    await expect(second).rejects.toThrow(
      new RegExp(`port ${port} on 127\\.0\\.0\\.1: expected it to be free.*--port 0`),
    );
  });

  it('frees its port when a queue is refused', async () => {
    const refused = startLocalQueues({ port: 0, visibilityTimeoutSeconds: 99_999, maxReceiveCount: 3 });

    await expect(refused).rejects.toThrow(/VisibilityTimeout/);
  });
});
