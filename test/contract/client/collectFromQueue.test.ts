import { describe, expect, it } from '@jest/globals';
import { pointerBody } from '../../../lambda/core/record.ts';
import { interceptSends, sqsError } from '../../helpers/awsServers.ts';
import { ALIVE, IN_TIME, idsOf, resultOf, useDeployments } from '../../helpers/deployment.ts';
import { hangsUp, startFront } from '../../helpers/frontServer.ts';
import { echoModel } from '../../helpers/scoring.ts';
import { allOf, lineAnswer, lines } from './requests.ts';

const deployments = useDeployments();
const { sqs, s3 } = deployments;

describe('results on the result queue', () => {
  it('are yielded once each, with the scores of their request, and are gone afterwards', async () => {
    const { client, answer, resultQueueUrl } = await deployments.create('queue');
    const producer = client();
    const messageIds = await producer.submit(lines(25));
    await answer(25);
    const results = await allOf(producer.collect(messageIds, IN_TIME));
    expect(idsOf(results)).toEqual(messageIds.toSorted());
    for (const result of results) {
      const value = messageIds.indexOf(result.messageId);
      expect(result).toMatchObject({ id: String(value), model: 'line', version: '1', outputs: lineAnswer(value) });
    }
    await expect(sqs.drain(resultQueueUrl)).resolves.toEqual([]);
    expect(sqs.secondsInFlight(resultQueueUrl)).toEqual({});
  });

  it('come in the groups of a FIFO queue', async () => {
    const { client, answer } = await deployments.create('queue', 'fifo');
    const producer = client();
    const messageIds = await producer.submit(lines(12).map((request) => ({ ...request, group: 'one' })));
    await answer(12);
    const results = await allOf(producer.collect(messageIds, IN_TIME));
    expect(results.map(({ messageId }) => messageId)).toEqual(messageIds);
  });

  it('too large for the queue are fetched from the payload bucket', async () => {
    const { client, answer } = await deployments.create('queue');
    const producer = client();
    const data = Float32Array.from({ length: 300_000 }, (_, index) => index / 7);
    const messageIds = await producer.submit([{ inputs: { in: { data, shape: [1, data.length] } } }]);
    await answer(1, echoModel('FP32', ['width']));
    const [result] = await allOf(producer.collect(messageIds, IN_TIME));
    expect(result).toMatchObject({ outputs: { out: { datatype: 'FP32', shape: [1, data.length], data } } });
  });

  it('whose payload cannot be fetched fail alone, and stay for a client that can', async () => {
    const { client, answer, writer } = await deployments.create('queue');
    const producer = client();
    const data = Float32Array.from({ length: 300_000 });
    const messageIds = await producer.submit([{ inputs: { in: { data, shape: [1, data.length] } } }]);
    await answer(1, echoModel('FP32', ['width']));
    const without = client({ payloadBucket: undefined });
    await expect(allOf(without.collect(messageIds, IN_TIME))).resolves.toMatchObject([
      {
        messageId: messageIds[0],
        error: { code: 'RESULT_UNAVAILABLE', message: expect.stringContaining('set payloadBucket'), retryable: true },
      },
    ]);
    await writer.write([resultOf('other')], ALIVE);
    expect(idsOf(await allOf(without.collect(['other'], IN_TIME)))).toEqual(['other']);
    await expect(allOf(producer.collect(messageIds, IN_TIME))).resolves.toMatchObject([{ outputs: {} }]);
  });

  it('that point to another bucket are not fetched', async () => {
    const { client, writer } = await deployments.create('queue');
    const bucket = await s3.bucket();
    await s3.put(bucket, 'k', resultOf('a').body);
    await writer.write([{ ...resultOf('a'), body: pointerBody({ bucket, key: 'k' }) }], ALIVE);
    await expect(allOf(client().collect(['a'], IN_TIME))).resolves.toMatchObject([
      { error: { code: 'RESULT_UNAVAILABLE', message: expect.stringContaining(bucket) } },
    ]);
  });

  it('that were written twice are yielded once, and the copy is deleted when it is met', async () => {
    const { client, writer, resultQueueUrl } = await deployments.create('queue');
    const producer = client();
    await writer.write(['a', 'a', 'b'].map(resultOf), ALIVE);
    expect(idsOf(await allOf(producer.collect(['a', 'b', 'a'], IN_TIME)))).toEqual(['a', 'b']);
    await writer.write([resultOf('c')], ALIVE);
    expect(idsOf(await allOf(producer.collect(['c'], IN_TIME)))).toEqual(['c']);
    await producer.close();
    await expect(sqs.drain(resultQueueUrl)).resolves.toEqual([]);
    expect(sqs.secondsInFlight(resultQueueUrl)).toEqual({});
  });

  it.each([
    ['answered with failures', async () => ({ Failed: [{ Id: '1', Code: 'InternalError', SenderFault: false }] })],
    ['not answered', () => Promise.reject(sqsError('ServiceUnavailable', 'server'))],
  ])('are deleted before the collection ends, again when a deletion was %s', async (_, spoilt) => {
    const { client, writer, resultQueueUrl } = await deployments.create('queue');
    const flaky = sqs.client();
    let calls = 0;
    interceptSends(flaky, async (entries, reach) =>
      entries.length > 0 && ++calls === 1 ? await spoilt() : await reach(),
    );
    await writer.write(['a', 'b'].map(resultOf), ALIVE);
    const receivedTogether = client({ sqs: flaky }).collect(['a', 'b'], IN_TIME);
    expect(idsOf(await allOf(receivedTogether))).toEqual(['a', 'b']);
    expect(calls).toBeGreaterThan(1);
    expect(sqs.secondsInFlight(resultQueueUrl)).toEqual({});
  });

  it('are collected again after a receive failed', async () => {
    const { client, writer, resultQueueUrl } = await deployments.create('queue');
    const front = await startFront(new URL(resultQueueUrl).origin, [hangsUp]);
    try {
      await writer.write([resultOf('a')], ALIVE);
      expect(idsOf(await allOf(client({ sqs: sqs.client(front) }).collect(['a'], IN_TIME)))).toEqual(['a']);
    } finally {
      await front.stop();
    }
  });
});
