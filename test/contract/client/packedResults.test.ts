import { setImmediate as nextTurn } from 'node:timers/promises';
import { SendMessageCommand } from '@aws-sdk/client-sqs';
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { CollectTimeoutError, type ScoringResult } from '../../../client/index.ts';
import { interceptSends } from '../../helpers/awsServers.ts';
import { ALIVE, IN_TIME, idsOf, resultOf, useDeployments } from '../../helpers/deployment.ts';
import { allOf, rejectionOf } from './requests.ts';

const deployments = useDeployments();
const { sqs } = deployments;
const PACKED = { results: 10_000, bytes: 64 * 1024 };
const warnings: string[] = [];
beforeEach(() => {
  // Within Jest no warning reaches the listeners of the process.
  jest.spyOn(process, 'emitWarning').mockImplementation((message) => void warnings.push(String(message)));
});
afterEach(() => {
  jest.restoreAllMocks();
  warnings.length = 0;
});

/** A deployment whose results share messages, as many as fit. */
function packing() {
  return deployments.create('queue', 'standard', PACKED);
}

function ids(count: number): string[] {
  return Array.from({ length: count }, (_, index) => `m-${index.toString().padStart(4, '0')}`);
}

/** Puts a message on the queue that says it is packed. */
async function sendPacked(QueueUrl: string, MessageBody: string, count: number): Promise<void> {
  const results = { DataType: 'Number', StringValue: String(count) };
  await sqs.client().send(new SendMessageCommand({ QueueUrl, MessageBody, MessageAttributes: { results } }));
}

describe('packed results', () => {
  it('are read beside single ones', async () => {
    const { client, writer, resultQueueUrl } = await packing();
    for (const some of [ids(1), ids(6).slice(1), ids(7).slice(6)]) await writer.write(some.map(resultOf), ALIVE);
    expect(idsOf(await allOf(client().collect(ids(7), IN_TIME)))).toEqual(ids(7));
    await expect(sqs.drain(resultQueueUrl)).resolves.toEqual([]);
  });

  it('of more than a caller has room for come when there is room', async () => {
    const { client, writer, resultQueueUrl } = await packing();
    for (let some = 0; some < 900; some += 300) {
      await writer.write(
        ids(900)
          .slice(some, some + 300)
          .map(resultOf),
        ALIVE,
      );
    }
    expect(idsOf(await allOf(client().collect(ids(900), IN_TIME)))).toEqual(ids(900));
    await expect(sqs.drain(resultQueueUrl)).resolves.toEqual([]);
  });

  it('come again when the caller leaves the loop early, those it took only to the next who asks for them', async () => {
    const { client, writer, resultQueueUrl } = await packing();
    await writer.write(ids(5).map(resultOf), ALIVE);
    const producer = client();
    const taken: ScoringResult[] = [];
    for await (const result of producer.collect(ids(5), IN_TIME)) {
      taken.push(result);
      break;
    }
    const rest = ids(5).filter((id) => id !== taken[0]?.messageId);
    expect(idsOf(await allOf(producer.collect(rest, IN_TIME)))).toEqual(rest);
    await expect(sqs.drain(resultQueueUrl)).resolves.toEqual([]);
  });
});

describe('a packed message', () => {
  it('stays while another copy of one of its results waits for its caller, who may yet leave', async () => {
    const { client, writer } = await packing();
    const seen = sqs.client();
    const received = Promise.withResolvers<void>();
    interceptSends(seen, async (_, reach) => {
      const answer = await reach();
      if (JSON.stringify(answer).includes('"results"')) received.resolve();
      return answer;
    });
    const producer = client({ sqs: seen });
    await writer.write([resultOf('first')], ALIVE);
    const slow = producer.collect(['first', 'a'], IN_TIME);
    await slow.next();
    await writer.write(['a', 'b'].map(resultOf), ALIVE);
    await received.promise;
    await nextTurn();

    expect(idsOf(await allOf(producer.collect(['b'], IN_TIME)))).toEqual(['b']);
    await slow.return();
    expect(idsOf(await allOf(producer.collect(['a'], { timeoutMs: 5_000 })))).toEqual(['a']);
  });
});

describe('a packed message that cannot be read', () => {
  const [a, b] = ['a', 'b'].map((id) => resultOf(id).body) as [string, string];

  it.each([
    ['cut short', `[${a},${b.slice(0, -5)}`, 'expected a JSON array of 2 results, got '],
    ['of fewer results than it says', `[${a}]`, 'expected 2 results, got 1'],
    ['with a result of nobody', `[${a},{"predictions":[]}]`, 'expected [1] to be a result with a message_id, '],
    ['with answers of two messages in one', `[${a},[${a},${b}]]`, 'expected [1] to be a result with a message_id, '],
  ])('stays on the queue, and the timeout says why: %s', async (_, body, problem) => {
    const { client, resultQueueUrl } = await packing();
    await sendPacked(resultQueueUrl, body, 2);
    const producer = client();
    const error = await rejectionOf(allOf(producer.collect(['a', 'b'], { timeoutMs: 1000 })));
    await producer.close();
    expect(error).toBeInstanceOf(CollectTimeoutError);
    expect(String(error)).toContain(problem);
    expect(warnings).toEqual([expect.stringContaining(problem)]);
    expect((await sqs.drain(resultQueueUrl)).map(({ Body }) => Body)).toEqual([body]);
  });

  it('holds up no other', async () => {
    const { client, writer, resultQueueUrl } = await packing();
    await sendPacked(resultQueueUrl, 'broken', 2);
    await writer.write(ids(3).map(resultOf), ALIVE);
    expect(idsOf(await allOf(client().collect(ids(3), IN_TIME)))).toEqual(ids(3));
  });
});

it.each([
  ['beside others', 4],
  ['alone', 1],
])('drops what a result queue still holds %s of those that were collected before', async (_, results) => {
  const { client, writer, resultQueueUrl } = await deployments.create('queue', 'standard', { results, bytes: 65_536 });
  await writer.write(['a', 'b', 'c', 'd'].map(resultOf), ALIVE);
  const producer = client();
  const yielded = await allOf(producer.collect(['c', 'd'], { ...IN_TIME, collected: ['a', 'b'] }));
  await producer.close();
  expect(idsOf(yielded)).toEqual(['c', 'd']);
  expect(await sqs.drain(resultQueueUrl)).toEqual([]);
  expect(warnings).toEqual([]);
});
