import { setImmediate as nextTurn } from 'node:timers/promises';
import type { SendMessageBatchRequestEntry } from '@aws-sdk/client-sqs';
import { describe, expect, it } from '@jest/globals';
import { CollectTimeoutError, type ScoreRequest, type ScoringResult, type TensorRequest } from '../../client/index.ts';
import { echoModel } from '../helpers/models.ts';
import { interceptSends } from '../helpers/sqsServer.ts';
import { useDeployments } from './deployment.ts';
import { allOf, lineAnswer, lineOf, lines } from './requests.ts';
import { ALIVE, IN_TIME, resultOf } from './results.ts';
import { bodyOf, countedClient, rejectionOf } from './sends.ts';

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

/** Requests that echo so many floats, each a value of its own. */
function wide(count: number, floats: number): TensorRequest[] {
  return Array.from({ length: count }, (_, value) => {
    const data = new Float32Array(floats).fill(value + 0.5);
    return { id: String(value), inputs: { in: { data, shape: [1, floats] } } };
  });
}

function byId(results: readonly ScoringResult[]): Map<string, ScoringResult> {
  return new Map(results.map((result) => [result.messageId, result]));
}

describe.each(['queue', 'table'] as const)('packed requests, with results from a %s,', (store) => {
  it('have an ID each, under which each gets its own scores', async () => {
    const { client, answer } = await deployments.create(store);
    const producer = client();
    const ids = await producer.submit(lines(25), { requestsPerMessage: 10 });
    expect(new Set(ids).size).toBe(25);
    await answer(3);
    const results = byId(await allOf(producer.collect(ids, IN_TIME)));
    expect(results.size).toBe(25);
    for (const [value, id] of ids.entries()) {
      expect(results.get(id)).toMatchObject({ messageId: id, id: String(value), outputs: lineAnswer(value) });
    }
  });

  it('fail alone', async () => {
    const { client, answer } = await deployments.create(store);
    const producer = client();
    const requests: ScoreRequest[] = [
      lineOf(1),
      { body: { id: 'bad', inputs: 7 } },
      { body: 'not JSON' },
      { body: '{"id":"cut"' },
      { body: '[{"instances":[[1]]}]' },
      lineOf(2),
    ];
    const ids = await producer.submit(requests, { requestsPerMessage: 'fill' });
    expect(ids.map((id) => id.split('/')[1])).toEqual(['0', '1', undefined, undefined, undefined, '2']);
    await answer(4);
    const results = byId(await allOf(producer.collect(ids, IN_TIME)));
    expect(ids.map((id) => results.get(id))).toMatchObject([
      { outputs: lineAnswer(1) },
      { id: 'bad', error: { code: 'INVALID_REQUEST', messageId: ids[1], id: 'bad' } },
      { error: { code: 'INVALID_JSON' } },
      { error: { code: 'INVALID_JSON' } },
      { results: [{ predictions: [[3]] }] },
      { outputs: lineAnswer(2) },
    ]);
  });

  it('all get the error of a message that is refused as a whole', async () => {
    const { client, writer } = await deployments.create(store);
    const producer = client();
    const ids = await producer.submit(lines(3), { requestsPerMessage: 3 });
    const [messageId = ''] = ids[0]?.split('/') ?? [];
    const body = JSON.stringify({ message_id: messageId, code: 'TOO_MANY_REQUESTS', error: 'expected 2' });
    await writer.write([{ ...resultOf(messageId), body }], ALIVE);
    const results = byId(await allOf(producer.collect(ids, IN_TIME)));
    expect(ids.map((id) => results.get(id))).toMatchObject(
      ids.map((messageId) => ({ messageId, error: { code: 'TOO_MANY_REQUESTS', messageId } })),
    );
  });

  it('all get it when they are collected one after the other', async () => {
    const { client, writer } = await deployments.create(store);
    const producer = client();
    const ids = await producer.submit(lines(3), { requestsPerMessage: 3 });
    const [messageId = ''] = ids[0]?.split('/') ?? [];
    const body = JSON.stringify({ message_id: messageId, code: 'TOO_MANY_REQUESTS', error: 'expected 2' });
    await writer.write([{ ...resultOf(messageId), body }], ALIVE);
    for (const id of ids) {
      await expect(allOf(producer.collect([id], { timeoutMs: 5_000 }))).resolves.toMatchObject([
        { messageId: id, error: { code: 'TOO_MANY_REQUESTS', messageId: id } },
      ]);
    }
  });

  it('are answered by one payload where their answers are too large for the store', async () => {
    const { client, answer, payloadBucket } = await deployments.create(store);
    const producer = client();
    const requests = wide(30, 10_000);
    const ids = await producer.submit(requests, { requestsPerMessage: 30 });
    expect(await s3.keys(payloadBucket)).toHaveLength(1);
    await answer(1, echoModel('FP32', ['width']));
    expect(await s3.keys(payloadBucket)).toHaveLength(2);
    const results = byId(await allOf(producer.collect(ids, IN_TIME)));
    for (const [value, id] of ids.entries()) {
      expect(results.get(id)).toMatchObject({ outputs: { out: requests[value]?.inputs.in } });
    }
  });

  it('may be collected one by one, by several callers, in any order', async () => {
    const { client, answer } = await deployments.create(store);
    const producer = client();
    const ids = await producer.submit(lines(6), { requestsPerMessage: 6 });
    await answer(1);
    const first = await allOf(producer.collect(ids.slice(0, 2), IN_TIME));
    const rest = await Promise.all(ids.slice(2).map((id) => allOf(producer.collect([id], IN_TIME))));
    expect([...first, ...rest.flat()].map(({ messageId }) => messageId)).toEqual(ids);
  });

  it('say which of them are missing when the time is up', async () => {
    const { client } = await deployments.create(store);
    const producer = client();
    const ids = await producer.submit(lines(3), { requestsPerMessage: 3 });
    const error = await rejectionOf(allOf(producer.collect(ids, { timeoutMs: 100 })));
    expect(error).toBeInstanceOf(CollectTimeoutError);
    expect(error).toMatchObject({ missing: ids });
  });

  it('are asked for in vain beyond the end of their message', async () => {
    const { client, answer } = await deployments.create(store);
    const producer = client();
    const [id = ''] = await producer.submit(lines(2), { requestsPerMessage: 2 });
    await answer(1);
    const beyond = id.replace('/0', '/2');
    await expect(allOf(producer.collect([beyond], IN_TIME))).resolves.toMatchObject([
      { messageId: beyond, error: { code: 'INVALID_RESULT', message: expect.stringContaining('got 2 answers') } },
    ]);
    await expect(allOf(producer.collect([id], IN_TIME))).resolves.toMatchObject([{ outputs: lineAnswer(0) }]);
  });
});

