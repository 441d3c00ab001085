/**
 * Runs as a process: answers over TLS as SQS does to who polls a queue. It gives the messages that it is told to, and
 * says when as many as it gave were deleted. Takes a certificate, then supplies, over IPC.
 */
import { hash, randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:https';
import type { Supply, Taken } from '../measure/workerCosts.ts';
import type { Certificate } from '../workload/certificate.ts';

const MAX_MESSAGES = 10;
const MAX_BYTES = 2 ** 20;
/** A poll of an empty queue is answered after this, whatever it asks for: a turn begins soon after the one before. */
const LONG_POLL_MS = 200;

interface Call {
  readonly Entries?: readonly { readonly Id: string; readonly MessageBody?: string }[];
}

let bodies: readonly { readonly Body: string; readonly MD5OfBody: string }[] = [];
let left = 0;
let undeleted = 0;
let taken: Taken = { bytes: 0, errors: 0 };

function start({ cert, key }: Certificate): void {
  const options = { cert, key, keepAliveTimeout: 600_000 };
  const server = createServer(options, (request, response) => void answer(request, response));
  // Node pauses a connection whose answers wait to be sent, and then fails on the next request that comes over it.
  server.on('secureConnection', (socket) => {
    Object.assign(Reflect.get(socket, '_writableState'), { highWaterMark: Number.POSITIVE_INFINITY });
  });
  server.listen(0, '127.0.0.1', () => process.send?.(server.address()));
  process.on('message', (supply: Supply) => {
    if (supply.bodies !== undefined) bodies = supply.bodies.map((Body) => ({ Body, MD5OfBody: md5(Body) }));
    left = supply.messages;
    undeleted = supply.messages;
    taken = { bytes: 0, errors: 0 };
  });
}

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const text = await textOf(request);
  const [, operation] = String(request.headers['x-amz-target']).split('.');
  const document = operation === 'ReceiveMessage' ? await receive() : take(operation, JSON.parse(text), text);
  response.writeHead(200, { 'content-type': 'application/x-amz-json-1.0', 'x-amzn-requestid': randomUUID() });
  response.end(JSON.stringify(document));
  if (operation === 'DeleteMessageBatch' && undeleted === 0) {
    undeleted = -1;
    process.send?.(taken);
  }
}

/** Never pauses the request: over TLS, Node's parser may fail on one that was paused. Never ends where the contestant has. */
function textOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  return new Promise((resolve) => {
    request.on('data', (chunk) => chunks.push(chunk));
    request.on('end', () => resolve(String(Buffer.concat(chunks))));
  });
}

async function receive(): Promise<object> {
  if (left === 0) await new Promise((resolve) => setTimeout(resolve, LONG_POLL_MS));
  const Messages: object[] = [];
  for (let bytes = 0; left > 0 && Messages.length < MAX_MESSAGES; left -= 1) {
    const body = bodies[left % bodies.length] as (typeof bodies)[number];
    bytes += body.Body.length;
    if (bytes > MAX_BYTES) break;
    const Attributes = { ApproximateReceiveCount: '1', SentTimestamp: '1545082649183' };
    Messages.push({ MessageId: randomUUID(), ReceiptHandle: `${randomUUID()}${randomUUID()}`, ...body, Attributes });
  }
  return { Messages };
}

function take(operation: string | undefined, { Entries = [] }: Call, text: string): object {
  if (operation === 'DeleteMessageBatch') undeleted -= Entries.length;
  if (operation === 'SendMessageBatch') {
    for (const { MessageBody = '' } of Entries) taken.bytes += MessageBody.length;
    if (text.includes('\\"error\\":')) taken.errors += 1;
  }
  const Successful = Entries.map(({ Id, MessageBody }) => ({
    Id,
    ...(MessageBody === undefined ? {} : { MessageId: randomUUID(), MD5OfMessageBody: md5(MessageBody) }),
  }));
  return { Successful, Failed: [] };
}

function md5(text: string): string {
  return hash('md5', text);
}

process.once('message', start);
process.once('disconnect', () => process.exit());
