/**
 * Runs as a process: answers over TLS as SQS, DynamoDB and S3 do when they take results, and counts what they bill.
 * Takes a certificate, then asks for its counts, over IPC.
 */
import { createHash, randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:https';
import { buffer } from 'node:stream/consumers';
import type { Delivered } from '../measure/hops.ts';
import type { Certificate } from '../workload/certificate.ts';
import { billedChunks } from '../workload/messages.ts';

const NOTHING: Delivered = { calls: 0, messages: 0, chunks: 0, writeUnits: 0, readUnits: 0, objects: 0, errors: 0 };
const WRITE_UNIT_BYTES = 1024;
const READ_UNIT_BYTES = 4096;

let delivered = { ...NOTHING };

interface SendMessageBatch {
  readonly Entries: readonly {
    readonly Id: string;
    readonly MessageBody: string;
    readonly MessageAttributes?: Readonly<Record<string, { readonly DataType: string; readonly StringValue: string }>>;
  }[];
}

interface BatchWriteItem {
  readonly RequestItems: Readonly<Record<string, readonly { readonly PutRequest: { readonly Item: object } }[]>>;
}

function start({ cert, key }: Certificate): void {
  const server = createServer(
    { cert, key, keepAliveTimeout: 600_000 },
    (request, response) => void take(request, response),
  );
  server.listen(0, '127.0.0.1', () => process.send?.(server.address()));
  process.on('message', () => {
    process.send?.(delivered);
    delivered = { ...NOTHING };
  });
}

async function take(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const text = String(await buffer(request));
  delivered.calls += 1;
  if (text.includes('"error":') || text.includes('\\"error\\":')) delivered.errors += 1;
  const [, operation] = String(request.headers['x-amz-target']).split('.');
  if (operation === undefined) {
    delivered.objects += 1;
    response.setHeader('etag', `"${md5(text)}"`).end();
    return;
  }
  const answer = operation === 'BatchWriteItem' ? writeItems(JSON.parse(text)) : takeMessages(JSON.parse(text));
  response.writeHead(200, { 'content-type': 'application/x-amz-json-1.0', 'x-amzn-requestid': randomUUID() });
  response.end(JSON.stringify(answer));
}

function takeMessages({ Entries }: SendMessageBatch): object {
  delivered.messages += Entries.length;
  delivered.chunks += billedChunks(Entries.map(({ MessageBody }) => Buffer.byteLength(MessageBody)));
  return {
    Successful: Entries.map(({ Id, MessageBody, MessageAttributes = {} }) => ({
      Id,
      MessageId: randomUUID(),
      MD5OfMessageBody: md5(MessageBody),
      MD5OfMessageAttributes: md5OfAttributes(MessageAttributes),
    })),
  };
}

function writeItems({ RequestItems }: BatchWriteItem): object {
  for (const { PutRequest } of Object.values(RequestItems).flat()) {
    const bytes = Buffer.byteLength(JSON.stringify(PutRequest.Item));
    delivered.messages += 1;
    delivered.writeUnits += Math.ceil(bytes / WRITE_UNIT_BYTES);
    delivered.readUnits += Math.ceil(bytes / READ_UNIT_BYTES);
  }
  return { UnprocessedItems: {} };
}

function md5(text: string | Buffer): string {
  return createHash('md5').update(text).digest('hex');
}

/** @see https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-message-metadata.html */
function md5OfAttributes(attributes: NonNullable<SendMessageBatch['Entries'][number]['MessageAttributes']>): string {
  const parts = Object.entries(attributes)
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .flatMap(([name, { DataType, StringValue }]) => [
      ...[name, DataType].map(withLength),
      Buffer.of(1),
      withLength(StringValue),
    ]);
  return md5(Buffer.concat(parts));
}

function withLength(text: string): Buffer {
  const bytes = Buffer.from(text);
  const length = Buffer.alloc(4);
  length.writeUInt32BE(bytes.length);
  return Buffer.concat([length, bytes]);
}

process.once('message', start);
process.once('disconnect', () => process.exit());
