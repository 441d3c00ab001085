import { createHash } from 'node:crypto';
import type { SQSRecord } from 'aws-lambda';
import { createRandom, type Random } from './random.ts';
import { type InputTensor, type RowData, type Scenario, scenarioNamed } from './scenarios.ts';

export const ENCODINGS = ['json', 'binary'] as const;
/** Form of tensors in bodies and results: numbers, or base64 of their bytes. */
export type Encoding = (typeof ENCODINGS)[number];

/** Message with one row to score. */
export interface Message {
  readonly id: string;
  readonly inputs: readonly InputTensor[];
  /** Size of the ragged axis. 1 if there is none. */
  readonly length: number;
}

const MESSAGE_SEED = 7;
const PACKED = scenarioNamed('mlp-small');

/** Yields the first `count` messages of a scenario. They are the same in every run. */
export function* drawMessages({ lengths, drawInputs }: Scenario, count: number): Generator<Message> {
  const random = createRandom(MESSAGE_SEED);
  for (let index = 0; index < count; index++) {
    const length = lengths?.(random) ?? 1;
    yield { id: `request-${index.toString().padStart(6, '0')}`, inputs: drawInputs(random, length), length };
  }
}

export function toRecords(messages: Iterable<Message>, encoding: Encoding): SQSRecord[] {
  const random = createRandom(MESSAGE_SEED);
  return Array.from(messages, (message) => toRecord(encodeBody(message, encoding), random));
}

export function encodeBody({ id, inputs }: Message, encoding: Encoding): string {
  const described = inputs.map(({ name, datatype, shape }) => ({ name, datatype, shape }));
  if (encoding === 'binary') {
    return JSON.stringify({ id, inputs: described, raw_input_contents: inputs.map(({ data }) => toBase64(data)) });
  }
  const withData = described.map((input, index) => ({
    ...input,
    data: toNumbers((inputs[index] as InputTensor).data),
  }));
  return JSON.stringify({ id, inputs: withData });
}

function toNumbers(data: RowData): number[] {
  return Array.from<number | bigint | string, number>(data, Number);
}

export function toBase64(data: RowData): string {
  if (!ArrayBuffer.isView(data)) return Buffer.concat(data.map(toCountedBytes)).toString('base64');
  return Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString('base64');
}

/** Returns a text as an element of BYTES: its size in four bytes, and its bytes. */
function toCountedBytes(text: string): Buffer {
  const size = Buffer.alloc(4);
  size.writeUInt32LE(Buffer.byteLength(text));
  return Buffer.concat([size, Buffer.from(text)]);
}

/** Creates the record as Lambda passes it: parsed from the event's JSON. */
export function toRecord(body: string, random: Random): SQSRecord {
  const record: SQSRecord = {
    messageId: random.uuid(),
    receiptHandle: Buffer.from(random.uuid() + random.uuid()).toString('base64'),
    body,
    attributes: {
      ApproximateReceiveCount: '1',
      SentTimestamp: '1545082649183',
      SenderId: 'AIDAIENQZJOLO23YVJ4VO',
      ApproximateFirstReceiveTimestamp: '1545082649185',
    },
    messageAttributes: {},
    md5OfBody: createHash('md5').update(body).digest('hex'),
    eventSource: 'aws:sqs',
    eventSourceARN: 'arn:aws:sqs:eu-central-1:123456789012:requests',
    awsRegion: 'eu-central-1',
  };
  return JSON.parse(JSON.stringify(record));
}

/** Number of requests per message, and of results per message. */
export interface Packing {
  readonly encoding: Encoding;
  readonly requestsPerMessage: number;
  readonly resultsPerMessage: number;
}

export const PACKINGS = {
  none: { requestsPerMessage: 1, resultsPerMessage: 1 },
  results: { requestsPerMessage: 1, resultsPerMessage: 10_000 },
  both: { requestsPerMessage: 100, resultsPerMessage: 10_000 },
} as const satisfies Readonly<Record<string, Omit<Packing, 'encoding'>>>;

/** Returns the records of `count` requests for the small MLP. */
export function toPackedRecords(
  count: number,
  { encoding, requestsPerMessage }: Omit<Packing, 'resultsPerMessage'>,
): SQSRecord[] {
  const random = createRandom(MESSAGE_SEED);
  const bodies = Array.from(drawMessages(PACKED, count), (message) => encodeBody(message, encoding));
  const messages =
    requestsPerMessage === 1 ? bodies : chunks(bodies, requestsPerMessage).map((some) => `[${some.join(',')}]`);
  return messages.map((body) => toRecord(body, random));
}

/** Splits items, in order, into chunks of `size`. The last one may be smaller. */
export function chunks<T>(items: readonly T[], size: number): T[][] {
  return Array.from({ length: Math.ceil(items.length / size) }, (_, chunk) =>
    items.slice(chunk * size, (chunk + 1) * size),
  );
}
