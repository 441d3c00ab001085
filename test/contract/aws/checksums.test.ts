import { PutObjectCommand, type S3Client } from '@aws-sdk/client-s3';
import { ReceiveMessageCommand, SendMessageBatchCommand } from '@aws-sdk/client-sqs';
import { afterEach, describe, expect, it } from '@jest/globals';
import { createS3Client } from '../../../lambda/aws/awsClients.ts';
import { createSqsClient, HOST_PATIENCE } from '../../../lambda/aws/sqsWire.ts';
import { answersJson, type Step, startFront } from '../../helpers/frontServer.ts';

const REGION = 'eu-central-1';
const WITH_KEYS = { region: REGION, credentials: { accessKeyId: 'AKID', secretAccessKey: 'secret' } };
const QUEUE = 'https://sqs.eu-central-1.amazonaws.com/123456789012/results';
const WRONG_MD5 = { Id: '0', MessageId: 'one', Body: 'x', MD5OfBody: '0'.repeat(32), MD5OfMessageBody: '0'.repeat(32) };
const OBJECT = new PutObjectCommand({ Bucket: 'b', Key: 'k', Body: 'x' });

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

function destroyed<C extends { destroy(): void }>(client: C): C {
  cleanups.push(() => client.destroy());
  return client;
}

/** A server whose answers have wrong checksums. */
async function wrongServer() {
  const front = await startFront(
    undefined,
    Array<Step>(4).fill(answersJson(200, { Successful: [WRONG_MD5], Messages: [WRONG_MD5] })),
  );
  cleanups.push(front.stop);
  return front;
}

/** The headers that a client would send. */
function headersOf(s3: S3Client): unknown[] {
  const sent: unknown[] = [];
  s3.middlewareStack.add(
    () => async (args) => {
      sent.push(args.request);
      return { output: { $metadata: {} }, response: undefined };
    },
    { step: 'finalizeRequest', priority: 'low' },
  );
  return sent;
}

describe('checksums', () => {
  it('of messages are compared where no TLS protects them: by the endpoint, or by the URL of a queue', async () => {
    const { endpoint } = await wrongServer();
    const sqs = destroyed(createSqsClient(HOST_PATIENCE, { ...WITH_KEYS, endpoint, useQueueUrlAsEndpoint: false }));
    const Entries = [{ Id: '0', MessageBody: 'x' }];
    await expect(sqs.send(new ReceiveMessageCommand({ QueueUrl: QUEUE }))).rejects.toThrow(/MD5/);
    await expect(sqs.send(new SendMessageBatchCommand({ QueueUrl: QUEUE, Entries }))).rejects.toThrow(/MD5/);

    const QueueUrl = `${endpoint}/123456789012/results`;
    const ignore = () => {};
    const logger = { trace: ignore, debug: ignore, info: ignore, warn: ignore, error: ignore };
    const byQueue = destroyed(createSqsClient(HOST_PATIENCE, { ...WITH_KEYS, logger }, [QUEUE, QueueUrl]));
    await expect(byQueue.send(new ReceiveMessageCommand({ QueueUrl }))).rejects.toThrow(/MD5/);
  });

  it.each([undefined, 'https://localhost:4566'])('are left to TLS where there is: endpoint %s', async (url) => {
    const sqs = destroyed(createSqsClient(HOST_PATIENCE, { region: REGION, endpoint: url }));
    const s3 = destroyed(createS3Client(HOST_PATIENCE, { region: REGION, endpoint: url }));

    expect(sqs.config.md5).toBe(false);
    expect(await s3.config.responseChecksumValidation()).toBe('WHEN_REQUIRED');
  });

  it.each(['http://localhost:4566', 'https://localhost:4566'])(
    'of objects that are put are always sent: a bucket with Object Lock takes no others: endpoint %s',
    async (endpoint) => {
      const s3 = destroyed(createS3Client(HOST_PATIENCE, { ...WITH_KEYS, endpoint, forcePathStyle: true }));
      const sent = headersOf(s3);
      await s3.send(OBJECT);

      expect(sent).toMatchObject([{ headers: { 'x-amz-checksum-crc32': expect.any(String) } }]);
    },
  );

  it('are computed when the environment names an endpoint without TLS', () => {
    process.env.AWS_ENDPOINT_URL_SQS = 'http://127.0.0.1:1';
    cleanups.push(() => delete process.env.AWS_ENDPOINT_URL_SQS);

    expect(destroyed(createSqsClient(HOST_PATIENCE, { region: REGION })).config.md5).not.toBe(false);
  });
});
