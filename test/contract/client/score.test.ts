import { describe, expect, it } from '@jest/globals';
import { RequestError, ScoringError } from '../../../client/index.ts';
import { interceptSends, sqsError } from '../../helpers/awsServers.ts';
import { useDeployments } from '../../helpers/deployment.ts';
import { echoModel, lineModel, sumModel } from '../../helpers/scoring.ts';
import { lineAnswer, lineOf, rejectionOf, tellingClient } from './requests.ts';

const deployments = useDeployments();
const { sqs, dynamodb } = deployments;

describe.each(['queue', 'table'] as const)('a caller of score, with results from a %s,', (store) => {
  it('gets its own error, and the others their scores', async () => {
    const { client, answer } = await deployments.create(store);
    const producer = client();
    const wrong = producer.score({ x: { data: Float64Array.of(1), shape: [1, 1] } }, { id: 'order-42' });
    const [error, right] = [rejectionOf(wrong), producer.score(lineOf(2).inputs)];
    await answer(2);
    await expect(right).resolves.toEqual(lineAnswer(2));
    expect(await error).toBeInstanceOf(ScoringError);
    expect(await error).toMatchObject({
      code: 'INVALID_DATATYPE',
      id: 'order-42',
      messageId: expect.any(String),
      retryable: false,
    });
  });

  it('shares calls with those who call at the same time', async () => {
    const { client, answer } = await deployments.create(store);
    const calls: number[] = [];
    const producer = client({ sqs: tellingClient(sqs, (entries) => calls.push(entries)) });
    const values = Array.from({ length: 25 }, (_, value) => value);
    const scores = Promise.all(values.map((value) => producer.score(lineOf(value).inputs)));
    await answer(25);
    await expect(scores).resolves.toEqual(values.map(lineAnswer));
    expect(calls.toSorted((a, b) => b - a)).toEqual([10, 10, 5]);
  });

  it('gives up when its signal aborts, and nobody else does', async () => {
    const { client, answer } = await deployments.create(store);
    const sent = Promise.withResolvers<number>();
    const producer = client({ sqs: tellingClient(sqs, sent.resolve) });
    const abort = new AbortController();
    const aborted = rejectionOf(producer.score(lineOf(1).inputs, { signal: abort.signal }));
    const patient = producer.score(lineOf(2).inputs);
    expect(await sent.promise).toBe(2);
    abort.abort(new Error('enough'));
    expect(await aborted).toBe(abort.signal.reason);
    await answer(2);
    await expect(patient).resolves.toEqual(lineAnswer(2));
  });

  it('that gave up before it was sent is not sent', async () => {
    const { client, answer } = await deployments.create(store);
    const sent = Promise.withResolvers<number>();
    const producer = client({ sqs: tellingClient(sqs, sent.resolve) });
    const abort = new AbortController();
    const aborted = rejectionOf(producer.score(lineOf(1).inputs, { signal: abort.signal }));
    const patient = producer.score(lineOf(2).inputs);
    abort.abort();
    expect(await aborted).toBe(abort.signal.reason);
    await answer(1);
    await expect(patient).resolves.toEqual(lineAnswer(2));
    expect(await sent.promise).toBe(1);
  });

  it('chooses model, version and outputs', async () => {
    const { client, answer } = await deployments.create(store);
    const scores = client().score(
      {
        left: { data: [[1, 2]], datatype: 'FP32' },
        right: { data: [[3, 4]], datatype: 'FP32' },
        bias: { data: [5n], datatype: 'INT64' },
      },
      { model: 'sum', version: '1', outputs: ['total'] },
    );
    await answer(1, lineModel(), sumModel(), sumModel({ version: '2' }));
    await expect(scores).resolves.toEqual({ total: { datatype: 'FP64', shape: [1], data: Float64Array.of(15) } });
  });

  it('is settled when the client is closed', async () => {
    const { client } = await deployments.create(store);
    const sent = Promise.withResolvers<number>();
    const producer = client({ sqs: tellingClient(sqs, sent.resolve) });
    const waiting = rejectionOf(producer.score(lineOf(1).inputs));
    await sent.promise;
    await producer.close();
    expect(await waiting).toMatchObject({ code: 'COLLECT_FAILED', retryable: true });
  });
});

describe('callers of score', () => {
  it('share the reads of the result table', async () => {
    const { client, answer } = await deployments.create('table');
    const front = await dynamodb.front();
    const producer = client({ dynamodb: dynamodb.client(front) });
    const values = Array.from({ length: 30 }, (_, value) => value);
    const scores = Promise.all(values.map((value) => producer.score(lineOf(value).inputs)));
    await answer(30);
    await scores;
    const keys = front.requests.map(({ body }) => body.split('"S":').length - 1);
    expect(Math.max(...keys)).toBeGreaterThan(10);
  });
});

describe('callers of score who get no scores', () => {
  it('are all rejected when the request queue takes nothing', async () => {
    const { client } = await deployments.create('queue');
    const refusing = sqs.client();
    interceptSends(refusing, async () => {
      throw sqsError('AccessDenied', 'client');
    });
    const producer = client({ sqs: refusing });
    const errors = await Promise.all([1, 2, 3].map((value) => rejectionOf(producer.score(lineOf(value).inputs))));
    for (const error of errors) {
      expect(error).toBeInstanceOf(ScoringError);
      expect(error).toMatchObject({ code: 'SUBMIT_FAILED', message: expect.stringContaining('AccessDenied') });
    }
  });

  it('are all rejected when the results cannot be read', async () => {
    const { client, resultQueueUrl } = await deployments.create('queue');
    sqs.deleteQueue(resultQueueUrl);
    const producer = client();
    const errors = await Promise.all([1, 2, 3].map((value) => rejectionOf(producer.score(lineOf(value).inputs))));
    for (const error of errors) {
      expect(error).toMatchObject({ code: 'COLLECT_FAILED', message: expect.stringContaining(resultQueueUrl) });
    }
  });

  it('are rejected when the model answers in a form of its own', async () => {
    const { client, answer } = await deployments.create('queue');
    const error = rejectionOf(client().score({ in: { data: Float32Array.of(1), shape: [1] } }));
    await answer(1, echoModel('FP32', [], { transform: { encode: () => 'one' } }));
    expect(await error).toMatchObject({ code: 'INVALID_RESULT', message: expect.stringContaining("got 'result'") });
  });

  it('are rejected at once when their inputs cannot be encoded', async () => {
    const { client } = await deployments.create('queue');
    const error = rejectionOf(client().score({ x: { data: Float32Array.of(1), shape: [2] } }));
    expect(await error).toBeInstanceOf(RequestError);
  });
});
