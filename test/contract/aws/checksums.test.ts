import { PutObjectCommand } from '@aws-sdk/client-s3';
import { ReceiveMessageCommand, SendMessageBatchCommand } from '@aws-sdk/client-sqs';
import { describe, expect, it } from '@jest/globals';
import { createS3Client, createSqsClient, HOST_PATIENCE } from '../../../lambda/aws/awsClients.ts';
import { CREDENTIALS, cleanups, destroyed, local, QUEUE, REGION, SEND, seen } from './recordingServer.ts';

describe('checksums', () => {
  it('of messages are compared where no TLS protects them', async () => {
    const sqs = destroyed(createSqsClient(HOST_PATIENCE, { ...local(), useQueueUrlAsEndpoint: false }));

    await expect(sqs.send(new ReceiveMessageCommand({ QueueUrl: QUEUE }))).rejects.toThrow(/MD5/);
    await expect(sqs.send(new SendMessageBatchCommand(SEND))).rejects.toThrow(/MD5/);
  });

  it('of messages are compared where a queue whose host is sent to has no TLS', async () => {
    const ignore = () => {};
    const logger = { trace: ignore, debug: ignore, info: ignore, warn: ignore, error: ignore };
    const config = { region: REGION, credentials: CREDENTIALS, logger };
    const sqs = destroyed(createSqsClient(HOST_PATIENCE, config, [QUEUE, `${local().endpoint}/123456789012/results`]));

    const command = new ReceiveMessageCommand({ QueueUrl: `${local().endpoint}/123456789012/results` });
    await expect(sqs.send(command)).rejects.toThrow(/MD5/);
  });

  it('of objects are computed where no TLS protects them', async () => {
    const s3 = destroyed(createS3Client(HOST_PATIENCE, { ...local(), forcePathStyle: true }));
    await s3.send(new PutObjectCommand({ Bucket: 'b', Key: 'k', Body: 'x' }));

    expect(seen[0]?.request.headers).toHaveProperty('x-amz-checksum-crc32');
  });

  it.each([undefined, 'https://localhost:4566'])('are left to TLS where there is: endpoint %s', async (url) => {
    const sqs = destroyed(createSqsClient(HOST_PATIENCE, { region: REGION, endpoint: url }));
    const s3 = destroyed(createS3Client(HOST_PATIENCE, { region: REGION, endpoint: url }));

    expect(sqs.config.md5).toBe(false);
    expect(await s3.config.responseChecksumValidation()).toBe('WHEN_REQUIRED');
  });

  it('of objects that are put are sent over TLS too: a bucket with Object Lock takes no others', async () => {
    const s3 = destroyed(createS3Client(HOST_PATIENCE, { ...local(), endpoint: 'https://localhost:4566' }));
    const sent: unknown[] = [];
    s3.middlewareStack.add(
      () => async (args) => {
        sent.push(args.request);
        return { output: { $metadata: {} }, response: undefined };
      },
      { step: 'finalizeRequest', priority: 'low' },
    );
    await s3.send(new PutObjectCommand({ Bucket: 'b', Key: 'k', Body: 'x' }));

    expect(sent).toMatchObject([{ headers: { 'x-amz-checksum-crc32': expect.any(String) } }]);
  });

  it('are computed when the environment names an endpoint without TLS', () => {
    process.env.AWS_ENDPOINT_URL_SQS = local().endpoint;
    cleanups.push(() => delete process.env.AWS_ENDPOINT_URL_SQS);

    expect(destroyed(createSqsClient(HOST_PATIENCE, { region: REGION })).config.md5).not.toBe(false);
  });
});
