import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { describe, expect, it } from '@jest/globals';
import type { SQSRecord } from 'aws-lambda';
import { afterThisTest, modelsDirectory } from '../adapters/onnx/setup.ts';
import { lookupModel } from '../helpers/onnxModels.ts';
import { sqsRecord } from '../helpers/sqsEvents.ts';
import { useSqsServer } from '../helpers/sqsServer.ts';
import { type HandlerProcess, startHandler } from './handlerProcess.ts';
import { lookupRequest } from './setup.ts';

const sqs = useSqsServer();
const MIB = 1024 * 1024;
const MEMORY_MB = 1769;
/** What is left of 1 MiB for the body. */
const INLINE = MIB - 1024;
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

interface Started {
  readonly handler: HandlerProcess;
  readonly resultQueueUrl: string;
}

/** The entry with as much memory as Lambda's Node has at 1,769 MB. */
async function start(variables: Readonly<Record<string, string>> = {}): Promise<Started> {
  const [requestQueueUrl, resultQueueUrl] = [sqs.queue(), sqs.queue()];
  const handler = await startHandler(
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
  return { handler, resultQueueUrl };
}

const neighbours = (): SQSRecord[] => Array.from({ length: 20 }, (_, index) => sqsRecord(lookupRequest(index % 3)));

describe('an event of hostile messages', () => {
  it.each(Object.keys(HOSTILE))(
    'leaves its neighbours their scores, the memory and the event loop: %s',
    async (kind) => {
      const { handler, resultQueueUrl } = await start();
      const body = HOSTILE[kind]?.(INLINE) ?? '';
      const own = neighbours();
      const hostile = Array.from({ length: 5 }, () => ({ ...sqsRecord({}), messageId: randomUUID(), body }));

      const { response, peakRssBytes, heldMs } = await handler.measure([...own, ...hostile]);

      const failed = response.batchItemFailures.map(({ itemIdentifier }) => itemIdentifier);
      expect(own.filter(({ messageId }) => failed.includes(messageId))).toEqual([]);
      console.log(
        kind,
        Math.round(peakRssBytes / MIB),
        Math.round(heldMs),
        failed.length,
        (await sqs.drain(resultQueueUrl)).length,
      );
      expect(peakRssBytes).toBeLessThan(0.8 * MEMORY_MB * MIB);
      expect(heldMs).toBeLessThan(100);
    },
  );

  it.each(Object.keys(HOSTILE))('also when they point to payloads as large as allowed: %s', async (kind) => {
    const s3 = await startPayloads();
    const { handler } = await start({ AWS_ENDPOINT_URL_S3: s3, BATCHSCORE_PAYLOAD_BUCKET: 'payloads' });
    const own = neighbours();
    const pointer = ['software.amazon.payloadoffloading.PayloadS3Pointer', { s3BucketName: 'payloads', s3Key: kind }];
    const hostile = Array.from({ length: 10 }, () => sqsRecord(pointer));

    const { response, peakRssBytes, heldMs } = await handler.measure([...hostile, ...own]);

    const failed = response.batchItemFailures.map(({ itemIdentifier }) => itemIdentifier);
    console.log('payload', kind, Math.round(peakRssBytes / MIB), Math.round(heldMs), failed.length);
    expect(own.filter(({ messageId }) => failed.includes(messageId))).toEqual([]);
    expect(peakRssBytes).toBeLessThan(0.8 * MEMORY_MB * MIB);
  });
});
