import { createHash, createHmac } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { BatchWriteItemCommand, DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { PutObjectCommand } from '@aws-sdk/client-s3';
import {
  ChangeMessageVisibilityBatchCommand,
  DeleteMessageBatchCommand,
  ReceiveMessageCommand,
  SendMessageBatchCommand,
  SQSClient,
} from '@aws-sdk/client-sqs';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import {
  createDynamoDbClient,
  createS3Client,
  createSqsClient,
  HOST_PATIENCE,
} from '../../lambda/adapters/awsClients.ts';

const CREDENTIALS = { accessKeyId: 'AKID', secretAccessKey: 'secret', sessionToken: 'token' };
const REGION = 'eu-central-1';
const QUEUE = 'https://sqs.eu-central-1.amazonaws.com/123456789012/results';
const SEND = { QueueUrl: QUEUE, Entries: [{ Id: '0', MessageBody: 'ü', MessageAttributes: {} }] };
const WRITE = { RequestItems: { results: [{ PutRequest: { Item: { messageId: { S: 'one' } } } }] } };
const WRONG_MD5 = { MessageId: 'one', Body: 'x', MD5OfBody: '0'.repeat(32), MD5OfMessageBody: '0'.repeat(32) };

interface Seen {
  readonly request: IncomingMessage;
  readonly body: Buffer;
}

const seen: Seen[] = [];
/** Requests of this target are never answered. */
let silentTo = 'none';
let endpoint: string;
const cleanups: (() => unknown)[] = [];

beforeEach(async () => {
  const server = createServer(async (request, response) => {
    const body = await buffer(request);
    seen.push({ request, body });
    server.emit('seen');
    if (String(request.headers['x-amz-target']).endsWith(silentTo)) return;
    response.setHeader('content-type', 'application/x-amz-json-1.0');
    response.end(JSON.stringify({ Successful: [{ ...WRONG_MD5, Id: '0' }], Messages: [WRONG_MD5] }));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  nextRequest = () => once(server, 'seen');
  cleanups.push(
    () => server.close(),
    () => server.closeAllConnections(),
  );
});

let nextRequest: () => Promise<unknown>;

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
  seen.length = 0;
  silentTo = 'none';
});

function local() {
  return { region: REGION, credentials: CREDENTIALS, endpoint };
}

function destroyed<C extends { destroy(): void }>(client: C): C {
  cleanups.push(() => client.destroy());
  return client;
}

function localSqs(config = {}): SQSClient {
  return destroyed(createSqsClient(HOST_PATIENCE, { ...local(), useQueueUrlAsEndpoint: false, md5: false, ...config }));
}

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
    silentTo = 'SendMessageBatch';
    const ended = [send(one), send(one)].map((call) => expect(call).rejects.toMatchObject({ name: 'AbortError' }));
    await nextRequest();
    await nextRequest();
    silentTo = 'none';

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

describe('the body of a request', () => {
  const texts = ['', 'plain', '"\\/', '\u0000\b\t\n\f\r\u001f\u007f', 'ü€', '\u{1f600}', '\ud800x\udc00', '\u2028'];

  it.each(texts)('is what the SDK would send: messages of %j', async (text) => {
    const entry = {
      Id: '0',
      MessageBody: text,
      MessageAttributes: { [`a${text}`]: { DataType: 'String', StringValue: text } },
      MessageGroupId: undefined,
      DelaySeconds: 3,
    };
    const receipt = { Id: '0', ReceiptHandle: text };
    const plain = destroyed(new SQSClient({ ...local(), md5: false, useQueueUrlAsEndpoint: false }));
    for (const sqs of [plain, localSqs()]) {
      await sqs.send(new SendMessageBatchCommand({ QueueUrl: QUEUE, Entries: [entry, { ...entry, Id: '1' }] }));
      await sqs.send(new DeleteMessageBatchCommand({ QueueUrl: QUEUE, Entries: [receipt] }));
      await sqs.send(
        new ChangeMessageVisibilityBatchCommand({ QueueUrl: QUEUE, Entries: [{ ...receipt, VisibilityTimeout: 7 }] }),
      );
    }

    expect(contents(3)).toEqual(contents(0, 3));
  });

  it.each(texts)('is what the SDK would send: items of %j', async (text) => {
    const command = new BatchWriteItemCommand({
      RequestItems: { results: [{ PutRequest: { Item: { messageId: { S: text }, expiresAt: { N: '1' } } } }] },
    });
    const plain = destroyed(new DynamoDBClient(local()));
    for (const dynamodb of [plain, destroyed(createDynamoDbClient(HOST_PATIENCE, local()))])
      await dynamodb.send(command);

    expect(contents(1)).toEqual(contents(0, 1));
  });
});

function contents(from: number, to?: number): unknown[] {
  return seen.slice(from, to).map(({ body }) => JSON.parse(String(body)));
}

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
    const sqs = destroyed(createSqsClient(HOST_PATIENCE, config, [QUEUE, `${endpoint}/123456789012/results`]));

    const command = new ReceiveMessageCommand({ QueueUrl: `${endpoint}/123456789012/results` });
    await expect(sqs.send(command)).rejects.toThrow(/MD5/);
  });

  it('of objects are computed where no TLS protects them', async () => {
    await requests()['S3 with a signal']?.();

    expect(seen[0]?.request.headers).toHaveProperty('x-amz-checksum-crc32');
  });

  it.each([undefined, 'https://localhost:4566'])('are left to TLS where there is: endpoint %s', async (url) => {
    const sqs = destroyed(createSqsClient(HOST_PATIENCE, { region: REGION, endpoint: url }));
    const s3 = destroyed(createS3Client(HOST_PATIENCE, { region: REGION, endpoint: url }));

    expect(sqs.config.md5).toBe(false);
    expect(await s3.config.requestChecksumCalculation()).toBe('WHEN_REQUIRED');
    expect(await s3.config.responseChecksumValidation()).toBe('WHEN_REQUIRED');
  });

  it('are computed when the environment names an endpoint without TLS', () => {
    process.env.AWS_ENDPOINT_URL_SQS = endpoint;
    cleanups.push(() => delete process.env.AWS_ENDPOINT_URL_SQS);

    expect(destroyed(createSqsClient(HOST_PATIENCE, { region: REGION })).config.md5).not.toBe(false);
  });
});
