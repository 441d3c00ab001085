import { type DynamoDBClient, PutItemCommand } from '@aws-sdk/client-dynamodb';
import { describe, expect, it } from '@jest/globals';
import { ALIVE, IN_TIME, idsOf, resultOf, useDeployments } from '../../helpers/deployment.ts';
import { answersJson, type Exchange, hangsUp } from '../../helpers/frontServer.ts';
import { echoModel } from '../../helpers/scoring.ts';
import { allOf, lineAnswer, lineOf } from './requests.ts';

const deployments = useDeployments();
const { dynamodb } = deployments;
const THROTTLED = { __type: 'com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException' };

/** The message IDs that one call asked for. */
function keysOf({ body }: Exchange): string[] {
  const { RequestItems }: { RequestItems: Record<string, { Keys: { messageId: { S: string } }[] }> } = JSON.parse(body);
  return Object.values(RequestItems).flatMap(({ Keys }) => Keys.map(({ messageId }) => messageId.S));
}

describe('results in the result table', () => {
  it('are asked for until they come', async () => {
    const { client, answer } = await deployments.create('table');
    const producer = client();
    const messageIds = await producer.submit([lineOf(1), { body: { inputs: 7 } }]);
    const collected = allOf(producer.collect(messageIds, IN_TIME));
    await answer(2);
    expect(await collected).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ messageId: messageIds[0], outputs: lineAnswer(1) }),
        expect.objectContaining({
          messageId: messageIds[1],
          error: expect.objectContaining({ code: 'INVALID_REQUEST' }),
        }),
      ]),
    );
  });

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

  it('too large for the table are fetched from the payload bucket', async () => {
    const { client, answer } = await deployments.create('table');
    const producer = client();
    const data = Float32Array.from({ length: 100_000 }, (_, index) => index / 7);
    const messageIds = await producer.submit([{ inputs: { in: { data, shape: [1, data.length] } } }]);
    await answer(1, echoModel('FP32', ['width']));
    const [result] = await allOf(producer.collect(messageIds, IN_TIME));
    expect(result).toMatchObject({ outputs: { out: { shape: [1, data.length], data } } });
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

  it('may be collected again: the table keeps them', async () => {
    const { client, writer } = await deployments.create('table');
    const producer = client();
    await writer.write([resultOf('a')], ALIVE);
    for (let time = 0; time < 2; time++) {
      expect(idsOf(await allOf(producer.collect(['a'], IN_TIME)))).toEqual(['a']);
    }
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
