import { ReceiveMessageCommand, SendMessageCommand, type SQSClient } from '@aws-sdk/client-sqs';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { type LocalQueues, localSqsClient, startLocalQueues } from '../../../../../cli/local/localServices.ts';
import { createQueueWatch } from '../../../../../cli/local/page/devPage.ts';

let queues: LocalQueues;
let sqs: SQSClient;
beforeAll(async () => {
  queues = await startLocalQueues({ port: 0, shards: 2, visibilityTimeoutSeconds: 30, maxReceiveCount: 5 });
  sqs = localSqsClient(queues);
});
afterAll(async () => {
  sqs.destroy();
  await queues.stop();
});

const send = (QueueUrl = '') => sqs.send(new SendMessageCommand({ QueueUrl, MessageBody: 'x' }));

describe('the watch of the queues', () => {
  it('counts what waits on all shards, is in flight, and lies on the other queues', async () => {
    let now = 10_000;
    let newestSentAt = 0;
    const watch = createQueueWatch({ sqs, queues, newestSentAt: () => newestSentAt, now: () => now });
    expect(await watch.look()).toEqual({ waiting: 0, inFlight: 0, oldestMs: 0, deadLetters: 0, results: 0 });

    const [first, second] = queues.requestQueues.map(({ queueUrl }) => queueUrl);
    for (const queueUrl of [first, first, second, queues.deadLetterQueueUrl, queues.resultQueueUrl])
      await send(queueUrl);
    await sqs.send(new ReceiveMessageCommand({ QueueUrl: first, MaxNumberOfMessages: 1 }));
    now = 14_000;
    // Since the queue was seen empty.
    expect(await watch.look()).toEqual({ waiting: 2, inFlight: 1, oldestMs: 4_000, deadLetters: 1, results: 1 });
    newestSentAt = 13_500;
    // Since what the function had last was sent.
    expect(await watch.look()).toMatchObject({ oldestMs: 500 });
  });
});
