import { ReceiveMessageCommand, SendMessageCommand, type SQSClient } from '@aws-sdk/client-sqs';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { type LocalQueues, localSqsClient, startLocalQueues } from '../../../../cli/local/localServices.ts';
import { lookAtQueues } from '../../../../cli/page/devPage.ts';

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

it('the page counts what waits on all shards, is in flight, and is among the dead letters', async () => {
  expect(await lookAtQueues(sqs, queues)).toEqual({ waiting: 0, inFlight: 0, deadLetters: 0 });
  const [first, second] = queues.requestQueues.map(({ queueUrl }) => queueUrl);
  for (const queueUrl of [first, first, second, queues.deadLetterQueueUrl]) await send(queueUrl);
  await sqs.send(new ReceiveMessageCommand({ QueueUrl: first, MaxNumberOfMessages: 1 }));
  expect(await lookAtQueues(sqs, queues)).toEqual({ waiting: 2, inFlight: 1, deadLetters: 1 });
});