describe('the result of a packed message', () => {
  it('leaves the result queue once each of its requests was yielded, and not before', async () => {
    const { client, answer, resultQueueUrl } = await deployments.create('queue');
    const producer = client();
    const ids = await producer.submit(lines(4), { requestsPerMessage: 4 });
    await answer(1);
    for await (const { messageId } of producer.collect(ids, IN_TIME)) if (messageId === ids[1]) break;
    expect(sqs.secondsInFlight(resultQueueUrl)).toEqual({});
    const other = client();
    await expect(allOf(other.collect(ids.slice(2), IN_TIME))).resolves.toHaveLength(2);
    await expect(allOf(producer.collect(ids.slice(2), IN_TIME))).resolves.toHaveLength(2);
    await Promise.all([producer.close(), other.close()]);
    await expect(sqs.drain(resultQueueUrl)).resolves.toEqual([]);
  });

  it('may be collected as a whole by its message ID', async () => {
    const { client, answer } = await deployments.create('table');
    const producer = client();
    const [id = ''] = await producer.submit(lines(2), { requestsPerMessage: 2 });
    await answer(1);
    const whole = id.replace('/0', '');
    await expect(allOf(producer.collect([whole, id], IN_TIME))).resolves.toMatchObject([
      { messageId: whole, results: [{ outputs: lineAnswer(0) }, { outputs: lineAnswer(1) }] },
      { messageId: id, outputs: lineAnswer(0) },
    ]);
  });

  it('is not the one of a message of one request', async () => {
    const { client, writer } = await deployments.create('queue');
    await writer.write([resultOf('a')], ALIVE);
    await expect(allOf(client().collect(['a/0'], IN_TIME))).resolves.toMatchObject([
      { messageId: 'a/0', error: { code: 'INVALID_RESULT', message: expect.stringContaining('no packed message') } },
    ]);
    await expect(allOf(client().collect(['a'], IN_TIME))).resolves.toMatchObject([{ messageId: 'a' }]);
  });

  it.each(['', '/', '/1', 'a/', 'a/b', 'a/-1', 'a/01', 'a/1.5', 'a/1/2', 'a/9999999999'])(
    'is not looked for under %j',
    async (id) => {
      const { client } = await deployments.create('queue');
      const error = await rejectionOf(allOf(client().collect(['fine', id], IN_TIME)));
      expect(error).toBeInstanceOf(TypeError);
      expect(error).toMatchObject({ message: expect.stringContaining('expected a message ID') });
    },
  );
});

