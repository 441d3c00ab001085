import { ReceiveMessageCommand, SendMessageCommand, type SQSClient } from '@aws-sdk/client-sqs';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { type LocalQueues, localSqsClient, startLocalQueues } from '../../../../../cli/local/localServices.ts';
import { createLoad, type Load, type LoadOptions, lookAtQueues } from '../../../../../cli/local/page/devPage.ts';
import { useSqsServer } from '../../../../helpers/awsServers.ts';

const server = useSqsServer();
let load: Load;
afterEach(() => load.stop());

function start(options: Partial<LoadOptions> & Pick<LoadOptions, 'queueUrls'>): { readonly sent: () => number } {
  let sent = 0;
  load = createLoad({
    sqs: server.client(),
    model: 'a',
    samplesOf: (model) => [`${model} 1`, `${model} 2`],
    waiting: () => 0,
    onSent: (messages) => {
      sent += messages;
    },
    ...options,
  });
  return { sent: () => sent };
}

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise(setImmediate);
}

describe('the load', () => {
  it('sends the samples of its model in turn, marked as its own, to every shard, and no more once it is stopped', async () => {
    const queueUrls = [server.queue(), server.queue()];
    const { sent } = start({ queueUrls });
    load.set(2_000, 'b');
    await until(() => sent() >= 40);
    await load.stop();
    const counts = queueUrls.map((queueUrl) => server.counts(queueUrl).ready);
    expect(counts.reduce((sum, count) => sum + count, 0)).toBe(sent());
    for (const queueUrl of queueUrls) {
      const [first, second] = await server.receive(queueUrl);
      expect([first?.Body, second?.Body].toSorted()).toEqual(['b 1', 'b 2']);
      expect(first?.MessageAttributes).toMatchObject({ 'batchscore-page': { StringValue: 'load' } });
    }
    expect(load.seen()).toEqual({ perSecond: 0, model: 'b' });
  });

  it('sends nothing while too many wait, and says so', async () => {
    const queueUrls = [server.queue()];
    let waiting = 20_001;
    const { sent } = start({ queueUrls, waiting: () => waiting });
    load.set(1_000, 'a');
    await until(() => load.seen().heldBack !== undefined);
    expect(load.seen().heldBack).toMatch(/more than 20,000 messages wait/);
    await load.stop();
    expect(sent()).toBe(0);
    waiting = 20_000;
    load.set(1_000, 'a');
    await until(() => sent() > 0);
  });

  it('ends where sending fails, and says why', async () => {
    const queueUrl = server.queue();
    server.deleteQueue(queueUrl);
    start({ queueUrls: [queueUrl] });
    load.set(100, 'a');
    await until(() => load.seen().heldBack !== undefined);
    expect(load.seen()).toMatchObject({ perSecond: 0, heldBack: expect.stringMatching(/^sending failed: .+/) });
  });
});

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

it('the page counts what waits on all shards, is in flight, and lies on the other queues', async () => {
  expect(await lookAtQueues(sqs, queues)).toEqual({ waiting: 0, inFlight: 0, deadLetters: 0, results: 0 });
  const [first, second] = queues.requestQueues.map(({ queueUrl }) => queueUrl);
  for (const queueUrl of [first, first, second, queues.deadLetterQueueUrl, queues.resultQueueUrl]) await send(queueUrl);
  await sqs.send(new ReceiveMessageCommand({ QueueUrl: first, MaxNumberOfMessages: 1 }));
  expect(await lookAtQueues(sqs, queues)).toEqual({ waiting: 2, inFlight: 1, deadLetters: 1, results: 1 });
});
