import { once } from 'node:events';
import { createServer as createHttpServer } from 'node:http';
import { type AddressInfo, connect, createServer } from 'node:net';
import { Worker } from 'node:worker_threads';
import { ListTablesCommand } from '@aws-sdk/client-dynamodb';
import { GetObjectCommand, PutObjectCommand } from '@aws-sdk/client-s3';
import { ListQueuesCommand, ReceiveMessageCommand } from '@aws-sdk/client-sqs';
import { afterEach, describe, expect, it } from '@jest/globals';
import { createDynamoDbClient, createS3Client } from '../../../lambda/aws/awsClients.ts';
import { createSqsCaller, createSqsClient, type Patience } from '../../../lambda/aws/sqsWire.ts';
import { hangsUp, neverAnswers, type Step, stallsAfter, startFront } from '../../helpers/frontServer.ts';

const IMPATIENT: Patience = { connectMs: 300, answerMs: 300 };
const LOCAL = { region: 'us-east-1', credentials: { accessKeyId: 'test', secretAccessKey: 'test' } };
const OBJECT = { Bucket: 'bucket', Key: 'key' };
const MANY = new Array<number>(10).fill(0);

const cleanups: (() => unknown)[] = [];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

function destroyed<C extends { destroy(): void }>(client: C): C {
  cleanups.push(() => client.destroy());
  return client;
}

/** One request of each kind, by name. */
function requestsTo(endpoint: string, patience = IMPATIENT): Record<string, () => Promise<unknown>> {
  const sqs = destroyed(createSqsClient(patience, { ...LOCAL, endpoint }));
  const caller = createSqsCaller(patience, { ...LOCAL, endpoint });
  const dynamodb = destroyed(createDynamoDbClient(patience, { ...LOCAL, endpoint }));
  const s3 = destroyed(createS3Client(patience, { ...LOCAL, endpoint, forcePathStyle: true }));
  const textOf = async () => (await s3.send(new GetObjectCommand(OBJECT))).Body?.transformToString();
  return {
    SQS: () => sqs.send(new ListQueuesCommand()),
    'SQS by its own protocol': () => caller.send(new ReceiveMessageCommand({ QueueUrl: endpoint })),
    DynamoDB: () => dynamodb.send(new ListTablesCommand()),
    'S3, getting': textOf,
    'S3, putting': () => s3.send(new PutObjectCommand({ ...OBJECT, Body: 'x'.repeat(100_000) })),
  };
}

const NAMES = Object.keys(requestsTo('http://127.0.0.1:1'));

async function serverOf(step: Step) {
  const front = await startFront(undefined, Array(20).fill(step));
  cleanups.push(front.stop);
  return front;
}

/** The port of a server whose queue of connections is full and that takes none of them. */
async function unreachablePort(): Promise<number> {
  const code = `
    const { parentPort } = require('node:worker_threads');
    const server = require('node:net').createServer();
    server.listen({ port: 0, host: '127.0.0.1', backlog: 1 }, () => {
      parentPort.postMessage(server.address().port);
      setImmediate(() => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0));
    });`;
  const worker = new Worker(code, { eval: true });
  cleanups.push(() => worker.terminate());
  const [port] = await once(worker, 'message');
  for (const _ of MANY) {
    const socket = connect(port, '127.0.0.1').on('error', () => {});
    cleanups.push(() => socket.destroy());
  }
  return port;
}

describe.each(NAMES)('a request to %s', (name) => {
  it('is given up when there is no answer, and is not made again', async () => {
    const { endpoint, requests } = await serverOf(neverAnswers);

    await expect(requestsTo(endpoint)[name]?.()).rejects.toMatchObject({ name: 'TimeoutError' });

    expect(requests).toHaveLength(1);
  });

  it('is given up when the answer does not go on', async () => {
    const { endpoint } = await serverOf(stallsAfter('{', { 'content-length': '100' }));

    await expect(requestsTo(endpoint)[name]?.()).rejects.toThrow(
      /300 ms of inactivity|aborted|Connection lost|no whole answer within 300 ms/,
    );
  });

  it('is given up when there is no connection', async () => {
    const port = await unreachablePort();

    await expect(requestsTo(`http://127.0.0.1:${port}`)[name]?.()).rejects.toThrow(/did not establish a connection/);
  });

  it('is made once when the connection breaks: retries are up to the caller', async () => {
    const { endpoint, requests } = await serverOf(hangsUp);

    await expect(requestsTo(endpoint)[name]?.()).rejects.toThrow();

    expect(requests).toHaveLength(1);
  });
});

describe.each(['SQS', 'SQS by its own protocol', 'DynamoDB'])('a request to %s', (name) => {
  it('is given up when its answer takes too long in all, though bytes flow', async () => {
    const server = createServer((socket) => {
      socket.on('error', () => {}).write('HTTP/1.1 200 OK\r\n');
      const drip = setInterval(() => socket.write('x-drip: 1\r\n'), IMPATIENT.answerMs / 10);
      socket.on('close', () => clearInterval(drip));
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    cleanups.push(() => server.close());
    const { port } = server.address() as AddressInfo;

    await expect(requestsTo(`http://127.0.0.1:${port}`)[name]?.()).rejects.toMatchObject({ name: 'TimeoutError' });
  });
});

describe('an S3 object', () => {
  it('may take longer than the patience in all, as long as bytes flow', async () => {
    const patience = { connectMs: 1_000, answerMs: 1_000 };
    const { endpoint } = await serverOf(({ response }) => {
      let left = 6;
      const drip = setInterval(() => {
        if (left-- > 0) response.write('x');
        else response.end();
      }, patience.answerMs / 4);
      response.on('close', () => clearInterval(drip));
    });

    expect(await requestsTo(endpoint, patience)['S3, getting']?.()).toBe('x'.repeat(6));
  });
});

describe('an upload to S3', () => {
  it('may take longer than the patience in all, as long as bytes flow', async () => {
    const patience = { connectMs: 3_000, answerMs: 3_000 };
    const server = createHttpServer((request, response) => {
      request.on('data', () => {
        request.pause();
        setTimeout(() => request.resume(), 15);
      });
      request.on('end', () => response.end());
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    cleanups.push(() => server.close());
    const { port } = server.address() as AddressInfo;
    const s3 = createS3Client(patience, { ...LOCAL, endpoint: `http://127.0.0.1:${port}`, forcePathStyle: true });
    const waited = AbortSignal.timeout(patience.answerMs);

    await destroyed(s3).send(new PutObjectCommand({ ...OBJECT, Body: Buffer.alloc(20_000_000) }));

    expect(waited.aborted).toBe(true);
  });
});