describe('a message', () => {
  it('holds as many requests as it is told, and one alone as it is', async () => {
    const { client, requestQueueUrl } = await deployments.create('queue');
    const counted = countedClient(sqs);
    const ids = await client({ sqs: counted.client }).submit(lines(21), { requestsPerMessage: 10 });
    expect(counted.calls).toEqual([3]);
    expect(ids[20]).not.toContain('/');
    expect(await requestsOnQueue(requestQueueUrl)).toEqual([10, 10, 1]);
  });

  it('holds as many as the client is told, unless submit is told otherwise', async () => {
    const { client, requestQueueUrl } = await deployments.create('queue');
    const producer = client({ requestsPerMessage: 2 });
    await producer.submit(lines(4));
    await producer.submit(lines(4), { requestsPerMessage: 4 });
    await producer.submit(lines(2), { requestsPerMessage: 1 });
    expect(await requestsOnQueue(requestQueueUrl)).toEqual([2, 2, 4, 1, 1]);
  });

  it('is filled to the 64 KiB that SQS bills as one request, and not beyond', async () => {
    const { client, requestQueueUrl } = await deployments.create('queue');
    const body = (bytes: number): ScoreRequest => ({ body: `{"id":"${'i'.repeat(bytes - 9)}"}` });
    const quarter = 65_536 / 4;
    const requests = [quarter, quarter, quarter, quarter - 5, quarter, quarter, quarter, quarter - 4].map(body);
    await client().submit(requests, { requestsPerMessage: 'fill' });
    const messages = await sqs.drain(requestQueueUrl);
    expect(messages.map(({ Body = '' }) => Body.length)).toEqual([65_536, 3 * quarter + 4, quarter - 4]);
  });

  it('that is filled holds a larger request alone', async () => {
    const { client, requestQueueUrl } = await deployments.create('queue');
    await client().submit([...wide(1, 10), ...wide(2, 20_000), ...wide(2, 10)], { requestsPerMessage: 'fill' });
    expect(await requestsOnQueue(requestQueueUrl)).toEqual([1, 1, 1, 2]);
  });

  it('that is too large for the queue goes to the payload bucket', async () => {
    const { client, requestQueueUrl, payloadBucket } = await deployments.create('queue');
    await client().submit(wide(3, 100_000), { requestsPerMessage: 3 });
    const [key = ''] = await s3.keys(payloadBucket);
    expect(JSON.parse(await s3.text(payloadBucket, key))).toHaveLength(3);
    await expect(sqs.drain(requestQueueUrl)).resolves.toHaveLength(1);
  });

  it('holds fewer where there is no payload bucket, and fewer still where the queue takes less', async () => {
    const { client } = await deployments.create('queue');
    const requestQueueUrl = sqs.queue({ MaximumMessageSize: '200000' });
    const ids = await client({ requestQueueUrl, payloadBucket: undefined }).submit(wide(8, 10_000), {
      requestsPerMessage: 100,
    });
    expect(new Set(ids).size).toBe(8);
    const messages = await sqs.drain(requestQueueUrl);
    const sent = messages.flatMap(({ MessageId, Body = '' }) =>
      (JSON.parse(Body) as { id: string }[]).map(({ id }, position) => [`${MessageId}/${position}`, id]),
    );
    expect(messages.map(({ Body = '' }) => (JSON.parse(Body) as unknown[]).length)).toEqual([3, 3, 2]);
    expect(ids.map((id) => new Map(sent as [string, string][]).get(id))).toEqual([
      '0',
      '1',
      '2',
      '3',
      '4',
      '5',
      '6',
      '7',
    ]);
  });

  it('holds fewer where it was put together before the queue said that it takes less', async () => {
    const { client } = await deployments.create('queue');
    const requestQueueUrl = sqs.queue({ MaximumMessageSize: '200000' });
    const held = sqs.client();
    const [gate, reached] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    interceptSends(held, async (_, reach) => {
      reached.resolve();
      await gate.promise;
      return await reach();
    });
    const producer = client({ requestQueueUrl, sqs: held, payloadBucket: undefined, maxInFlight: 1 });
    const refused = rejectionOf(producer.submit([bodyOf(300_000)]));
    await reached.promise;
    const submitted = producer.submit(wide(8, 10_000), { requestsPerMessage: 4 });
    await nextTurn();
    gate.resolve();
    expect(await refused).toMatchObject({ retryable: false });
    expect(new Set(await submitted).size).toBe(8);
    const ids = (await sqs.drain(requestQueueUrl)).flatMap(({ Body = '' }) => JSON.parse(Body) as { id: string }[]);
    expect(ids.map(({ id }) => id)).toEqual(['0', '1', '2', '3', '4', '5', '6', '7']);
  });

  it('is sent without waiting for requests that are long in coming', async () => {
    const { client, requestQueueUrl } = await deployments.create('queue');
    async function* source(): AsyncGenerator<TensorRequest> {
      yield* lines(2);
      await sqs.receive(requestQueueUrl, { waitSeconds: 20, visibilitySeconds: 0 });
      yield lineOf(2);
    }
    await client().submit(source(), { requestsPerMessage: 100 });
    const requests = await requestsOnQueue(requestQueueUrl);
    expect(requests.toSorted()).toEqual([1, 2]);
  });

  it('does not hold more arrays and objects than a body may have', async () => {
    const { client, requestQueueUrl } = await deployments.create('queue');
    const body = JSON.stringify({ parameters: { a: Array.from({ length: 60_000 }, () => []) } });
    await client().submit(
      Array.from({ length: 5 }, () => ({ body })),
      { requestsPerMessage: 5 },
    );
    expect(await requestsOnQueue(requestQueueUrl)).toEqual([3, 2]);
  });

  it.each([0, -1, 1.5, 10_001, Number.NaN, '10', 'all'])('cannot hold %j requests', async (requestsPerMessage) => {
    const { client } = await deployments.create('queue');
    const wrong = requestsPerMessage as number;
    expect(await rejectionOf(client().submit(lines(1), { requestsPerMessage: wrong }))).toBeInstanceOf(RangeError);
    expect(() => client({ requestsPerMessage: wrong })).toThrow("expected 'fill' or a whole number from 1 to 10000");
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
    const producer = client({ sqs: seen });
    const groups = 'aabbaabaaabbbbab';
    const ids = await producer.submit(inGroups(groups), { requestsPerMessage: 3 });
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
    await client().submit(requests, { requestsPerMessage: 10 });
    const messages = await sqs.drain(requestQueueUrl);
    expect(messages.map(({ Body = '' }) => [JSON.parse(Body)].flat().length)).toEqual([1, 1, 2]);
    expect(messages[1]?.Attributes?.MessageDeduplicationId).toBe('d');
  });
});

