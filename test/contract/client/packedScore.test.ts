import { describe, expect, it } from '@jest/globals';
import { interceptSends, sqsError } from '../../helpers/awsServers.ts';
import { useDeployments } from '../../helpers/deployment.ts';
import { lineAnswer, lineOf, rejectionOf, tellingClient } from './requests.ts';

const deployments = useDeployments();
const { sqs } = deployments;

describe.each(['queue', 'table'] as const)('callers of score that share messages, with results from a %s,', (store) => {
  const create = async () => {
    const deployment = await deployments.create(store);
    const calls: number[] = [];
    const sent = Promise.withResolvers<void>();
    const telling = tellingClient(sqs, (entries) => {
      calls.push(entries);
      sent.resolve();
    });
    const producer = deployment.client({ sqs: telling, requestsPerMessage: 100 });
    return { ...deployment, producer, calls, sent: sent.promise };
  };

  it('get the outputs of their own inputs', async () => {
    const { producer, answer, calls } = await create();
    const values = Array.from({ length: 250 }, (_, value) => value);
    const scores = Promise.all(values.map((value) => producer.score(lineOf(value).inputs)));
    await answer(3);
    await expect(scores).resolves.toEqual(values.map(lineAnswer));
    expect(calls).toEqual([3]);
  });

  it('leave on their own, after it', async () => {
    const { producer, answer, sent, resultQueueUrl } = await create();
    const abort = new AbortController();
    const left = rejectionOf(producer.score(lineOf(1).inputs, { signal: abort.signal }));
    const late = rejectionOf(producer.score(lineOf(2).inputs, { timeoutMs: 200 }));
    const patient = producer.score(lineOf(3).inputs);
    await sent;
    abort.abort(new Error('enough'));
    expect(await left).toBe(abort.signal.reason);
    expect(await late).toMatchObject({ code: 'TIMEOUT' });
    await answer(1);
    await expect(patient).resolves.toEqual(lineAnswer(3));
    await producer.close();
    await expect(sqs.drain(resultQueueUrl)).resolves.toEqual([]);
  });
});

describe('callers of score that share messages', () => {
  it('leave nothing behind when all have left before their result came', async () => {
    const { client, answer, resultQueueUrl } = await deployments.create('queue');
    const producer = client({ requestsPerMessage: 10_000 });
    const late = [1, 2].map((value) => rejectionOf(producer.score(lineOf(value).inputs, { timeoutMs: 100 })));
    expect(await Promise.all(late)).toMatchObject([{ code: 'TIMEOUT' }, { code: 'TIMEOUT' }]);
    await answer(1);
    const next = producer.score(lineOf(3).inputs);
    await answer(1);
    await expect(next).resolves.toEqual(lineAnswer(3));
    await producer.close();
    await expect(sqs.drain(resultQueueUrl)).resolves.toEqual([]);
  });

  /** A client of SQS that tells what it sends: in each call, of each message, the first element of each request. */
  function seenBy(before: (call: number) => Promise<void> | void) {
    const sent: number[][][] = [];
    const seen = sqs.client();
    interceptSends(seen, async (entries, reach) => {
      if (entries.some(({ MessageBody }) => MessageBody === undefined)) return await reach();
      sent.push(entries.map(({ MessageBody = '' }) => [JSON.parse(MessageBody)].flat().map(valueIn)));
      await before(sent.length);
      return await reach();
    });
    return { seen, sent };
  }
  const valueIn = ({ inputs }: { inputs: { data: number[] }[] }): number => inputs[0]?.data[0] ?? Number.NaN;

  it('have it sent again for those who stay when one leaves meanwhile', async () => {
    const { client, answer } = await deployments.create('table');
    const abort = new AbortController();
    const { seen, sent } = seenBy((call) => {
      if (call > 1) return;
      abort.abort();
      throw sqsError('ServiceUnavailable', 'server');
    });
    const producer = client({ sqs: seen, encoding: 'json', requestsPerMessage: 10 });
    const left = rejectionOf(producer.score(lineOf(1).inputs, { signal: abort.signal }));
    const patient = producer.score(lineOf(2).inputs);
    expect(await left).toBe(abort.signal.reason);
    await answer(1);
    await expect(patient).resolves.toEqual(lineAnswer(2));
    expect(sent).toEqual([[[1, 2]], [[1, 2]]]);
  });
});
