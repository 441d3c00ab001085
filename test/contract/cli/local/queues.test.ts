import { once } from 'node:events';
import { request } from 'node:http';
import { CreateBucketCommand, GetObjectCommand, PutObjectCommand } from '@aws-sdk/client-s3';
import {
  ChangeMessageVisibilityCommand,
  DeleteMessageBatchCommand,
  DeleteMessageCommand,
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
  it('serves its queues by URLs that need no name resolution, and by their names', async () => {
    const queues = await started();
    const { endpoint, requestQueueUrl, resultQueueUrl, deadLetterQueueUrl } = queues;
    expect(endpoint).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
    const sqs = destroyed(localSqsClient(queues));
    for (const [url, name] of [
      [requestQueueUrl, 'batchscore-requests'],
      [resultQueueUrl, 'batchscore-results'],
      [deadLetterQueueUrl, 'batchscore-dead-letters'],
    ] as const) {
      expect(url).toBe(`${endpoint}/000000000000/${name}`);
      const { QueueUrl } = await sqs.send(new GetQueueUrlCommand({ QueueName: name }));
      await sqs.send(new SendMessageCommand({ QueueUrl, MessageBody: `to ${name}` }));
      const { Messages } = await sqs.send(new ReceiveMessageCommand({ QueueUrl: url }));
      expect(Messages).toMatchObject([{ Body: `to ${name}` }]);
    }
    const { Attributes } = await sqs.send(
      new GetQueueAttributesCommand({ QueueUrl: requestQueueUrl, AttributeNames: ['All'] }),
    );
    expect(Attributes?.VisibilityTimeout).toBe('45');
    expect(JSON.parse(Attributes?.RedrivePolicy ?? '')).toEqual({
      deadLetterTargetArn: 'arn:aws:sqs:us-east-1:000000000000:batchscore-dead-letters',
      maxReceiveCount: 4,
    });
  });

  it('serves a client of any region that knows the endpoint and the queue URL, or the queue URL alone', async () => {
    const { endpoint, requestQueueUrl: QueueUrl } = await started();
    const logger = { trace() {}, debug() {}, info() {}, warn() {}, error() {} };
    for (const options of [{ endpoint, region: 'eu-west-1' }, { region: 'us-east-1' }]) {
      const sqs = destroyed(new SQSClient({ ...options, credentials: ANY, logger }));
      const sent = await sqs.send(new SendMessageCommand({ QueueUrl, MessageBody: 'hello' }));
      expect(sent.MessageId).toEqual(expect.any(String));
    }
  });

  it('takes every character that SQS takes, and refuses the others', async () => {
    const queues = await started();
    const { requestQueueUrl: QueueUrl } = queues;
    const sqs = destroyed(localSqsClient(queues));
    const taken = ['the last plane \u{10FFFD}', '\t\n\r\uE000\uFFFD'];

    for (const MessageBody of taken) await sqs.send(new SendMessageCommand({ QueueUrl, MessageBody }));
    const Entries = taken.map((MessageBody, index) => ({ Id: String(index), MessageBody }));
    await sqs.send(new SendMessageBatchCommand({ QueueUrl, Entries }));
    for (const MessageBody of ['\u0000', '\u000B', '\uFFFE', 'half an emoji \uD83D']) {
      const refused = sqs.send(new SendMessageCommand({ QueueUrl, MessageBody }));
      await expect(refused).rejects.toThrow(/Invalid characters/);
    }

    const { Messages = [] } = await sqs.send(new ReceiveMessageCommand({ QueueUrl, MaxNumberOfMessages: 10 }));
    expect(Messages.map(({ Body }) => Body)).toEqual([...taken, ...taken]);
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
});

describe('the result queues of clients', () => {
  it('are as many as asked for, beside the first', async () => {
    const queues = await startLocalQueues({ port: 0, clients: 2, visibilityTimeoutSeconds: 45, maxReceiveCount: 4 });
    cleanups.push(queues.stop);
    const sqs = destroyed(localSqsClient(queues));
    expect(queues.clientQueueUrls.map((url) => url.split('/').at(-1))).toEqual([
      'batchscore-results-2',
      'batchscore-results-3',
    ]);
    for (const QueueUrl of queues.clientQueueUrls) {
      await sqs.send(new SendMessageCommand({ QueueUrl, MessageBody: 'result' }));
    }
  });
});

describe('the local queues, as SQS,', () => {
  const text = (StringValue: string) => ({ DataType: 'String', StringValue });
  const eleven = Object.fromEntries(Array.from({ length: 11 }, (_, index) => [`a${index}`, text('x')]));

  it.each([
    ['an empty body', { MessageBody: '' }, 'MissingParameter'],
    ['a delay beyond 15 minutes', { DelaySeconds: 901 }, 'must be >= 0 and <= 900'],
    ['eleven attributes', { MessageAttributes: eleven }, 'exceeds the allowed maximum [10]'],
    ['an attribute without a value', { MessageAttributes: { a: text('') } }, 'non-empty message attribute value'],
    ['a group with a space', { MessageGroupId: 'my group' }, 'MessageGroupId can only include alphanumeric'],
    ['a group that is too long', { MessageGroupId: 'g'.repeat(129) }, '1 to 128 in length'],
    ['a deduplication ID on a standard queue', { MessageDeduplicationId: 'd' }, 'not valid for this queue type'],
  ])('refuse %s, and a whole call for it', async (_, wrong, reason) => {
    const queues = await started();
    const sqs = destroyed(localSqsClient(queues));
    const { requestQueueUrl: QueueUrl } = queues;
    const one = { MessageBody: 'fine', ...wrong };
    await expect(sqs.send(new SendMessageCommand({ QueueUrl, ...one }))).rejects.toThrow(
      expect.objectContaining({ $fault: 'client' }),
    );
    const Entries = [
      { Id: '0', MessageBody: 'fine' },
      { Id: '1', ...one },
    ];
    const refused = sqs.send(new SendMessageBatchCommand({ QueueUrl, Entries }));
    const error = await refused.catch((thrown: Error) => thrown);
    expect(`${(error as Error).name}: ${(error as Error).message}`).toContain(reason);
    const { Messages = [] } = await sqs.send(new ReceiveMessageCommand({ QueueUrl, MaxNumberOfMessages: 10 }));
    expect(Messages).toEqual([]);
  });

  it('give receipt handles without hyphens, and refuse what an Extended Client has not cut', async () => {
    const queues = await started();
    const sqs = destroyed(localSqsClient(queues));
    const { requestQueueUrl: QueueUrl } = queues;
    const Entries = ['0', '1', '2'].map((Id) => ({ Id, MessageBody: Id, MessageGroupId: 'tenant' }));
    await sqs.send(new SendMessageBatchCommand({ QueueUrl, Entries }));
    const { Messages = [] } = await sqs.send(new ReceiveMessageCommand({ QueueUrl, MaxNumberOfMessages: 10 }));
    const handles = Messages.map(({ ReceiptHandle = '' }) => ReceiptHandle);
    for (const handle of handles) expect(handle).toMatch(/^[A-Za-z0-9+/]+$/);
    const [first = '', second = '', third] = handles;
    const uncut = `-..s3BucketName..-b-..s3BucketName..--..s3Key..-k-..s3Key..-${second}`;
    await sqs.send(new DeleteMessageCommand({ QueueUrl, ReceiptHandle: first }));
    await expect(sqs.send(new DeleteMessageCommand({ QueueUrl, ReceiptHandle: uncut }))).rejects.toThrow(
      'not a valid receipt handle',
    );
    const deleted = await sqs.send(
      new DeleteMessageBatchCommand({
        QueueUrl,
        Entries: [
          { Id: 'a', ReceiptHandle: uncut },
          { Id: 'b', ReceiptHandle: third },
        ],
      }),
    );
    expect(deleted).toMatchObject({ Successful: [{ Id: 'b' }], Failed: [{ Id: 'a', Code: 'ReceiptHandleIsInvalid' }] });
    await sqs.send(new ChangeMessageVisibilityCommand({ QueueUrl, ReceiptHandle: second, VisibilityTimeout: 0 }));
    const left = await sqs.send(new ReceiveMessageCommand({ QueueUrl, MaxNumberOfMessages: 10 }));
    expect(left.Messages).toHaveLength(1);
  });
});