describe('a request too large for any message', () => {
  it('goes to the payload bucket, and the others share a message', async () => {
    const { client, requestQueueUrl, payloadBucket } = await deployments.create('queue');
    const ids = await client().submit([lineOf(1), ...wide(1, 300_000), lineOf(2)], { requestsPerMessage: 3 });
    expect(ids.map((id) => id.split('/')[1])).toEqual(['0', undefined, '1']);
    await expect(s3.keys(payloadBucket)).resolves.toHaveLength(1);
    await expect(sqs.drain(requestQueueUrl)).resolves.toHaveLength(2);
  });

  it('is named where there is no payload bucket, and those before it are sent', async () => {
    const { client, requestQueueUrl } = await deployments.create('queue');
    const requests = [lineOf(1), lineOf(2), ...wide(1, 300_000), lineOf(3)];
    const submitting = client({ payloadBucket: undefined }).submit(requests, { requestsPerMessage: 10 });
    expect(await rejectionOf(submitting)).toMatchObject({
      index: 2,
      retryable: false,
      accepted: [expect.stringMatching('/0$'), expect.stringMatching('/1$'), undefined],
    });
    expect(await requestsOnQueue(requestQueueUrl)).toEqual([2]);
  });
});

describe('a body as it is', () => {
  it.each([
    ['nested so deep that a long body with it would be refused', `{"inputs":${'['.repeat(99)}${']'.repeat(99)}}`],
    ['with more keys than a long body may have', `{${'"":1,'.repeat(10_000)}"a":1}`],
  ])('that is %s has a message of its own', async (_, odd) => {
    const { client, requestQueueUrl } = await deployments.create('queue');
    await client().submit([lineOf(1), { body: odd }, lineOf(2)], { requestsPerMessage: 100 });
    const requests = await requestsOnQueue(requestQueueUrl);
    expect(requests.toSorted()).toEqual([1, 2]);
  });

  it('that holds characters which SQS refuses does not have the others refused', async () => {
    const { client, requestQueueUrl } = await deployments.create('queue');
    const odd = '{"id":"\uffff\u{1f600}"}';
    await client().submit([lineOf(1), { body: odd }], { requestsPerMessage: 100 });
    const [message] = await sqs.drain(requestQueueUrl);
    expect(JSON.parse(message?.Body ?? '')).toMatchObject([{ id: '1' }, JSON.parse(odd)]);
  });
});
