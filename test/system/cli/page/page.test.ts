import { GetQueueAttributesCommand, ReceiveMessageCommand, SendMessageCommand, SQSClient } from '@aws-sdk/client-sqs';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { ResultSeen } from '../../../../cli/page/wire.ts';
import { post, type RunningDev, startDev, untilState } from '../../../helpers/command.ts';

const ZEROS = JSON.stringify({ id: 'mine', model_name: 'digits', instances: [new Array(64).fill(0)] });

let dev: RunningDev;
let url: string;
let sqs: SQSClient;
beforeAll(async () => {
  dev = await startDev(['--batch-size', '10', '--window', '0']);
  url = dev.stack.page ?? '';
  const { endpoint, region } = dev.stack;
  sqs = new SQSClient({ endpoint, region, credentials: { accessKeyId: 'any', secretAccessKey: 'any' } });
});
afterAll(async () => {
  sqs.destroy();
  await dev.interrupt();
});

async function ask(body: string, times = 1): Promise<string> {
  return JSON.parse((await post(url, '/ask', { body, times })).text).messageId;
}

async function answerTo(messageId: string): Promise<ResultSeen> {
  for (;;) {
    const { awaited } = JSON.parse((await post(url, '/state', { awaited: messageId })).text);
    if (awaited !== undefined) return awaited;
  }
}

async function countOn(queueUrl: string): Promise<number> {
  const AttributeNames = ['ApproximateNumberOfMessages' as const, 'ApproximateNumberOfMessagesNotVisible' as const];
  const { Attributes = {} } = await sqs.send(new GetQueueAttributesCommand({ QueueUrl: queueUrl, AttributeNames }));
  return AttributeNames.reduce((sum, name) => sum + Number(Attributes[name]), 0);
}

describe('the page', () => {
  it('knows the models, and what can be sent', async () => {
    const { models, batchSize, windowSeconds } = await untilState(url);
    expect(models).toMatchObject([
      {
        name: 'digits',
        inputs: [{ name: 'image', datatype: 'FP32', shape: ['batch', 64] }],
        hasTransform: false,
        sample: expect.stringContaining('"model_name":"digits"'),
      },
      { name: 'tickets', hasTransform: true, sample: expect.stringContaining('"text"') },
    ]);
    expect([batchSize, windowSeconds]).toEqual([10, 0]);
  });

  it('tells what became of a message that it sent, and leaves nothing of it on the result queue', async () => {
    const messageId = await ask(ZEROS);
    const answer = await answerTo(messageId);
    expect(JSON.parse(answer.body)).toMatchObject({ message_id: messageId, id: 'mine' });
    expect(answer.answeredMs).toBeGreaterThan(0);
    const isIt = ({ number }: { readonly number: number }): boolean => number === answer.invocation;
    const { invocations } = await untilState(url, (state) => state.invocations.some(isIt));
    const expected = { records: 1, errors: 0, retried: 0, batchSize: 10 };
    expect(invocations.find(isIt)).toMatchObject(expected);
    expect(await countOn(dev.stack.resultQueueUrl)).toBe(0);
  });

  it("shows everybody's results, and takes none of them from the result queue", async () => {
    const { requestQueueUrl, resultQueueUrl } = dev.stack;
    const { MessageId } = await sqs.send(new SendMessageCommand({ QueueUrl: requestQueueUrl, MessageBody: ZEROS }));
    const { results, invocations } = await untilState(url, (state) =>
      state.results.some(({ messageId }) => messageId === MessageId),
    );
    expect(results.find(({ messageId }) => messageId === MessageId)).toMatchObject({ isError: false });
    expect(invocations.at(-1)).toMatchObject({ records: 1 });
    const { Messages } = await sqs.send(new ReceiveMessageCommand({ QueueUrl: resultQueueUrl, WaitTimeSeconds: 5 }));
    expect(JSON.parse(Messages?.[0]?.Body ?? '')).toMatchObject({ message_id: MessageId });
  });

  it('sends a message many times, fills batches with it, and tells of the last', async () => {
    const messageId = await ask(ZEROS, 95);
    await answerTo(messageId);
    const { totals, invocations } = await untilState(url, (state) => state.totals.answered >= 95);
    expect(totals.errors).toEqual({});
    expect(Math.max(...invocations.map(({ records }) => records))).toBeGreaterThan(1);
    expect(await countOn(dev.stack.resultQueueUrl)).toBeLessThanOrEqual(1);
  });

  it.each([
    ['/ask', { body: '', times: 1 }, /a text of 1 to 60,000 characters/],
    ['/ask', { body: {}, times: 1 }, /a text of 1 to 60,000 characters/],
    ['/ask', { body: '{}', times: 1_001 }, /and 1 to 1000/],
  ])('refuses by %s what is none of it: %j', async (path, body, why) => {
    const { status, text } = await post(url, path, body);
    expect(status).toBe(400);
    expect(JSON.parse(text).error).toMatch(why);
  });
});
