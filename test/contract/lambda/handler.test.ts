import type { Message } from '@aws-sdk/client-sqs';
import { describe, expect, it } from '@jest/globals';
import { createHandler } from '../../../lambda/hosts/createHandler.ts';
import { interceptSends, useSqsServer } from '../../helpers/awsServers.ts';
import {
  type Deployment,
  deployed,
  failuresOf,
  invoke,
  lambdaContext,
  lookupRequest,
  recordOfMessage,
  sqsRecord,
} from '../../helpers/handler.ts';

const server = useSqsServer();
const NONE = { batchItemFailures: [] };

function deployment(): Deployment {
  return { sqs: server.client(), requestQueueUrl: server.queue(), resultQueueUrl: server.queue() };
}

interface Answer {
  readonly message_id: string;
  readonly code?: string;
  readonly outputs?: readonly { readonly name: string; readonly data: readonly number[] }[];
}

/** What was written under each message ID. */
async function answersOn(queueUrl: string): Promise<Map<string, Answer>> {
  const messages: Message[] = await server.drain(queueUrl);
  const answers = messages.map((message): [string, Answer] => [
    message.MessageAttributes?.messageId?.StringValue ?? '',
    JSON.parse(message.Body ?? ''),
  ]);
  expect(new Set(answers.map(([messageId]) => messageId)).size).toBe(answers.length);
  return new Map(answers);
}

describe('the handler', () => {
  it.each(['', '.fifo'])('answers those older than the deployment allows, without a run: queue%s', async (suffix) => {
    const where = deployment();
    const { handler } = await deployed(where, { variables: { BATCHSCORE_MAX_AGE_SECONDS: '60' } });
    const sent = [3_600_000, 0, 61_000, 30_000, 10_000_000_000_000].map((ageMs, index) => {
      const record = sqsRecord(lookupRequest(index === 2 ? 9 : 1));
      const attributes = { ...record.attributes, SentTimestamp: String(Date.now() - ageMs), MessageGroupId: 'g' };
      return { ...record, attributes, eventSourceARN: record.eventSourceARN + suffix };
    });

    expect(await invoke(handler, sent)).toEqual(NONE);

    const answers = await answersOn(where.resultQueueUrl);
    expect(sent.map(({ messageId }) => answers.get(messageId)?.code)).toEqual([
      'EXPIRED',
      undefined,
      'EXPIRED',
      undefined,
      'EXPIRED',
    ]);
    for (const record of [sent[1], sent[3]]) {
      expect(answers.get(record?.messageId ?? '')?.outputs?.[0]?.data).toEqual([20]);
    }
  });

  it('reports all, tells of the problem and does not throw when scoring itself has a bug', async () => {
    const { composition, telemetry } = await deployed(deployment());
    const bug = new Error('a bug in the scorer');
    const score = () => Promise.reject(bug);
    const handler = createHandler({ ...composition, scoring: { ...composition.scoring, score } });
    const records = [0, 1].map((index) => sqsRecord(lookupRequest(index)));

    expect(await invoke(handler, records)).toEqual(failuresOf(...records));

    expect(telemetry.problems).toContain(bug);
    expect(telemetry.outcomesOfInvocations[0]).toMatchObject(
      records.map(() => ({ status: 'retry', failure: { code: 'INTERNAL' } })),
    );
  });

  it.each([
    [
      'of EventBridge',
      { 'detail-type': 'order', source: 'shop', detail: {} },
      'the keys "detail-type", "source", "detail"',
    ],
    ['that SNS sends to a function', { Records: [{ Sns: { Message: '{}' } }] }, 'records of another service'],
    ['of one request', lookupRequest(0), 'the keys "model_name", "inputs"'],
    ['that is a text', 'hello', '"hello"'],
    ['that is nothing', null, 'null'],
  ])('refuses an event %s in one sentence', async (_, event, got) => {
    const { handler } = await deployed(deployment());
    await expect(handler(event as never, lambdaContext())).rejects.toThrow(
      new Error(
        `expected an event of SQS with Records, each with a messageId and a body, got ${got}; ` +
          'send a message to the request queue, whose event source mapping invokes the function',
      ),
    );
  });
});

describe('a record that is retried', () => {
  it('comes back to its queue, one of several, after its backoff; the visibility of answered ones is left alone', async () => {
    const where = deployment();
    const answered = JSON.stringify(lookupRequest(0));
    const retried = JSON.stringify(lookupRequest(1));
    server.send(where.requestQueueUrl, [answered, retried]);
    const messages = await server.receive(where.requestQueueUrl, { visibilitySeconds: 3_600 });
    const records = messages.map((message) => recordOfMessage(message, where.requestQueueUrl));
    const { handler } = await deployed({ ...where, requestQueueUrl: `${server.queue()},${where.requestQueueUrl}` });
    const failing = records.find(({ body }) => body === retried);
    interceptSends(where.sqs, async (entries, reach) => {
      const { Successful = [] } = await reach();
      const theirs = entries.find((e) => e.MessageAttributes?.messageId?.StringValue === failing?.messageId);
      return {
        Successful: Successful.filter(({ Id }) => Id !== theirs?.Id),
        Failed: theirs === undefined ? [] : [{ Id: theirs.Id, Code: 'AccessDenied', SenderFault: true }],
      };
    });

    await invoke(handler, records);

    expect(server.hiddenFor(where.requestQueueUrl)).toEqual({ [answered]: 3_600, [retried]: 1 });
  });
});
