import type { SendMessageBatchRequestEntry } from '@aws-sdk/client-sqs';
import { describe, expect, it } from '@jest/globals';
import type { ScoreRequest, TensorRequest } from '../../../client/index.ts';
import { interceptSends } from '../../helpers/awsServers.ts';
import { byId, IN_TIME, useDeployments } from '../../helpers/deployment.ts';
import { allOf, countedClient, lineAnswer, lineOf, lines, rejectionOf, wide } from './requests.ts';

const deployments = useDeployments();
const { sqs, s3 } = deployments;

/** How many requests each message on the queue holds; 1 for one that is not packed. */
async function requestsOnQueue(queueUrl: string): Promise<number[]> {
  const messages = await sqs.drain(queueUrl);
  return messages.map(({ Body = '' }) => {
    const body: unknown = JSON.parse(Body);
    return Array.isArray(body) ? body.length : 1;
  });
}

describe('a message', () => {
  it('holds as many requests as it is told, and one alone as it is', async () => {
    const { client, requestQueueUrl } = await deployments.create('queue');
    const counted = countedClient(sqs);
    const ids = await client({ sqs: counted.client, requestsPerMessage: 10 }).submit(lines(21));
    expect(counted.calls).toEqual([3]);
    expect(ids[20]).not.toContain('/');
    expect(await requestsOnQueue(requestQueueUrl)).toEqual([10, 10, 1]);
  });

  it('is filled to the 64 KiB that SQS bills as one request, and not beyond', async () => {
    const { client, requestQueueUrl } = await deployments.create('queue');
    const body = (bytes: number): ScoreRequest => ({ body: `{"id":"${'i'.repeat(bytes - 9)}"}` });
    const quarter = 65_536 / 4;
    const options = { resultQueueUrl: undefined, requestsPerMessage: 10_000 };
    const requests = [quarter, quarter, quarter, quarter - 5, quarter, quarter, quarter, quarter - 4].map(body);
    await client(options).submit(requests);
    const messages = await sqs.drain(requestQueueUrl);
    expect(messages.map(({ Body = '' }) => Body.length)).toEqual([65_536, 3 * quarter + 4, quarter - 4]);
  });

  it('holds no more than that, however many requests it is told', async () => {
    const { client, requestQueueUrl } = await deployments.create('queue');
    await client({ requestsPerMessage: 100 }).submit(wide(7, 4_000));
    expect(await requestsOnQueue(requestQueueUrl)).toEqual([3, 3, 1]);
  });

  it('holds fewer where the queue takes less', async () => {
    const { client } = await deployments.create('queue');
    const requestQueueUrl = sqs.queue({ MaximumMessageSize: '45000' });
    const ids = await client({ requestQueueUrl, requestsPerMessage: 100 }).submit(wide(8, 3_800));
    expect(new Set(ids).size).toBe(8);
    const messages = await sqs.drain(requestQueueUrl);
    const sent = messages.flatMap(({ MessageId = '', Body = '' }) => {
      const requests: { id: string }[] = [JSON.parse(Body)].flat();
      return requests.map(({ id }, at): [string, string] => [
        requests.length > 1 ? `${MessageId}/${at}` : MessageId,
        id,
      ]);
    });
    expect(ids.map((id) => new Map(sent).get(id))).toEqual([...'01234567']);
    const counts = messages.map(({ Body = '' }) => [JSON.parse(Body)].flat().length);
    expect(counts.toSorted()).toEqual([1, 1, 2, 2, 2]);
  });

  it('is sent without waiting for requests that are long in coming', async () => {
    const { client, requestQueueUrl } = await deployments.create('queue');
    async function* source(): AsyncGenerator<TensorRequest> {
      yield* lines(2);
      await sqs.receive(requestQueueUrl, { waitSeconds: 20, visibilitySeconds: 0 });
      yield lineOf(2);
    }
    await client({ requestsPerMessage: 100 }).submit(source());
    const requests = await requestsOnQueue(requestQueueUrl);
    expect(requests.toSorted()).toEqual([1, 2]);
  });

  it.each([0, -1, 1.5, 10_001, Number.NaN, '10', 'all'])('cannot hold %j requests', async (requestsPerMessage) => {
    const { client } = await deployments.create('queue');
    const wrong = requestsPerMessage as number;
    expect(() => client({ requestsPerMessage: wrong })).toThrow('expected a whole number from 1 to 10000');
  });
});

