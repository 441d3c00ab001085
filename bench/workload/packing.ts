import type { SQSRecord } from 'aws-lambda';
import { drawMessages, type Encoding, encodeBody, toRecord } from './messages.ts';
import { createRandom } from './random.ts';
import type { Scenario } from './scenarios.ts';

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
  const most = perMessage === 'fill' ? Number.POSITIVE_INFINITY : perMessage;
  const mostBytes = perMessage === 'fill' ? CHUNK_BYTES - 1 : CALL_BYTES - 1;
  const messages: string[][] = [];
  let bytes = 0;
  for (const body of bodies) {
    const message = messages.at(-1);
    bytes += body.length + 1;
    if (message !== undefined && message.length < most && bytes < mostBytes) message.push(body);
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
