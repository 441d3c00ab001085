import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import type { SQSClient } from '@aws-sdk/client-sqs';
import { afterEach, beforeEach } from '@jest/globals';
import { createSqsClient, HOST_PATIENCE } from '../../../lambda/aws/awsClients.ts';

export const CREDENTIALS = { accessKeyId: 'AKID', secretAccessKey: 'secret', sessionToken: 'token' };
export const REGION = 'eu-central-1';
export const QUEUE = 'https://sqs.eu-central-1.amazonaws.com/123456789012/results';
export const SEND = { QueueUrl: QUEUE, Entries: [{ Id: '0', MessageBody: 'ü', MessageAttributes: {} }] };
export const WRITE = { RequestItems: { results: [{ PutRequest: { Item: { messageId: { S: 'one' } } } }] } };
const WRONG_MD5 = { MessageId: 'one', Body: 'x', MD5OfBody: '0'.repeat(32), MD5OfMessageBody: '0'.repeat(32) };

export interface Seen {
  readonly request: IncomingMessage;
  readonly body: Buffer;
}

/** Every request so far, in order of arrival. */
export const seen: Seen[] = [];
let silent = false;
let endpoint: string;
let server: Server;
export const cleanups: (() => unknown)[] = [];

beforeEach(async () => {
  server = createServer(async (request, response) => {
    const body = await buffer(request);
    seen.push({ request, body });
    server.emit('seen');
    if (silent) return;
    response.setHeader('content-type', 'application/x-amz-json-1.0');
    response.end(JSON.stringify({ Successful: [{ ...WRONG_MD5, Id: '0' }], Messages: [WRONG_MD5] }));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  cleanups.push(
    () => server.close(),
    () => server.closeAllConnections(),
  );
});

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
  seen.length = 0;
  silent = false;
});

export function local() {
  return { region: REGION, credentials: CREDENTIALS, endpoint };
}

export function destroyed<C extends { destroy(): void }>(client: C): C {
  cleanups.push(() => client.destroy());
  return client;
}

export function localSqs(config = {}): SQSClient {
  return destroyed(createSqsClient(HOST_PATIENCE, { ...local(), useQueueUrlAsEndpoint: false, md5: false, ...config }));
}

/** Whether requests get no answer from now on. */
export function beSilent(on: boolean): void {
  silent = on;
}

export async function nextRequest(): Promise<void> {
  await once(server, 'seen');
}
