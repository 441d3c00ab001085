import { GetQueueAttributesCommand, ReceiveMessageCommand, SendMessageCommand, SQSClient } from '@aws-sdk/client-sqs';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import type { AnswerSeen, State } from '../../../../../cli/local/page/wire.ts';
import { type Events, listen, post, type RunningDev, startDev } from '../../../../helpers/command.ts';

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

const streams: Events[] = [];
afterEach(() => {
  for (const stream of streams.splice(0)) stream.close();
});
async function open(): Promise<Events> {
  const stream = await listen(url);
  streams.push(stream);
  return stream;
}

async function ask(body: string): Promise<string> {
  return JSON.parse((await post(url, '/ask', { body })).text).messageId;
}

async function countOn(queueUrl: string): Promise<number> {
  const AttributeNames = ['ApproximateNumberOfMessages' as const, 'ApproximateNumberOfMessagesNotVisible' as const];
  const { Attributes = {} } = await sqs.send(new GetQueueAttributesCommand({ QueueUrl: queueUrl, AttributeNames }));
  return AttributeNames.reduce((sum, name) => sum + Number(Attributes[name]), 0);
}

describe('the page', () => {
  it('knows the models, how they are run, and what can be sent', async () => {
    const stream = await open();
    const { models, loadModels, settings } = await stream.next<State>('state');
    expect(models).toMatchObject([
      {
        name: 'digits',
        version: '1',
        inputs: [{ name: 'image', datatype: 'FP32', shape: ['batch', 64] }],
        outputs: [{ name: 'label' }, { name: 'probabilities' }],
        evidence: 'rows are independent, by the graph of the model',
        batching: 'together',
        hasTransform: false,
        sample: expect.stringContaining('"model_name":"digits"'),
      },
      { name: 'tickets', hasTransform: true, sample: expect.stringContaining('"text"') },
    ]);
    expect(loadModels).toEqual(['digits', 'tickets']);
    expect(settings).toEqual({ batchSize: 10, windowSeconds: 0, load: { perSecond: 0, model: 'digits' } });
  });

  it('tells what became of a message that it sent, and leaves nothing of it on the result queue', async () => {
    const stream = await open();
    const messageId = await ask(ZEROS);
    const answer = await stream.next<AnswerSeen>('answer', (one) => one.messageId === messageId);
    expect(answer.invocation.microBatches[answer.microBatch ?? -1]).toMatchObject({ model: 'digits', rows: 1 });
    expect(answer.invocation).toMatchObject({ answered: 1, errors: 0, retried: 0, batchSize: 10, rows: 1, runs: 1 });
    expect(JSON.parse(answer.result?.body ?? '')).toMatchObject({ message_id: messageId, id: 'mine' });
    expect(answer.answeredMs).toBeGreaterThanOrEqual(answer.waitedMs);
    expect(await countOn(dev.stack.resultQueueUrl)).toBe(0);
  });

  it("shows everybody's results, and takes none of them from the result queue", async () => {
    const stream = await open();
    const { requestQueueUrl, resultQueueUrl } = dev.stack;
    const { MessageId } = await sqs.send(new SendMessageCommand({ QueueUrl: requestQueueUrl, MessageBody: ZEROS }));
    const { results, invocations } = await stream.next<State>('state', (state) =>
      state.results.some(({ messageId }) => messageId === MessageId),
    );
    expect(results.find(({ messageId }) => messageId === MessageId)).toMatchObject({ isError: false, isLoad: false });
    expect(invocations.at(-1)).toMatchObject({ records: 1, cameBefore: 0 });
    const { Messages } = await sqs.send(new ReceiveMessageCommand({ QueueUrl: resultQueueUrl, WaitTimeSeconds: 5 }));
    expect(JSON.parse(Messages?.[0]?.Body ?? '')).toMatchObject({ message_id: MessageId });
  });

  it('changes size and window of the running mapping, and tells every page', async () => {
    const stream = await open();
    const limits = { batchSize: 25, windowSeconds: 1 };
    expect((await post(url, '/batching', limits)).status).toBe(200);
    await stream.next<State>('state', ({ settings }) => settings.batchSize === 25 && settings.windowSeconds === 1);
    const messageId = await ask(ZEROS);
    const { invocation } = await stream.next<AnswerSeen>('answer', (one) => one.messageId === messageId);
    expect(invocation).toMatchObject({ batchSize: 25, endedBecause: 'its window ended' });
    await post(url, '/batching', { batchSize: 10, windowSeconds: 0 });
  });

  it.each([
    ['/batching', { batchSize: 11, windowSeconds: 0 }, /expected at least 1 with a batchSize above 10/],
    ['/batching', { batchSize: 10_001, windowSeconds: 1 }, /batchSize: expected a whole number from 1 to 10000/],
    [
      '/batching',
      { batchSize: 10, windowSeconds: 301 },
      /windowSeconds: expected a whole number of seconds from 0 to 300/,
    ],
    ['/batching', { batchSize: 10.5, windowSeconds: 1 }, /both whole numbers/],
    ['/batching', { batchSize: 10 }, /both whole numbers/],
    ['/load', { perSecond: 5_001, model: 'digits' }, /perSecond: expected a whole number from 0 to 5000/],
    ['/load', { perSecond: 1, model: 'letters' }, /model: expected digits, tickets, got another/],
    ['/load', { perSecond: 1, model: 'digits', more: 1 }, /a whole number and a name/],
    ['/ask', { body: '' }, /a text of 1 to 60,000 characters/],
    ['/ask', { body: {} }, /a text of 1 to 60,000 characters/],
  ])('refuses by %s what AWS would, or what is none of it: %j', async (path, body, why) => {
    const { status, text } = await post(url, path, body);
    expect(status).toBe(400);
    expect(JSON.parse(text).error).toMatch(why);
  });

  it('sends no load where no page is open that would end it', async () => {
    const stream = await open();
    await stream.next('state');
    stream.close();
    const untilRefused = async (): Promise<string> => {
      const { status, text } = await post(url, '/load', { perSecond: 0, model: 'digits' });
      return status === 400 ? text : untilRefused();
    };
    expect(JSON.parse(await untilRefused()).error).toMatch(/expected a page that is open, got none/);
  });

  it('sends load, which ends with the last page, and whose results are taken away', async () => {
    const stream = await open();
    await post(url, '/load', { perSecond: 200, model: 'tickets' });
    await stream.next<State>('state', ({ seconds }) => seconds.some(({ sent }) => sent > 0));
    await stream.next<State>('state', ({ seconds }) => seconds.some(({ p50Ms }) => p50Ms !== null));
    const { results } = await stream.next<State>('state', (state) => state.results.some(({ isLoad }) => isLoad));
    expect(results.find(({ isLoad }) => isLoad)?.body).toContain('"model_name":"tickets"');
    stream.close();

    const own = dev.stack.resultQueueUrl.replace(/[^/]+$/, 'batchscore-page-results');
    while ((await countOn(dev.stack.requestQueueUrl)) > 0);
    while ((await countOn(own)) > 0);
    expect(await countOn(dev.stack.resultQueueUrl)).toBeLessThanOrEqual(1);
    const { settings } = await (await open()).next<State>('state');
    expect(settings.load.perSecond).toBe(0);
  });
});
