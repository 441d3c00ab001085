import { createHash, createHmac } from 'node:crypto';
import { BatchWriteItemCommand } from '@aws-sdk/client-dynamodb';
import { PutObjectCommand } from '@aws-sdk/client-s3';
import { ReceiveMessageCommand, SendMessageBatchCommand, SQSClient } from '@aws-sdk/client-sqs';
import { describe, expect, it } from '@jest/globals';
import { createDynamoDbClient, createS3Client, HOST_PATIENCE } from '../../../lambda/aws/awsClients.ts';
import {
  beSilent,
  CREDENTIALS,
  destroyed,
  local,
  localSqs,
  nextRequest,
  QUEUE,
  SEND,
  type Seen,
  seen,
  WRITE,
} from './recordingServer.ts';

/** Each client's kind of request, with a signal as the host sends it and without as the client does. */
function requests(): Record<string, () => Promise<unknown>> {
  const sqs = localSqs();
  const dynamodb = destroyed(createDynamoDbClient(HOST_PATIENCE, local()));
  const s3 = destroyed(createS3Client(HOST_PATIENCE, { ...local(), forcePathStyle: true }));
  const abortSignal = new AbortController().signal;
  return {
    'SQS with a signal': () => sqs.send(new SendMessageBatchCommand(SEND), { abortSignal }),
    'SQS without a signal': () => sqs.send(new SendMessageBatchCommand(SEND)),
    'DynamoDB with a signal': () => dynamodb.send(new BatchWriteItemCommand(WRITE), { abortSignal }),
    'S3 with a signal': () => s3.send(new PutObjectCommand({ Bucket: 'b', Key: 'k', Body: 'ü' }), { abortSignal }),
  };
}

/** @see https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html */
function signatureOf({ request, body }: Seen): string {
  const { authorization = '', 'x-amz-date': date = '' } = request.headers;
  const [, scope = '', names = ''] = /Credential=AKID\/(\S+), SignedHeaders=(\S+),/.exec(authorization) ?? [];
  const [path, query = ''] = (request.url ?? '').split('?');
  const headers = names.split(';').map((name) => `${name}:${request.headers[name]}\n`);
  const hash = createHash('sha256').update(body).digest('hex');
  const canonical = [request.method, path, query, headers.join(''), names, hash].join('\n');
  const text = ['AWS4-HMAC-SHA256', date, scope, createHash('sha256').update(canonical).digest('hex')].join('\n');
  const hmac = (key: Buffer | string, data: string) => createHmac('sha256', key).update(data).digest();
  const key = scope.split('/').reduce<Buffer | string>(hmac, `AWS4${CREDENTIALS.secretAccessKey}`);
  return hmac(key, text).toString('hex');
}

describe('a request of an AWS client', () => {
  it.each(['SQS with a signal', 'SQS without a signal', 'DynamoDB with a signal', 'S3 with a signal'])(
    'is signed as AWS checks it, the first as well as the next: %s',
    async (name) => {
      const request = requests()[name];
      for (const _ of [1, 2, 3]) await request?.();

      expect(seen).toHaveLength(3);
      for (const one of seen) expect(one.request.headers.authorization).toContain(`Signature=${signatureOf(one)}`);
    },
  );

  it('names the SDK as the SDK does', async () => {
    const plain = destroyed(
      new SQSClient({ ...local(), md5: false, useQueueUrlAsEndpoint: false, userAgentAppId: 'my app' }),
    );
    for (const sqs of [plain, localSqs({ userAgentAppId: 'my app' })])
      await sqs.send(new SendMessageBatchCommand(SEND));

    const [theirs = '', ours] = seen.map(({ request }) => request.headers['user-agent']);
    const uses = /m\/\S+ /;
    expect(theirs).toMatch(uses);
    expect(ours).toBe(theirs.replace(uses, ''));
  });

  it('asks for credentials once, not for each request', async () => {
    let asked = 0;
    const credentials = async () => {
      asked++;
      return CREDENTIALS;
    };
    const sqs = localSqs({ credentials });
    for (const _ of [1, 2, 3]) {
      await sqs.send(new SendMessageBatchCommand(SEND), { abortSignal: new AbortController().signal });
    }

    expect(asked).toBe(1);
  });

  it('makes no log objects, not even of what fails', async () => {
    const logged: unknown[] = [];
    const take = (entry: unknown) => void logged.push(entry);
    const logger = { trace: take, debug: () => {}, info: take, warn: take, error: take };
    const sqs = localSqs({ logger });
    await sqs.send(new SendMessageBatchCommand(SEND));
    await expect(sqs.send(new SendMessageBatchCommand(SEND), { abortSignal: AbortSignal.abort() })).rejects.toThrow();

    expect(logged).toEqual([]);
  });

  it('ends with its signal, alone or among others of the same signal, and ends no other', async () => {
    const sqs = localSqs();
    const [one, two] = [new AbortController(), new AbortController()];
    const send = ({ signal }: AbortController) => sqs.send(new SendMessageBatchCommand(SEND), { abortSignal: signal });
    await send(one);
    beSilent(true);
    const ended = [send(one), send(one)].map((call) => expect(call).rejects.toMatchObject({ name: 'AbortError' }));
    await nextRequest();
    await nextRequest();
    beSilent(false);

    one.abort();

    await Promise.all(ended);
    await expect(send(two)).resolves.toMatchObject({ Successful: [{ Id: '0' }] });
    await expect(send(one)).rejects.toMatchObject({ name: 'AbortError' });
  });

  it('gives commands of different kinds and contents that share a signal each its own answer', async () => {
    const sqs = localSqs();
    const { signal: abortSignal } = new AbortController();
    const bodies = ['a', 'b', 'c'];
    const sends = bodies.map((MessageBody) =>
      sqs.send(new SendMessageBatchCommand({ QueueUrl: QUEUE, Entries: [{ Id: '0', MessageBody }] }), { abortSignal }),
    );
    const received = await sqs.send(new ReceiveMessageCommand({ QueueUrl: QUEUE }), { abortSignal });

    expect(received.Messages).toHaveLength(1);
    for (const answer of await Promise.all(sends)) expect(answer.Successful).toHaveLength(1);
    const sent = seen.filter(({ request }) => request.headers['x-amz-target'] === 'AmazonSQS.SendMessageBatch');
    expect(sent.map(({ body }) => JSON.parse(String(body)).Entries[0].MessageBody).sort()).toEqual(bodies);
  });
});
