import type { SQSClient } from '@aws-sdk/client-sqs';
import type { ScoreRequest, TensorRequest } from '../../../client/index.ts';
import { interceptSends, type SqsServer } from '../../helpers/awsServers.ts';

/** A request to the line model, one row per value; its id is the first. */
export function lineOf(...values: number[]): TensorRequest {
  return { id: String(values[0]), inputs: { x: { data: Float32Array.from(values), shape: [values.length, 1] } } };
}

/** Requests of one row with the values and ids from 0 to `count`. */
export function lines(count: number): TensorRequest[] {
  return Array.from({ length: count }, (_, index) => lineOf(index));
}

/** What the line model makes of one value. */
export function lineAnswer(value: number) {
  return { y: { datatype: 'FP32', shape: [1, 1], data: Float32Array.of(2 * value + 1) } };
}

export async function allOf<T>(source: AsyncIterable<T>): Promise<T[]> {
  return await Array.fromAsync(source);
}

/** Requests that echo so many floats, each a value of its own. */
export function wide(count: number, floats: number): TensorRequest[] {
  return Array.from({ length: count }, (_, value) => {
    const data = new Float32Array(floats).fill(value + 0.5);
    return { id: String(value), inputs: { in: { data, shape: [1, floats] } } };
  });
}

/** The `id` of each request that is on the queue, by message ID. */
export async function idsOnQueue(sqs: SqsServer, queueUrl: string): Promise<Map<string | undefined, string>> {
  const messages = await sqs.drain(queueUrl);
  return new Map(messages.map(({ MessageId, Body = '' }) => [MessageId, JSON.parse(Body).id]));
}

/** A client of SQS that remembers how many entries each call held. */
export function countedClient(sqs: SqsServer): { readonly client: SQSClient; readonly calls: number[] } {
  const calls: number[] = [];
  const client = sqs.client();
  interceptSends(client, async (entries, reach) => {
    calls.push(entries.length);
    return await reach();
  });
  return { client, calls };
}

/** A client of SQS that tells of each call that sent messages how many they were. */
export function tellingClient(sqs: SqsServer, sent: (entries: number) => void): SQSClient {
  const client = sqs.client();
  interceptSends(client, async (entries, reach) => {
    const answer = await reach();
    if (entries.some(({ MessageBody }) => MessageBody !== undefined)) sent(entries.length);
    return answer;
  });
  return client;
}

/** A text of so many bytes that is a request to no model. */
export function bodyOf(bytes: number): ScoreRequest {
  return { body: JSON.stringify('x'.repeat(bytes - 2)) };
}

/** What a promise was rejected with. */
export async function rejectionOf(promise: Promise<unknown>): Promise<unknown> {
  const [settled] = await Promise.allSettled([promise]);
  if (settled.status === 'rejected') return settled.reason;
  throw new Error(`expected a rejection, got ${JSON.stringify(settled.value)}`);
}
