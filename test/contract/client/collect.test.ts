import { setImmediate as nextTurn } from 'node:timers/promises';
import { type DynamoDBClient, PutItemCommand } from '@aws-sdk/client-dynamodb';
import { describe, expect, it } from '@jest/globals';
import { CollectTimeoutError } from '../../../client/index.ts';
import { pointerBody } from '../../../lambda/core/record.ts';
import { interceptSends, sqsError } from '../../helpers/awsServers.ts';
import { ALIVE, IN_TIME, idsOf, resultOf, useDeployments } from '../../helpers/deployment.ts';
import { answersJson, type Exchange, hangsUp, startFront } from '../../helpers/frontServer.ts';
import { echoModel } from '../../helpers/scoring.ts';
import { allOf, lineAnswer, lines } from './requests.ts';

const deployments = useDeployments();
const { sqs, s3, dynamodb } = deployments;

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
    await without.close();
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

/** How many timers keep this process alive. */
function activeTimers(): number {
  return process.getActiveResourcesInfo().filter((resource) => resource === 'Timeout').length;
}

describe('a collection that does not end by itself', () => {
  it('gives back the result in hand when its caller throws into it', async () => {
    const { client, writer } = await deployments.create('queue');
    const producer = client();
    await writer.write([resultOf('a')], ALIVE);
    const results = producer.collect(['a', 'b'], IN_TIME);
    await results.next();
    const full = new Error('the disk is full');
    await expect(results.throw(full)).rejects.toBe(full);
    expect(idsOf(await allOf(producer.collect(['a'], IN_TIME)))).toEqual(['a']);
  });

  it('leaves what had not come by its timeout to be collected later', async () => {
    const { client, writer } = await deployments.create('queue');
    const producer = client();
    await expect(allOf(producer.collect(['a', 'b'], { timeoutMs: 1 }))).rejects.toThrow(CollectTimeoutError);
    await writer.write(['a', 'b'].map(resultOf), ALIVE);
    expect(idsOf(await allOf(producer.collect(['a', 'b'], IN_TIME)))).toEqual(['a', 'b']);
  });

  it('ends with the reason of its signal', async () => {
    const { client } = await deployments.create('queue');
    const abort = new AbortController();
    const collecting = allOf(client().collect(['a'], { ...IN_TIME, signal: abort.signal }));
    abort.abort(new Error('enough'));
    await expect(collecting).rejects.toThrow('enough');
  });

  it('ends when the result queue does not exist, naming it', async () => {
    const { client, resultQueueUrl } = await deployments.create('queue');
    sqs.deleteQueue(resultQueueUrl);
    await expect(allOf(client().collect(['a'], IN_TIME))).rejects.toThrow(
      `the result queue ${resultQueueUrl} cannot be read: QueueDoesNotExist`,
    );
  });

  it('ends when the client is closed', async () => {
    const { client } = await deployments.create('queue');
    const producer = client();
    const collecting = allOf(producer.collect(['a'], IN_TIME));
    const closed = expect(collecting).rejects.toThrow('the Batchscore client was closed');
    await producer.close();
    await closed;
  });

  it('does not start for a message ID that is being collected', async () => {
    const { client } = await deployments.create('queue');
    const producer = client();
    const abort = new AbortController();
    const first = allOf(producer.collect(['a'], { ...IN_TIME, signal: abort.signal }));
    await nextTurn();
    const timers = activeTimers();
    await expect(allOf(producer.collect(['a'], IN_TIME))).rejects.toThrow('message ID a is being collected already');
    expect(activeTimers()).toBe(timers);
    abort.abort();
    await expect(first).rejects.toBe(abort.signal.reason);
  });

  it('does not start for IDs that are none, and leaves no timer', async () => {
    const { client } = await deployments.create('queue');
    const producer = client();
    const timers = activeTimers();
    await expect(allOf(producer.collect(['a'], { ...IN_TIME, collected: [''] }))).rejects.toThrow(TypeError);
    const hole = [undefined] as unknown as string[];
    await expect(allOf(producer.collect(hole, IN_TIME))).rejects.toThrow('expected a message ID');
    expect(activeTimers()).toBe(timers);
  });

  it.each([0, -1, Number.NaN, Number.POSITIVE_INFINITY])('does not start with a timeout of %s', async (timeoutMs) => {
    const { client } = await deployments.create('queue');
    await expect(allOf(client().collect(['a'], { timeoutMs }))).rejects.toThrow('timeoutMs: expected 1 to 2147483647');
  });

  it('ends at once when there is nothing to collect', async () => {
    const { client } = await deployments.create('queue');
    await expect(allOf(client().collect([], IN_TIME))).resolves.toEqual([]);
  });
});

