import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, it } from '@jest/globals';
import { Batchscore, type BatchscoreOptions, SubmitError } from '../../../client/index.ts';
import { interceptSends } from '../../helpers/awsServers.ts';
import { useDeployments } from '../../helpers/deployment.ts';
import { allOf, lineAnswer, lineOf, lines, rejectionOf } from './requests.ts';

const QUEUE = 'https://sqs.eu-central-1.amazonaws.com/123456789012/requests';
const deployments = useDeployments();

describe('options', () => {
  it.each([
    [
      'a queue by its name',
      { requestQueueUrl: 'requests' },
      'expected the URL of an SQS queue, https://…, got "requests"',
    ],
    ['a result queue by its ARN', { requestQueueUrl: QUEUE, resultQueueUrl: 'arn:aws:sqs:r' }, 'resultQueueUrl'],
    ['an empty table name', { requestQueueUrl: QUEUE, resultTable: '' }, 'resultTable'],
    ['an unknown encoding', { requestQueueUrl: QUEUE, encoding: 'text' }, 'encoding'],
    ['all that is wrong at once', { requestQueueUrl: 'requests', encoding: 'text' }, /requestQueueUrl.*encoding/],
    ['a misspelt option', { requestQueueUrl: QUEUE, resultQueue: QUEUE }, 'resultQueue'],
    ['a client that is none', { requestQueueUrl: QUEUE, sqs: 'sqs' }, 'expected a client of the AWS SDK, SQSClient'],
  ])('are refused: %s', (_, options, message) => {
    const make = () => new Batchscore(options as BatchscoreOptions);
    expect(make).toThrow(TypeError);
    expect(make).toThrow(message);
  });

  it('need no request queue to collect; to send without one is refused', async () => {
    await using client = new Batchscore({ resultQueueUrl: QUEUE, region: 'us-east-1' });
    const refused = 'expected requestQueueUrl, to send requests to, got none; set it';
    await expect(client.submit([])).rejects.toThrow(refused);
    await expect(client.score({})).rejects.toThrow(refused);
  });

  it('need a result store to collect and to score', async () => {
    const { client } = await deployments.create('queue');
    const producer = client({ resultQueueUrl: undefined });
    const reason = 'expected resultQueueUrl or resultTable';
    expect(() => producer.collect(['m-1'], { timeoutMs: 1000 })).toThrow(reason);
    await expect(producer.score(lineOf(1).inputs)).rejects.toThrow(reason);
  });

  it('choose the encoding of requests, and with it that of the answers', async () => {
    const { client, answer, requestQueueUrl } = await deployments.create('queue');
    const producer = client({ encoding: 'json' });
    const messageIds = await producer.submit([lineOf(1)]);
    const [message] = await deployments.sqs.receive(requestQueueUrl, { visibilitySeconds: 0 });
    expect(JSON.parse(message?.Body ?? '')).toEqual({
      id: '1',
      inputs: [{ name: 'x', datatype: 'FP32', shape: [1, 1], data: [1] }],
    });
    await answer(1);
    const results = await allOf(producer.collect(messageIds, { timeoutMs: 20_000 }));
    expect(results).toMatchObject([{ outputs: lineAnswer(1) }]);
  });
});

describe('a closed client', () => {
  it('takes nothing any more, and may be closed again', async () => {
    const { client } = await deployments.create('queue');
    const producer = client();
    await producer.close();
    await producer.close();
    await expect(producer.submit([lineOf(1)])).rejects.toThrow('the Batchscore client was closed');
    await expect(producer.score(lineOf(1).inputs)).rejects.toThrow('the Batchscore client was closed');
    expect(() => producer.collect([], { timeoutMs: 1 })).toThrow('the Batchscore client was closed');
  });

  it('refuses what it had not sent', async () => {
    const { client } = await deployments.create('queue');
    const producer = client();
    const submitting = producer.submit([lineOf(1)]);
    const refused = expect(submitting).rejects.toThrow('the Batchscore client was closed');
    await producer.close();
    await refused;
  });

  it('lets calls under way finish, so that the message IDs of what was sent are known', async () => {
    const { client, requestQueueUrl } = await deployments.create('queue');
    const held = deployments.sqs.client();
    const [gate, reached] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    interceptSends(held, async (_, reach) => {
      reached.resolve();
      await gate.promise;
      return await reach();
    });
    const producer = client({ sqs: held });
    const submitting = rejectionOf(producer.submit(lines(300)));
    await reached.promise;
    let isClosed = false;
    const closing = producer.close().then(() => {
      isClosed = true;
    });
    await nextTurn();
    expect(isClosed).toBe(false);
    gate.resolve();
    await closing;

    const error = await submitting;
    if (!(error instanceof SubmitError)) throw error;
    expect(error.message).toContain('aborted: the Batchscore client was closed');
    const accepted = error.accepted.filter((id) => id !== undefined);
    const sent = await deployments.sqs.drain(requestQueueUrl);
    expect(accepted.toSorted()).toEqual(sent.map(({ MessageId }) => MessageId).toSorted());
    expect(sent.length).toBeGreaterThan(0);
  });

  it('ends a submission whose source gives nothing', async () => {
    const { client } = await deployments.create('queue');
    const producer = client();
    const never = { [Symbol.asyncIterator]: () => ({ next: () => new Promise<never>(() => {}) }) };
    const submitting = rejectionOf(producer.submit(never));
    await nextTurn();
    await producer.close();
    expect(await submitting).toMatchObject({ accepted: [], message: expect.stringContaining('was closed') });
  });
});
