import { createServer } from 'node:http';
import { describe, expect, it } from '@jest/globals';
import type { SQSRecord } from 'aws-lambda';
import { lookupRequest } from '../../helpers/handler.ts';
import { lookupModel } from '../../helpers/onnxModels.ts';
import { afterThisTest, modelsDirectory } from '../../helpers/openModels.ts';
import { sqsRecord } from '../../helpers/sqsEvents.ts';
import { useSqsServer } from '../../helpers/sqsServer.ts';
import type { Invoked } from './handlerEnvironment.ts';
import { type HandlerProcess, startHandler } from './handlerProcess.ts';

const sqs = useSqsServer();
const MIB = 1024 * 1024;
const MEMORY_MB = 1769;
/** What is left of 1 MiB for the body. */
const INLINE = MIB - 1024;
/** Processor time. An event loop that is held for longer fires no deadline: half of the margin before it is for that. */
const MOST_HELD_MS = 500;
const PAYLOAD_BYTES = Math.floor((MEMORY_MB * MIB) / 64);

/** Bodies that take much more memory, or time, than they are long. */
const HOSTILE: Readonly<Record<string, (characters: number) => string>> = {
  'requests that are numbers': (characters) => `[${repeated('1', characters)}]`,
  'requests that are empty objects': (characters) => `[${repeated('{}', characters)}]`,
  'arrays in arrays': (characters) => '['.repeat(characters / 2) + ']'.repeat(characters / 2),
  'rows that are empty': (characters) => `{"instances":[${repeated('[]', characters)}]}`,
  'rows that are objects': (characters) => `{"instances":[${repeated('{"index":1}', characters)}]}`,
  'elements that are arrays': (characters) => lookupWith(`[${repeated('[0]', characters)}]`, characters / 4),
  'many rows': (characters) => lookupWith(`[${repeated('0', characters)}]`, characters / 2),
  'keys that nobody knows': (characters) => `{${repeated('"":0', characters)}}`,
  'one long string': (characters) => JSON.stringify('é'.repeat(characters / 2)),
  'requests for all that is there': (characters) => `[${repeated(JSON.stringify(lookupRequest(1)), characters)}]`,
};

function repeated(text: string, characters: number): string {
  return `${`${text},`.repeat(characters / (text.length + 1) - 50)}${text}`;
}

function lookupWith(data: string, rows: number): string {
  return `{"inputs":[{"name":"index","datatype":"INT64","shape":[${Math.floor(rows)}],"data":${data}}]}`;
}

/** An S3 that has an object of each kind, of as many bytes as payloads may have. */
async function startPayloads(): Promise<string> {
  const server = createServer((request, response) => {
    const kind = decodeURIComponent(new URL(request.url ?? '', 'http://s3').pathname.split('/').at(-1) ?? '');
    const body = Buffer.from(HOSTILE[kind]?.(PAYLOAD_BYTES * 0.99) ?? '');
    response.writeHead(200, { 'content-length': body.length });
    response.end(body);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  afterThisTest(async () => void server.close());
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('expected a TCP address');
  return `http://127.0.0.1:${address.port}`;
}

/** The entry with as much memory as Lambda's Node has at 1,769 MB. */
async function start(variables: Readonly<Record<string, string>> = {}): Promise<HandlerProcess> {
  const [requestQueueUrl, resultQueueUrl] = [sqs.queue(), sqs.queue()];
  return startHandler(
    {
      AWS_ENDPOINT_URL_SQS: new URL(requestQueueUrl).origin,
      AWS_LAMBDA_FUNCTION_MEMORY_SIZE: String(MEMORY_MB),
      BATCHSCORE_MODELS_DIR: await modelsDirectory({ 'lookup/1/model.onnx': lookupModel() }),
      BATCHSCORE_REQUEST_QUEUE_URL: requestQueueUrl,
      BATCHSCORE_RESULT_QUEUE_URL: resultQueueUrl,
      ...variables,
    },
    [`--max-old-space-size=${Math.floor(MEMORY_MB * 0.9)}`],
  );
}

/** Hostile records, and twenty neighbours. */
function eventOf(hostile: readonly SQSRecord[]): { records: SQSRecord[]; neighbours: SQSRecord[] } {
  const neighbours = Array.from({ length: 20 }, (_, index) => sqsRecord(lookupRequest(index % 3)));
  return { records: [...hostile, ...neighbours], neighbours };
}

function failedOf(neighbours: readonly SQSRecord[], { response }: Invoked): number {
  const failed = new Set(response.batchItemFailures.map(({ itemIdentifier }) => itemIdentifier));
  return neighbours.filter(({ messageId }) => failed.has(messageId)).length;
}

describe('an event of hostile messages, as many as SQS hands over,', () => {
  it('leaves its neighbours their scores, a fifth of the memory, and the event loop', async () => {
    const handler = await start();
    const seen: Record<string, object> = {};
    for (const [kind, bodyOf] of Object.entries(HOSTILE)) {
      const hostile = Array.from({ length: 5 }, () => ({ ...sqsRecord({}), body: bodyOf(INLINE) }));
      const { records, neighbours } = eventOf(hostile);
      const invoked = await handler.measure(records);
      seen[kind] = {
        neighboursFailed: failedOf(neighbours, invoked),
        memoryLeft: invoked.peakRssBytes < 0.8 * MEMORY_MB * MIB,
        held: invoked.heldMs < MOST_HELD_MS ? 'not long' : invoked.heldMs,
      };
    }
    const fine = { neighboursFailed: 0, memoryLeft: true, held: 'not long' };
    expect(seen).toEqual(Object.fromEntries(Object.keys(HOSTILE).map((kind) => [kind, fine])));
  });

  it('does so too when they point to payloads as large as allowed', async () => {
    const handler = await start({
      AWS_ENDPOINT_URL_S3: await startPayloads(),
      BATCHSCORE_PAYLOAD_BUCKET: 'payloads',
    });
    const seen: Record<string, object> = {};
    for (const kind of Object.keys(HOSTILE)) {
      const pointer = [
        'software.amazon.payloadoffloading.PayloadS3Pointer',
        { s3BucketName: 'payloads', s3Key: `requests/${kind}` },
      ];
      const { records, neighbours } = eventOf([sqsRecord(pointer), sqsRecord(pointer)]);
      const invoked = await handler.measure(records);
      seen[kind] = {
        neighboursFailed: failedOf(neighbours, invoked),
        memoryLeft: invoked.peakRssBytes < 0.8 * MEMORY_MB * MIB,
      };
    }
    const fine = { neighboursFailed: 0, memoryLeft: true };
    expect(seen).toEqual(Object.fromEntries(Object.keys(HOSTILE).map((kind) => [kind, fine])));
  });
});
