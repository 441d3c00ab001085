import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, it } from '@jest/globals';
import type { TensorRequest } from '../../../client/index.ts';
import { interceptSends } from '../../helpers/awsServers.ts';
import { useDeployments } from '../../helpers/deployment.ts';
import { lineOf, lines } from './requests.ts';
import { bodyOf, countedClient, idsOnQueue } from './sends.ts';

const deployments = useDeployments();
const { sqs, s3 } = deployments;

describe('submitted requests', () => {
  it('are given message IDs in their order', async () => {
    const { client, requestQueueUrl } = await deployments.create('queue');
    const progress: [number, string][] = [];
    const messageIds = await client().submit(lines(250), {
      onProgress: ({ index, messageId, submitted }) => {
        expect(progress.push([index, messageId])).toBe(submitted);
      },
    });
    expect(progress.toSorted(([a], [b]) => a - b)).toEqual([...messageIds.entries()]);
    const ids = await idsOnQueue(sqs, requestQueueUrl);
    expect(messageIds.map((messageId) => ids.get(messageId))).toEqual(lines(250).map(({ id }) => id));
  });

  it('fill calls of ten messages', async () => {
    const { client } = await deployments.create('queue');
    const counted = countedClient(sqs);
    await client({ sqs: counted.client }).submit(lines(25));
    expect(counted.calls).toEqual([10, 10, 5]);
  });

  it('fill calls of at most 1 MiB', async () => {
    const { client } = await deployments.create('queue');
    const counted = countedClient(sqs);
    await client({ sqs: counted.client }).submit(Array.from({ length: 5 }, () => bodyOf(500_000)));
    expect(counted.calls).toEqual([2, 2, 1]);
  });

  it('are pulled only as fast as they are sent', async () => {
    const { client } = await deployments.create('queue');
    const held = sqs.client();
    const [gate, bothHeld] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    let calls = 0;
    interceptSends(held, async (_, reach) => {
      if (++calls === 2) bothHeld.resolve();
      await gate.promise;
      return await reach();
    });
    let pulled = 0;
    function* source(): Generator<TensorRequest> {
      for (; pulled < 500; pulled++) yield lineOf(pulled);
    }
    const submitting = client({ sqs: held, maxInFlight: 2 }).submit(source());
    await bothHeld.promise;
    await nextTurn();

    expect(calls).toBe(2);
    expect(pulled).toBeLessThanOrEqual(30);
    gate.resolve();
    await expect(submitting).resolves.toHaveLength(500);
  });
});

describe('a body', () => {
  it('of 1 MiB is sent as it is', async () => {
    const { client, requestQueueUrl, payloadBucket } = await deployments.create('queue');
    await client().submit([bodyOf(1_048_576)]);
    const [message] = await sqs.drain(requestQueueUrl);
    expect(message?.Body).toHaveLength(1_048_576);
    await expect(s3.keys(payloadBucket)).resolves.toEqual([]);
  });

  it('over 1 MiB goes to the payload bucket, as the Extended Client puts it', async () => {
    const { client, requestQueueUrl, payloadBucket } = await deployments.create('queue');
    await client().submit([bodyOf(1_048_577)]);
    const [message] = await sqs.drain(requestQueueUrl);
    const [key = ''] = await s3.keys(payloadBucket);
    expect(JSON.parse(message?.Body ?? '')).toEqual([
      'software.amazon.payloadoffloading.PayloadS3Pointer',
      { s3BucketName: payloadBucket, s3Key: key },
    ]);
    expect(message?.MessageAttributes).toMatchObject({
      ExtendedPayloadSize: { DataType: 'Number', StringValue: '1048577' },
    });
    expect(await s3.text(payloadBucket, key)).toHaveLength(1_048_577);
  });
});

describe('message groups', () => {
  it('and deduplication IDs go to a FIFO queue as they are given', async () => {
    const { client, requestQueueUrl } = await deployments.create('queue', 'fifo');
    await client().submit([{ ...lineOf(1), group: 'g', deduplicationId: 'd' }]);
    const [message] = await sqs.drain(requestQueueUrl);
    expect(message?.Attributes).toMatchObject({ MessageGroupId: 'g', MessageDeduplicationId: 'd' });
  });

  it('do not merge equal requests of one group that name no deduplication ID', async () => {
    const { client, requestQueueUrl } = await deployments.create('queue', 'fifo');
    const request = { ...lineOf(1), group: 'g' };
    await client().submit([request, request]);
    await expect(sqs.drain(requestQueueUrl)).resolves.toHaveLength(2);
  });
});
