import { describe, expect, it } from '@jest/globals';
import { RequestError, ScoringError } from '../../../client/index.ts';
import { interceptSends, sqsError } from '../../helpers/awsServers.ts';
import { useDeployments } from '../../helpers/deployment.ts';
import { echoModel } from '../../helpers/scoring.ts';
import { lineAnswer, lineOf } from './requests.ts';
import { rejectionOf, tellingClient } from './sends.ts';

const deployments = useDeployments();
const { sqs } = deployments;

describe('callers of score who get no scores', () => {
  it('who gave up, before or after they were sent, leave nothing on the result queue', async () => {
    const { client, answer, resultQueueUrl } = await deployments.create('queue');
    const slow = sqs.client();
    const [sent, held] = [Promise.withResolvers<number>(), Promise.withResolvers<void>()];
    const gate = Promise.withResolvers<void>();
    interceptSends(slow, async (_, reach) => {
      held.resolve();
      await gate.promise;
      return await reach();
    });
    const [producer, hurried] = [client({ sqs: tellingClient(sqs, sent.resolve) }), client({ sqs: slow })];
    const abort = new AbortController();
    const leaving = [producer, hurried].map((one) =>
      rejectionOf(one.score(lineOf(1).inputs, { signal: abort.signal })),
    );
    await Promise.all([sent.promise, held.promise]);
    abort.abort();
    for (const error of await Promise.all(leaving)) expect(error).toBe(abort.signal.reason);
    gate.resolve();
    await answer(2);
    for (const one of [producer, hurried]) {
      const next = one.score(lineOf(2).inputs);
      await answer(1);
      await expect(next).resolves.toEqual(lineAnswer(2));
    }
    await Promise.all([producer.close(), hurried.close()]);
    await expect(sqs.drain(resultQueueUrl)).resolves.toEqual([]);
    expect(sqs.secondsInFlight(resultQueueUrl)).toEqual({});
  });

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
