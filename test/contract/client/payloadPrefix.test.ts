import { describe, expect, it } from '@jest/globals';
import { Batchscore } from '../../../client/index.ts';
import { pointerBody } from '../../../lambda/core/record.ts';
import { ALIVE, IN_TIME, resultOf, useDeployments } from '../../helpers/deployment.ts';
import { echoModel } from '../../helpers/scoring.ts';
import { allOf } from './requests.ts';

const deployments = useDeployments();
const { s3 } = deployments;

/** A request over 1 MiB, whose result is over 1 MiB too. */
const LARGE = { inputs: { in: { data: Float32Array.from({ length: 300_000 }), shape: [1, 300_000] } } };

describe('what is too large for the queue', () => {
  it.each([
    ['of its own', '', ['requests/', 'results/']],
    ['that is shared', 'batchscore/fraud/', ['batchscore/fraud/requests/', 'batchscore/fraud/results/']],
  ])('goes to the payload bucket and comes from it, in a bucket %s', async (_, prefix, areas) => {
    const { client, answer, payloadBucket } = await deployments.create('queue', 'standard', undefined, prefix);
    const producer = client();

    const messageIds = await producer.submit([LARGE]);
    await answer(1, echoModel('FP32', ['width']));

    expect(await allOf(producer.collect(messageIds, IN_TIME))).toMatchObject([{ outputs: { out: {} } }]);
    const keys = await s3.keys(payloadBucket);
    expect(keys.map((key) => key.slice(0, -36))).toEqual(areas);
    expect(keys.map((key) => key.slice(-36))).toEqual(Array(2).fill(expect.stringMatching(/^[0-9a-f-]{36}$/)));
  });

  it('is answered with an error where the producer has another prefix than the deployment', async () => {
    const { client, answer } = await deployments.create('queue', 'standard', undefined, 'fraud/');
    const producer = client({ payloadPrefix: 'spam/' });
    const messageIds = await producer.submit([LARGE]);
    await answer(1);
    expect(await allOf(producer.collect(messageIds, IN_TIME))).toMatchObject([
      { error: { code: 'INVALID_POINTER', message: expect.stringContaining('"fraud/requests/"') } },
    ]);
  });
});

describe('a result that points elsewhere in the payload bucket', () => {
  it.each([
    ['', 'requests/1'],
    ['', 'results-of-others/1'],
    ['', './results/1'],
    ['fraud/', 'results/1'],
    ['fraud/', 'others/fraud/results/1'],
  ])('is not fetched, and stays for a client that may: prefix %j, key %j', async (prefix, key) => {
    const { client, writer, payloadBucket, resultQueueUrl } = await deployments.create(
      'queue',
      'standard',
      undefined,
      prefix,
    );
    const front = await s3.front();
    await s3.put(payloadBucket, key, resultOf('a').body);
    await writer.write([{ ...resultOf('a'), body: pointerBody({ bucket: payloadBucket, key }) }], ALIVE);
    const consumer = client({ s3: s3.client(front) });

    expect(await allOf(consumer.collect(['a'], IN_TIME))).toMatchObject([
      {
        error: {
          code: 'RESULT_UNAVAILABLE',
          message: `the result is too large for its store: it lies at '${key}' in the payload bucket, and results lie under '${prefix}results/'; set payloadPrefix`,
        },
      },
    ]);
    expect(front.requests).toEqual([]);
    await consumer.close();
    expect(await deployments.sqs.drain(resultQueueUrl)).toHaveLength(1);
  });

  it('is refused where its key leads out of its folder', async () => {
    const { client, writer, payloadBucket } = await deployments.create('table');
    const front = await s3.front();
    const key = 'results/../requests/1';
    await writer.write([{ ...resultOf('a'), body: pointerBody({ bucket: payloadBucket, key }) }], ALIVE);

    expect(await allOf(client({ s3: s3.client(front) }).collect(['a'], IN_TIME))).toMatchObject([
      { error: { code: 'INVALID_RESULT', message: expect.stringContaining("no '..' in its path") } },
    ]);
    expect(front.requests).toEqual([]);
  });
});

describe('the prefix of a client', () => {
  it.each(['fraud', '/', '*/', 'fraud/results/'])('cannot be %j', (payloadPrefix) => {
    expect(() => new Batchscore({ payloadBucket: 'payloads', payloadPrefix })).toThrow(
      "expected a path that ends in '/'",
    );
  });
});
