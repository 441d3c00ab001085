import { createHash } from 'node:crypto';
import type { SQSRecord } from 'aws-lambda';
import { createRandom, type Random } from './random.ts';
import type { InputTensor, RowData, Scenario } from './scenarios.ts';

export const ENCODINGS = ['json', 'binary'] as const;
/** How tensors are written in bodies and results: as numbers, or as base64 of their bytes. */
export type Encoding = (typeof ENCODINGS)[number];

/** What a message asks to be scored: one row. */
export interface Message {
  readonly id: string;
  readonly inputs: readonly InputTensor[];
  /** Size of the ragged axis; 1 where there is none. */
  readonly length: number;
}

const MESSAGE_SEED = 7;

/** The first `count` messages of a scenario, the same in every run. */
export function* drawMessages({ lengths, drawInputs }: Scenario, count: number): Generator<Message> {
  const random = createRandom(MESSAGE_SEED);
  for (let index = 0; index < count; index++) {
    const length = lengths?.draw(random) ?? 1;
    yield { id: `request-${index.toString().padStart(6, '0')}`, inputs: drawInputs(random, length), length };
  }
}

/** `count` messages of typical length, to find the best size with. */
export function drawTypicalMessages(scenario: Scenario, count: number): Message[] {
  const random = createRandom(MESSAGE_SEED);
  const length = scenario.lengths?.typical ?? 1;
  return Array.from({ length: count }, () => ({ id: '', inputs: scenario.drawInputs(random, length), length }));
}

/** The records of the messages as Lambda hands them over: parsed from the event's JSON. */
export function toRecords(messages: Iterable<Message>, encoding: Encoding): SQSRecord[] {
  const random = createRandom(MESSAGE_SEED);
  return Array.from(messages, (message) => JSON.parse(JSON.stringify(toRecord(encodeBody(message, encoding), random))));
}

/** An Open Inference Protocol v2 request. */
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

export function toNumbers(data: RowData): number[] {
  return data instanceof BigInt64Array ? Array.from(data, Number) : Array.from(data);
}

export function toBase64(data: RowData): string {
  return Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString('base64');
}

function toRecord(body: string, random: Random): SQSRecord {
  return {
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
}

/** Requests in a message: a number, or as many as SQS bills as one request. */
export type RequestsPerMessage = number | 'fill';

const CHUNK_BYTES = 65_536;
const MESSAGES_PER_CALL = 10;
const CALL_BYTES = 2 ** 20;
const RECORD_SEED = 7;

/** The records of `count` requests that are packed into messages. */
export function toPackedRecords(
  scenario: Scenario,
  count: number,
  encoding: Encoding,
  perMessage: RequestsPerMessage,
): SQSRecord[] {
  const random = createRandom(RECORD_SEED);
  const bodies = Array.from(drawMessages(scenario, count), (message) => encodeBody(message, encoding));
  const packed = perMessage === 1 ? bodies : packBodies(bodies, perMessage).map((body) => `[${body.join(',')}]`);
  return packed.map((body) => JSON.parse(JSON.stringify(toRecord(body, random))));
}

function packBodies(bodies: readonly string[], perMessage: RequestsPerMessage): string[][] {
  const max = perMessage === 'fill' ? Number.POSITIVE_INFINITY : perMessage;
  const maxBytes = perMessage === 'fill' ? CHUNK_BYTES - 1 : CALL_BYTES - 1;
  const messages: string[][] = [];
  let bytes = 0;
  for (const body of bodies) {
    const message = messages.at(-1);
    bytes += body.length + 1;
    if (message !== undefined && message.length < max && bytes < maxBytes) message.push(body);
    else {
      messages.push([body]);
      bytes = body.length + 1;
    }
  }
  return messages;
}

/** SQS requests that one call with these messages is billed as: one for each 64 KiB, begun or full. */
export function billedChunks(bytes: readonly number[]): number {
  return Math.ceil(bytes.reduce((sum, one) => sum + one, 0) / CHUNK_BYTES);
}

/** SQS requests that sending these messages is billed as: ten messages or 1 MiB a call. */
export function billedSends(bytes: readonly number[]): number {
  let chunks = 0;
  for (let from = 0, to = 0; from < bytes.length; from = to) {
    let sum = 0;
    while (to < bytes.length && to - from < MESSAGES_PER_CALL && sum + (bytes[to] as number) <= CALL_BYTES) {
      sum += bytes[to++] as number;
    }
    if (to === from) throw new Error(`expected messages of at most ${CALL_BYTES} bytes, got ${bytes[from]}`);
    chunks += billedChunks([sum]);
  }
  return chunks;
}
