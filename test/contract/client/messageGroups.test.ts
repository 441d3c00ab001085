import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Message } from '@aws-sdk/client-sqs';
import { describe, expect, it } from '@jest/globals';
import { interceptSends, sqsError } from '../../helpers/awsServers.ts';
import { useDeployments } from '../../helpers/deployment.ts';
import { lines } from './requests.ts';

const deployments = useDeployments();
const { sqs, s3 } = deployments;

describe('requests of a message group', () => {
  it('are on a FIFO queue in their order, however long each call takes and whatever `maxInFlight` says', async () => {
    const { client, requestQueueUrl } = await deployments.create('queue', 'fifo');
    const slow = sqs.client();
    let underWay = 0;
    let max = 0;
    interceptSends(slow, async (_, reach) => {
      max = Math.max(max, ++underWay);
      await nextTurn();
      const answer = await reach();
      underWay -= 1;
      return answer;
    });
    const requests = lines(35).map((request) => ({ ...request, group: 'one' }));

    await client({ sqs: slow, maxInFlight: 8 }).submit(requests);

    expect(max).toBe(1);
    const bodies = (await sqs.drain(requestQueueUrl)).map(({ Body = '' }) => JSON.parse(Body));
    expect(bodies.map(({ id }) => id)).toEqual(requests.map(({ id }) => id));
  });

  it.each([
    ['in the payload bucket', true, 1],
    ['in the payload bucket, packed,', true, 'fill'],
    ['fewer to a message', false, 'fill'],
  ] as const)('stay in order where the queue takes less than 1 MiB: %s', async (_, hasBucket, requestsPerMessage) => {
    const { client, requestQueueUrl, payloadBucket } = await deployments.create('queue', 'fifo');
    const strict = sqs.client();
    interceptSends(strict, async (entries, reach) => {
      const bytes = entries.reduce((sum, { MessageBody = '' }) => sum + MessageBody.length, 0);
      if (bytes <= 20_000) return await reach();
      const message = `Batch requests cannot be longer than 20000 bytes. You have sent ${bytes} bytes.`;
      throw Object.assign(sqsError('BatchRequestTooLong', 'client'), { message });
    });
    const requests = Array.from({ length: 30 }, (_, value) => ({
      body: { id: String(value), inputs: 'x'.repeat(value % 10 === 3 ? 30_000 - (hasBucket ? 0 : 15_000) : 4_000) },
      group: 'one',
    }));

    const producer = client({ sqs: strict, payloadBucket: hasBucket ? payloadBucket : undefined });
    const ids = await producer.submit(requests, { requestsPerMessage });

    expect(new Set(ids).size).toBe(30);
    const messages: Message[] = [];
    while (messages.length < new Set(ids.map((id) => id.split('/')[0])).size) {
      messages.push(...(await sqs.drain(requestQueueUrl)));
    }
    const sent = await Promise.all(messages.map(({ Body = '' }) => idsIn(Body)));
    expect(sent.flat()).toEqual(requests.map(({ body }) => body.id));
  });

  it('share other messages in their order where each of several holds too many for the queue', async () => {
    const { client } = await deployments.create('queue', 'fifo');
    const requestQueueUrl = sqs.fifoQueue({ MaximumMessageSize: '20000' });
    const requests = Array.from({ length: 40 }, (_, value) => ({
      body: { id: String(value), inputs: 'x'.repeat(4_000) },
      group: 'one',
    }));

    await client({ requestQueueUrl, payloadBucket: undefined }).submit(requests, { requestsPerMessage: 10 });

    const bodies = (await sqs.drain(requestQueueUrl)).map(({ Body = '' }) => JSON.parse(Body));
    expect(bodies.flat().map(({ id }) => id)).toEqual(requests.map(({ body }) => body.id));
  });

  /** The `id` of each request in a body, be it a pointer or packed. */
  const idsIn = async (body: string): Promise<string[]> => {
    const [first, place] = [JSON.parse(body)].flat();
    if (typeof first === 'string') return await idsIn(await s3.text(place.s3BucketName, place.s3Key));
    return [JSON.parse(body)].flat().map(({ id }) => id);
  };
});
