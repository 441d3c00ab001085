import type { Message } from '@aws-sdk/client-sqs';
import { describe, expect, it } from '@jest/globals';
import { backoffSeconds, createRetryDelay, outageSeconds } from '../../../../lambda/aws/requestQueue.ts';
import type { MessageRecord } from '../../../../lambda/core/record.ts';
import { useSqsServer } from '../../../helpers/awsServers.ts';
import { standardRecord } from '../../../helpers/scoring.ts';

const server = useSqsServer();
const NEVER = new AbortController().signal;
const LONG = { visibilitySeconds: 3_600 };

/** The record of a received message, as if it was received for the `receiveCount`th time. */
function recordOf({ Body = '', ReceiptHandle = '' }: Message, receiveCount = 1): MessageRecord {
  return standardRecord(Body, {
    receiptHandle: ReceiptHandle,
    attributes: { ApproximateReceiveCount: String(receiveCount), SentTimestamp: '0' },
  });
}

interface DelayOn {
  delay(records: readonly MessageRecord[]): Promise<unknown>;
  readonly problems: unknown[];
}

function delayOn(queueUrl: string, random = () => 1): DelayOn {
  const problems: unknown[] = [];
  const onProblem = (error: unknown) => void problems.push(error);
  const delay = createRetryDelay({ sqs: server.client(), queueUrl, onProblem, random });
  return { delay: (records) => delay(records, NEVER), problems };
}

describe('the retry delay', () => {
  it('lets a message come back after its backoff', async () => {
    const queueUrl = server.queue();
    server.send(queueUrl, ['retried']);
    const [message = {}] = await server.receive(queueUrl, LONG);

    await delayOn(queueUrl).delay([recordOf(message)]);

    expect(server.hiddenFor(queueUrl)).toEqual({ retried: 1 });
    const [again] = await server.receive(queueUrl, { ...LONG, waitSeconds: 20 });
    expect(again).toMatchObject({ Body: 'retried', Attributes: { ApproximateReceiveCount: '2' } });
  });

  it('gives every record the backoff of its own receive count, whatever their number', async () => {
    const queueUrl = server.queue();
    const bodies = Array.from({ length: 23 }, (_, index) => `m${index}`);
    server.send(queueUrl, bodies);
    const messages = [await server.receive(queueUrl, LONG), await server.receive(queueUrl, LONG)].flat();
    messages.push(...(await server.receive(queueUrl, LONG)));
    const receiveCountOf = (body = '') => 5 + (Number(body.slice(1)) % 4);

    const { delay, problems } = delayOn(queueUrl);
    await delay(messages.map((message) => recordOf(message, receiveCountOf(message.Body))));

    const seconds = [16, 32, 64, 128];
    const expected = bodies.map((body) => [body, seconds[receiveCountOf(body) - 5]]);
    expect(server.hiddenFor(queueUrl)).toEqual(Object.fromEntries(expected));
    expect(problems).toEqual([]);
  });

  it('draws the backoff of every record anew', async () => {
    const queueUrl = server.queue();
    server.send(queueUrl, ['a', 'b']);
    const messages = await server.receive(queueUrl, LONG);
    const draws = [0, 0.5];

    await delayOn(queueUrl, () => draws.shift() ?? 1).delay(messages.map((message) => recordOf(message, 6)));

    expect(Object.values(server.hiddenFor(queueUrl)).toSorted()).toEqual([16, 24]);
  });

  it('tells of a change that SQS refuses, and makes the others', async () => {
    const queueUrl = server.queue();
    server.send(queueUrl, ['good']);
    const [good = {}] = await server.receive(queueUrl, LONG);
    const { delay, problems } = delayOn(queueUrl);

    await delay([recordOf({ Body: 'gone', ReceiptHandle: 'stale' }), recordOf(good, 6)]);

    expect(server.hiddenFor(queueUrl)).toEqual({ good: 32 });
    expect(problems).toEqual([
      expect.objectContaining({ message: expect.stringMatching(/^retry delay: ReceiptHandleIsInvalid.* end.*: 1$/) }),
    ]);
  });
});

describe('backoffSeconds', () => {
  it.each([
    [1, 1, 1],
    [2, 1, 2],
    [3, 2, 4],
    [4, 4, 8],
    [9, 128, 256],
    [10, 150, 300],
    [11, 150, 300],
    [5_000, 150, 300],
  ])('after receive %i is between %i and %i', (receiveCount, shortest, longest) => {
    expect(backoffSeconds(receiveCount, () => 0)).toBe(shortest);
    expect(backoffSeconds(receiveCount, () => 1)).toBe(longest);
  });

  it('is whole seconds, and never zero', () => {
    expect(backoffSeconds(1, () => 0)).toBe(1);
    expect(backoffSeconds(4, () => 0.3)).toBe(6);
    expect(backoffSeconds(0, () => 0)).toBe(1);
  });
});

describe('outageSeconds', () => {
  it.each([
    [1, 1, 1],
    [2, 14, 16],
    [3, 224, 256],
    [4, 3_584, 4_096],
    [5, 3_584, 4_096],
    [5_000, 3_584, 4_096],
  ])('after receive %i is between %i and %i', (receiveCount, shortest, longest) => {
    expect(outageSeconds(receiveCount, () => 1)).toBe(shortest);
    expect(outageSeconds(receiveCount, () => 0)).toBe(longest);
  });

  it('has five receives outlast an hour, and two hundred seconds take four of them at most, as short as it may be', () => {
    const secondsUntil = (receive: number) =>
      Array.from({ length: receive - 1 }, (_, index) => outageSeconds(index + 1, () => 1)).reduce((a, b) => a + b, 0);

    expect([2, 3, 4, 5].map(secondsUntil)).toEqual([1, 15, 239, 3_823]);
    expect(secondsUntil(5)).toBeGreaterThan(3_600);
    expect(secondsUntil(4)).toBeGreaterThan(200);
  });

  it('makes a record that came for the first time wait no longer than any other failure does', () => {
    expect(outageSeconds(1, () => 0)).toBe(backoffSeconds(1, () => 1));
  });
});
