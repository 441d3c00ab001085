/**
 * Server process that answers over TLS like SQS to a poller and a sender, and like DynamoDB and S3 to a result writer.
 * Its parent sends a certificate first, and then the supply of each turn.
 */
import { hash, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { answerParent } from '../harness/child.ts';
import type { Certificate } from '../harness/processes.ts';

/** Messages that the request queue returns. The server reports when all are deleted. */
export interface Supply {
  /** Bodies that are returned in turn. @default the previous ones */
  readonly bodies?: readonly string[];
  readonly messages: number;
}

export interface Taken {
  calls: number;
  /** Number of calls with an error in place of scores. */
  errors: number;
}

const MAX_MESSAGES = 10;
const MAX_BYTES = 2 ** 20;
/** Duration of a poll of an empty queue. It ignores the requested wait, so that the next turn begins soon. */
const LONG_POLL_MS = 200;

interface Call {
  readonly Entries?: readonly { readonly Id: string; readonly MessageBody?: string }[];
}

let bodies: readonly { readonly Body: string; readonly MD5OfBody: string }[] = [];
let left = 0;
let undeleted = 0;
let allDeleted = Promise.withResolvers<void>();
let taken: Taken = { calls: 0, errors: 0 };

async function start({ cert, key }: Certificate): Promise<number> {
  const options = { cert, key, keepAliveTimeout: 600_000 };
  const server = createServer(options, (request, response) => void answer(request, response));
  // Node pauses a connection with unsent answers, and then fails on the next request over it.
  server.on('secureConnection', (socket) => {
    Object.assign(Reflect.get(socket, '_writableState'), { highWaterMark: Number.POSITIVE_INFINITY });
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return (server.address() as AddressInfo).port;
}

async function untilDeleted(supply: Supply): Promise<Taken> {
  if (supply.bodies !== undefined) bodies = supply.bodies.map((Body) => ({ Body, MD5OfBody: hash('md5', Body) }));
  left = supply.messages;
  undeleted = supply.messages;
  allDeleted = Promise.withResolvers();
  if (undeleted > 0) await allDeleted.promise;
  const answer = taken;
  taken = { calls: 0, errors: 0 };
  return answer;
}

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const text = await textOf(request);
  const [, operation] = String(request.headers['x-amz-target']).split('.');
  if (operation !== 'ReceiveMessage') {
    taken.calls += 1;
    if (text.includes('"error":') || text.includes('\\"error\\":')) taken.errors += 1;
  }
  if (operation === undefined) {
    response.setHeader('etag', `"${hash('md5', text)}"`).end();
    return;
  }
  const document = operation === 'ReceiveMessage' ? await receive() : take(operation, JSON.parse(text));
  response.writeHead(200, { 'content-type': 'application/x-amz-json-1.0', 'x-amzn-requestid': randomUUID() });
  response.end(JSON.stringify(document));
  if (operation === 'DeleteMessageBatch' && undeleted === 0) allDeleted.resolve();
}

/**
 * Reads a body without pausing the request, because Node's parser can fail after a pause over TLS. It never resolves if
 * the contestant has exited.
 */
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

function take(operation: string, { Entries = [] }: Call): object {
  if (operation === 'BatchWriteItem') return { UnprocessedItems: {} };
  if (operation === 'DeleteMessageBatch') undeleted -= Entries.length;
  const Successful = Entries.map(({ Id, MessageBody }) => {
    if (MessageBody === undefined) return { Id };
    return { Id, MessageId: randomUUID(), MD5OfMessageBody: hash('md5', MessageBody) };
  });
  return { Successful, Failed: [] };
}

answerParent((question: { readonly certificate: Certificate } | Supply) =>
  'certificate' in question ? start(question.certificate) : untilDeleted(question),
);