const THROTTLED = { __type: 'com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException' };

/** The message IDs that one call asked for. */
function keysOf({ body }: Exchange): string[] {
  const { RequestItems }: { RequestItems: Record<string, { Keys: { messageId: { S: string } }[] }> } = JSON.parse(body);
  return Object.values(RequestItems).flatMap(({ Keys }) => Keys.map(({ messageId }) => messageId.S));
}

describe('results in the result table', () => {
  it('are asked for by at most a hundred keys a call', async () => {
    const { client, writer } = await deployments.create('table');
    const front = await dynamodb.front();
    const ids = Array.from({ length: 250 }, (_, index) => `m-${index}`);
    await writer.write(ids.map(resultOf), ALIVE);
    const collected = await allOf(client({ dynamodb: dynamodb.client(front) }).collect(ids, IN_TIME));
    expect(idsOf(collected)).toEqual(ids.toSorted());
    expect(front.requests.map((request) => keysOf(request).length)).toEqual([100, 100, 50]);
  });

  it('that the table leaves unprocessed are asked for again, and no others', async () => {
    const { client, writer, resultTable } = await deployments.create('table');
    const front = await dynamodb.front(async ({ reach, response, body }) => {
      const { RequestItems } = JSON.parse(body);
      const Keys = [{ messageId: { S: 'a' } }];
      const rest = JSON.stringify({ RequestItems: { [resultTable]: { ...RequestItems[resultTable], Keys } } });
      const answer = JSON.parse((await reach(rest)).body.toString());
      const UnprocessedKeys = { [resultTable]: { Keys: [{ messageId: { S: 'b' } }] } };
      answersJson(200, { ...answer, UnprocessedKeys })({ response } as Exchange);
    });
    await writer.write(['a', 'b'].map(resultOf), ALIVE);
    const collected = await allOf(client({ dynamodb: dynamodb.client(front) }).collect(['a', 'b'], IN_TIME));
    expect(idsOf(collected)).toEqual(['a', 'b']);
    expect(front.requests.map(keysOf)).toEqual([['a', 'b'], ['b']]);
  });

  it.each([
    ['the connection ends', hangsUp],
    ['the table is throttled', answersJson(400, THROTTLED)],
  ])('are asked for again after %s', async (_, step) => {
    const { client, writer } = await deployments.create('table');
    const front = await dynamodb.front(step);
    await writer.write([resultOf('a')], ALIVE);
    const collected = await allOf(client({ dynamodb: dynamodb.client(front) }).collect(['a'], IN_TIME));
    expect(idsOf(collected)).toEqual(['a']);
    expect(front.requests).toHaveLength(2);
  });

  it('that are none fail alone', async () => {
    const { client, writer, resultTable } = await deployments.create('table');
    await put(dynamodb.client(), resultTable, 'empty', {});
    await put(dynamodb.client(), resultTable, 'number', { body: { N: '7' } });
    await put(dynamodb.client(), resultTable, 'text', { body: { S: 'not JSON' } });
    await writer.write([resultOf('sound')], ALIVE);
    const results = await allOf(client().collect(['empty', 'number', 'text', 'sound'], IN_TIME));
    const codes = results.map((result) => [result.messageId, 'error' in result ? result.error.code : 'none']);
    expect(Object.fromEntries(codes)).toEqual({
      empty: 'INVALID_RESULT',
      number: 'INVALID_RESULT',
      text: 'INVALID_RESULT',
      sound: 'none',
    });
  });

  it('are read rather than the queue where both are given', async () => {
    const { client, writer, resultQueueUrl } = await deployments.create('table');
    await writer.write([resultOf('a')], ALIVE);
    expect(idsOf(await allOf(client({ resultQueueUrl }).collect(['a'], IN_TIME)))).toEqual(['a']);
  });
});

async function put(client: DynamoDBClient, TableName: string, messageId: string, rest: object): Promise<void> {
  await client.send(new PutItemCommand({ TableName, Item: { messageId: { S: messageId }, ...rest } }));
}

describe('a collection from the table that does not end by itself', () => {
  it('ends when the table does not exist, naming it', async () => {
    const { client } = await deployments.create('table');
    await expect(allOf(client({ resultTable: 'no-such-table' }).collect(['a'], IN_TIME))).rejects.toThrow(
      'the result table no-such-table cannot be read: ResourceNotFoundException',
    );
  });
});
