import { describe, expect, it } from '@jest/globals';
import type { ScoreRequest } from '../../../client/index.ts';
import { ALIVE, byId, IN_TIME, resultOf, useDeployments } from '../../helpers/deployment.ts';
import { echoModel } from '../../helpers/scoring.ts';
import { allOf, lineAnswer, lineOf, lines, rejectionOf, wide } from './requests.ts';

const deployments = useDeployments();
const { sqs, s3 } = deployments;

describe.each(['queue', 'table'] as const)('packed requests, with results from a %s,', (store) => {
  it('have an ID each, under which each gets its own scores', async () => {
    const { client, answer } = await deployments.create(store);
    const producer = client({ requestsPerMessage: 10 });
    const ids = await producer.submit(lines(25));
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
    const producer = client({ requestsPerMessage: 10_000 });
    const requests: ScoreRequest[] = [
      lineOf(1),
      { body: { id: 'bad', inputs: 7 } },
      { body: 'not JSON' },
      { body: '{"id":"cut"' },
      { body: '[{"instances":[[1]]}]' },
      { body: `{"inputs":${'['.repeat(9_999)}${']'.repeat(9_999)}}` },
      { body: `{${'"":1,'.repeat(3_000)}"a":1}` },
      lineOf(2),
    ];
    const ids = await producer.submit(requests);
    const positions = ids.map((id) => id.split('/')[1]);
    expect(positions).toEqual(['0', '1', undefined, undefined, undefined, '2', '3', '4']);
    await answer(4);
    const results = byId(await allOf(producer.collect(ids, IN_TIME)));
    expect(ids.map((id) => results.get(id))).toMatchObject([
      { outputs: lineAnswer(1) },
      { id: 'bad', error: { code: 'INVALID_REQUEST', messageId: ids[1], id: 'bad' } },
      { error: { code: 'INVALID_JSON' } },
      { error: { code: 'INVALID_JSON' } },
      { results: [{ predictions: [[3]] }] },
      { error: { code: 'INVALID_REQUEST', messageId: ids[5] } },
      { error: { code: 'INVALID_REQUEST', messageId: ids[6] } },
      { outputs: lineAnswer(2) },
    ]);
  });

  it('all get the error of a message that is refused as a whole, together or one after the other', async () => {
    const { client, writer } = await deployments.create(store);
    const producer = client({ requestsPerMessage: 3 });
    const ids = await producer.submit(lines(3));
    const [messageId = ''] = ids[0]?.split('/') ?? [];
    const body = JSON.stringify({ message_id: messageId, code: 'TOO_MANY_REQUESTS', error: 'expected 2' });
    await writer.write([{ ...resultOf(messageId), body }], ALIVE);
    const results = [];
    for (const some of [ids.slice(0, 2), ids.slice(2)]) results.push(...(await allOf(producer.collect(some, IN_TIME))));
    expect(results).toMatchObject(
      ids.map((messageId) => ({ messageId, error: { code: 'TOO_MANY_REQUESTS', messageId } })),
    );
  });

  it('are answered by one payload where their answers are too large for the store', async () => {
    const { client, answer, payloadBucket } = await deployments.create(store);
    const producer = client({ requestsPerMessage: 8 });
    const ids = await producer.submit(wide(8, 1));
    await answer(1, echoModel('FP32', ['width'], { transform: { encode: () => 'x'.repeat(200_000) } }));
    expect(await s3.keys(payloadBucket)).toHaveLength(1);
    const results = byId(await allOf(producer.collect(ids, IN_TIME)));
    for (const [value, id] of ids.entries()) {
      expect(results.get(id)).toMatchObject({ id: String(value), result: expect.stringMatching(/^x{200000}$/) });
    }
  });

  it('are asked for in vain beyond the end of their message', async () => {
    const { client, answer } = await deployments.create(store);
    const producer = client({ requestsPerMessage: 2 });
    const [id = ''] = await producer.submit(lines(2));
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
    const producer = client({ requestsPerMessage: 4 });
    const ids = await producer.submit(lines(4));
    await answer(1);
    for await (const { messageId } of producer.collect(ids, IN_TIME)) if (messageId === ids[1]) break;
    expect(sqs.counts(resultQueueUrl)).toEqual({ inFlight: 1, ready: 0 });
    await expect(allOf(producer.collect(ids.slice(2), IN_TIME))).resolves.toHaveLength(2);
    expect(sqs.counts(resultQueueUrl)).toEqual({ inFlight: 0, ready: 0 });
  });

  it('is there for the next client if not all of its requests were collected', async () => {
    const { client, answer } = await deployments.create('queue');
    const producer = client({ requestsPerMessage: 4 });
    const ids = await producer.submit(lines(4));
    await answer(1);
    await expect(allOf(producer.collect(ids.slice(0, 2), IN_TIME))).resolves.toHaveLength(2);
    await producer.close();
    await expect(allOf(client().collect(ids, IN_TIME))).resolves.toHaveLength(4);
  });

  it('may be collected as a whole by its message ID', async () => {
    const { client, answer } = await deployments.create('table');
    const producer = client({ requestsPerMessage: 2 });
    const [id = ''] = await producer.submit(lines(2));
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
    const producer = client();
    await expect(allOf(producer.collect(['a/0'], IN_TIME))).resolves.toMatchObject([
      { messageId: 'a/0', error: { code: 'INVALID_RESULT', message: expect.stringContaining('no packed message') } },
    ]);
    await expect(allOf(producer.collect(['a'], IN_TIME))).resolves.toMatchObject([{ messageId: 'a' }]);
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
