import type { SQSClient } from '@aws-sdk/client-sqs';
import type { ScoreRequest } from '../../../client/index.ts';
import { interceptSends, type SqsServer } from '../../helpers/awsServers.ts';

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