describe('message groups', () => {
  const inGroups = (groups: string): TensorRequest[] =>
    Array.from(groups, (group, value) => ({ ...lineOf(value), group }));

  it('have messages of their own on a FIFO queue, their requests in order', async () => {
    const { client, answer } = await deployments.create('queue', 'fifo');
    const seen = sqs.client();
    const sent: SendMessageBatchRequestEntry[] = [];
    interceptSends(seen, async (entries, reach) => {
      sent.push(...entries);
      return await reach();
    });
    const producer = client({ sqs: seen, requestsPerMessage: 3 });
    const groups = 'aabbaabaaabbbbab';
    const ids = await producer.submit(inGroups(groups));
    for (const group of 'ab') {
      const packs = sent
        .filter(({ MessageGroupId }) => MessageGroupId === group)
        .map(({ MessageBody = '' }) => (JSON.parse(MessageBody) as { id: string }[]).map(({ id }) => Number(id)));
      expect(packs.flat()).toEqual([...groups].flatMap((one, value) => (one === group ? [value] : [])));
      expect(packs.map(({ length }) => length)).toEqual([3, 3, 2]);
    }
    await answer(sent.length);
    const results = byId(await allOf(producer.collect(ids, IN_TIME)));
    expect(ids.map((id) => results.get(id))).toMatchObject(ids.map((_, value) => ({ outputs: lineAnswer(value) })));
  });

  it('keep their order around a request that is sent alone', async () => {
    const { client, requestQueueUrl } = await deployments.create('queue', 'fifo');
    const [first, second, third, fourth] = inGroups('aaaa') as [
      TensorRequest,
      TensorRequest,
      TensorRequest,
      TensorRequest,
    ];
    const requests = [first, { ...second, deduplicationId: 'd' }, third, fourth];
    await client({ requestsPerMessage: 10 }).submit(requests);
    const messages = await sqs.drain(requestQueueUrl);
    expect(messages.map(({ Body = '' }) => [JSON.parse(Body)].flat().length)).toEqual([1, 1, 2]);
    expect(messages[1]?.Attributes?.MessageDeduplicationId).toBe('d');
  });
});

describe('a request too large for any message', () => {
  it('goes to the payload bucket, and the others share a message', async () => {
    const { client, requestQueueUrl, payloadBucket } = await deployments.create('queue');
    const ids = await client({ requestsPerMessage: 3 }).submit([lineOf(1), ...wide(1, 300_000), lineOf(2)]);
    expect(ids.map((id) => id.split('/')[1])).toEqual(['0', undefined, '1']);
    await expect(s3.keys(payloadBucket)).resolves.toHaveLength(1);
    await expect(sqs.drain(requestQueueUrl)).resolves.toHaveLength(2);
  });

  it('is named where there is no payload bucket, and those before it are sent', async () => {
    const { client, requestQueueUrl } = await deployments.create('queue');
    const requests = [lineOf(1), lineOf(2), ...wide(1, 300_000), lineOf(3)];
    const submitting = client({ payloadBucket: undefined, requestsPerMessage: 10 }).submit(requests);
    expect(await rejectionOf(submitting)).toMatchObject({
      index: 2,
      retryable: false,
      accepted: [expect.stringMatching('/0$'), expect.stringMatching('/1$'), undefined],
    });
    expect(await requestsOnQueue(requestQueueUrl)).toEqual([2]);
  });
});

describe('a body as it is', () => {
  it('that holds characters which SQS refuses does not have the others refused', async () => {
    const { client, requestQueueUrl } = await deployments.create('queue');
    const odd = '{"id":"\uffff\u{1f600}"}';
    await client({ requestsPerMessage: 100 }).submit([lineOf(1), { body: odd }]);
    const [message] = await sqs.drain(requestQueueUrl);
    expect(JSON.parse(message?.Body ?? '')).toMatchObject([{ id: '1' }, JSON.parse(odd)]);
  });
});
