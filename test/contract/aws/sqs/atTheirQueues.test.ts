import { describe, expect, it } from '@jest/globals';
import { createAcknowledger, createRetryDelay, perQueue } from '../../../../lambda/aws/requestQueue.ts';
import type { MessageRecord } from '../../../../lambda/core/record.ts';
import { useSqsServer } from '../../../helpers/awsServers.ts';
import { recordOfMessage } from '../../../helpers/handler.ts';

const server = useSqsServer();
const NEVER = new AbortController().signal;
const LONG = { visibilitySeconds: 3_600 };

/** A queue with so many received messages, and their records. */
async function received(count: number) {
  const queueUrl = server.queue();
  const name = queueUrl.slice(queueUrl.lastIndexOf('/') + 1);
  server.send(
    queueUrl,
    Array.from({ length: count }, (_, index) => `${name} ${index}`),
  );
  const messages = await server.receive(queueUrl, LONG);
  return { queueUrl, name, records: messages.map((message) => recordOfMessage(message, queueUrl)) };
}

function actions(queueUrls: readonly string[]) {
  const problems: unknown[] = [];
  const options = { sqs: server.client(), queueUrls, onProblem: (error: unknown) => void problems.push(error) };
  return {
    problems,
    acknowledge: perQueue<MessageRecord>({
      ...options,
      act: (queueUrl) => createAcknowledger({ ...options, queueUrl }),
    }),
    delay: perQueue({
      ...options,
      act: (queueUrl) => createRetryDelay({ ...options, queueUrl, random: () => 1 }),
    }),
  };
}

describe('records of several queues in one invocation', () => {
  it('are each deleted from the queue that they came from', async () => {
    const [one, two] = [await received(3), await received(2)];
    const { acknowledge, problems } = actions([one.queueUrl, two.queueUrl]);

    await acknowledge([...one.records.slice(1), ...two.records], NEVER);

    expect(Object.keys(server.secondsInFlight(one.queueUrl))).toEqual([one.records[0]?.body]);
    expect(server.secondsInFlight(two.queueUrl)).toEqual({});
    expect(problems).toEqual([]);
  });

  it('each come back to the queue that they came from, after their backoff', async () => {
    const [one, two] = [await received(1), await received(1)];
    const { delay, problems } = actions([one.queueUrl, two.queueUrl]);

    await delay([...one.records, ...two.records], NEVER);

    expect(server.hiddenFor(one.queueUrl)).toEqual({ [`${one.name} 0`]: 1 });
    expect(server.hiddenFor(two.queueUrl)).toEqual({ [`${two.name} 0`]: 1 });
    expect(problems).toEqual([]);
  });
});

describe('records of a queue that is not configured', () => {
  it('are told of once, with the queue and their number, and left alone; the others are not', async () => {
    const [own, other] = [await received(1), await received(2)];
    const { acknowledge, problems } = actions([own.queueUrl]);

    await acknowledge([...other.records, ...own.records], NEVER);

    expect(server.secondsInFlight(own.queueUrl)).toEqual({});
    expect(Object.keys(server.secondsInFlight(other.queueUrl))).toHaveLength(2);
    expect(problems).toEqual([
      new Error(
        `expected records of ${own.queueUrl}, got 2 of arn:aws:sqs:us-east-1:000000000000:${other.name}, which stay ` +
          'until their visibility timeout ends; add the URL of that queue to the request queues of the configuration, ' +
          'or remove its event source mapping',
      ),
    ]);
  });
});
