import { ChangeMessageVisibilityCommand } from '@aws-sdk/client-sqs';
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { CollectTimeoutError, type ScoringResult } from '../../../client/index.ts';
import { pointerBody } from '../../../lambda/core/record.ts';
import { interceptSends } from '../../helpers/awsServers.ts';
import { ALIVE, IN_TIME, idsOf, resultOf, useDeployments } from '../../helpers/deployment.ts';
import { allOf, lineAnswer, lineOf, rejectionOf } from './requests.ts';

const deployments = useDeployments();
const { sqs } = deployments;
const warnings: string[] = [];
beforeEach(() => {
  // Within Jest no warning reaches the listeners of the process.
  jest.spyOn(process, 'emitWarning').mockImplementation((message) => void warnings.push(String(message)));
});
afterEach(() => {
  jest.restoreAllMocks();
  warnings.length = 0;
});

function orphans(count: number): string[] {
  return Array.from({ length: count }, (_, index) => `orphan-${index}`);
}

/** Results of one message group. */
function inOneGroup(ids: readonly string[]) {
  return ids.map((id) => ({ ...resultOf(id), messageGroupId: 'g' }));
}

/** A client of SQS that counts its receives, and tells of the first that brings messages. */
function countedReceives() {
  const counted = sqs.client();
  const brought = Promise.withResolvers<void>();
  const calls = { receives: 0 };
  interceptSends(counted, async (entries, reach) => {
    const answer = await reach();
    if (entries.length === 0) calls.receives += 1;
    if ('Messages' in answer && answer.Messages !== undefined) brought.resolve();
    return answer;
  });
  return { counted, calls, brought: brought.promise };
}

describe('results of a FIFO queue that nobody waits for', () => {
  it.each([0, 5, 9, 10, 12, 45])('do not lock their message group for score and collect: %d of them', async (count) => {
    const { client, writer, answer } = await deployments.create('queue', 'fifo');
    await writer.write(inOneGroup(orphans(count)), ALIVE);
    const { counted, calls } = countedReceives();
    const producer = client({ sqs: counted });
    const scores = producer.score(lineOf(7).inputs, { group: 'g' });
    await answer(1);
    await expect(scores).resolves.toEqual(lineAnswer(7));
    await writer.write(inOneGroup(['mine']), ALIVE);
    expect(idsOf(await allOf(producer.collect(['mine'], IN_TIME)))).toEqual(['mine']);
    expect(calls.receives).toBeLessThan(count + 8);
    expect(warnings).toEqual(
      count === 0 ? [] : [expect.stringContaining('the result of orphan-0, for which nobody waits')],
    );
  });

  it('are there for who collects them later in this process', async () => {
    const { client, writer, resultQueueUrl } = await deployments.create('queue', 'fifo');
    await writer.write(inOneGroup([...orphans(20), 'mine']), ALIVE);
    const producer = client();
    await allOf(producer.collect(['mine'], IN_TIME));
    expect(await allOf(producer.collect(orphans(20), IN_TIME))).toHaveLength(20);
    await producer.close();
    await expect(sqs.drain(resultQueueUrl)).resolves.toEqual([]);
  });
});

describe('results of a FIFO queue that nobody waits for, of more than 64 MiB,', () => {
  it('are forgotten from the oldest on', async () => {
    const { client, writer } = await deployments.create('queue', 'fifo');
    const large = inOneGroup(orphans(65)).map((result) => ({ ...result, body: result.body.padEnd(1_040_000) }));
    for (const results of [large, inOneGroup(['mine'])]) await writer.write(results, ALIVE);
    const producer = client();
    await allOf(producer.collect(['mine'], IN_TIME));
    const error = await rejectionOf(allOf(producer.collect(orphans(65), { timeoutMs: 100 })));
    expect(error).toBeInstanceOf(CollectTimeoutError);
    expect(error).toMatchObject({ missing: [expect.stringMatching(/^orphan-/)] });
  });
});

describe('results of a FIFO queue whose payloads cannot be fetched', () => {
  it('are named by the timeout of those behind them in their message group, and stay', async () => {
    const { client, writer, resultQueueUrl, payloadBucket } = await deployments.create('queue', 'fifo');
    const ids = orphans(12);
    const body = pointerBody({ bucket: payloadBucket, key: 'results/a' });
    const pointing = inOneGroup(ids).map((result) => ({ ...result, body }));
    await writer.write(pointing, ALIVE);
    const producer = client({ payloadBucket: undefined });
    const came: ScoringResult[] = [];
    const collecting = (async () => {
      for await (const result of producer.collect(ids, { timeoutMs: 1_500 })) came.push(result);
    })();
    expect(String(await rejectionOf(collecting))).toMatch(/are missing; the result store .*; set payloadBucket;/);
    expect(came.length).toBeGreaterThan(0);
    await producer.close();
    expect(sqs.counts(resultQueueUrl)).toMatchObject({ inFlight: 0, ready: 12 });
  });
});

describe('results of a standard queue that nobody waits for', () => {
  it('are received once, and are on the queue when the client is closed', async () => {
    const { client, writer, resultQueueUrl } = await deployments.create('queue');
    await writer.write([...orphans(300), 'mine'].map(resultOf), ALIVE);
    const { counted, calls } = countedReceives();
    const producer = client({ sqs: counted });
    const results = producer.collect(['mine', 'never'], { timeoutMs: 1_000 });
    await expect(results.next()).resolves.toMatchObject({ value: { messageId: 'mine' } });
    expect(await rejectionOf(results.next())).toBeInstanceOf(CollectTimeoutError);
    expect(calls.receives).toBeLessThan(45);
    await producer.close();
    expect(sqs.counts(resultQueueUrl)).toEqual({ inFlight: 0, ready: 300 });
    expect(warnings).toEqual([]);
  });

  it('reach at once who starts to wait for them, from memory', async () => {
    const { client, writer, resultQueueUrl } = await deployments.create('queue');
    await writer.write([resultOf('later')], ALIVE);
    const { counted, brought } = countedReceives();
    const producer = client({ sqs: counted });
    const abort = new AbortController();
    const first = rejectionOf(allOf(producer.collect(['never'], { ...IN_TIME, signal: abort.signal })));
    await brought;
    expect(idsOf(await allOf(producer.collect(['later'], IN_TIME)))).toEqual(['later']);
    expect(sqs.counts(resultQueueUrl)).toEqual({ inFlight: 0, ready: 0 });
    abort.abort();
    await first;
  });

  it('are told of once when they come again', async () => {
    const { client, writer, resultQueueUrl } = await deployments.create('queue');
    await writer.write([...orphans(3), 'mine'].map(resultOf), ALIVE);
    await sqs.receive(resultQueueUrl, { visibilitySeconds: 0 });
    await allOf(client().collect(['mine'], IN_TIME));
    expect(warnings).toEqual([
      expect.stringMatching(/^the result of orphan-\d, .* until it expires; collect it, or set onUnclaimed$/),
    ]);
  });
});

describe('onUnclaimed', () => {
  it.each(['standard', 'fifo'] as const)('is given them, of a %s queue, and they leave it', async (kind) => {
    const { client, writer, resultQueueUrl } = await deployments.create('queue', kind);
    await writer.write(inOneGroup([...orphans(12), 'mine']), ALIVE);
    const unclaimed: ScoringResult[] = [];
    const producer = client({ onUnclaimed: (result) => void unclaimed.push(result) });
    await allOf(producer.collect(['mine'], IN_TIME));
    await producer.close();
    expect(idsOf(unclaimed)).toEqual(orphans(12).toSorted());
    await expect(sqs.drain(resultQueueUrl)).resolves.toEqual([]);
    expect(warnings).toEqual([]);
  });

  it('is not given a result whose payload cannot be read, which stays on the queue', async () => {
    const { client, writer, resultQueueUrl, payloadBucket } = await deployments.create('queue');
    const gone = pointerBody({ bucket: payloadBucket, key: 'results/gone' });
    await writer.write([{ ...resultOf('orphan'), body: gone }, resultOf('mine')], ALIVE);
    const unclaimed: ScoringResult[] = [];
    const producer = client({ onUnclaimed: (result) => void unclaimed.push(result) });
    await allOf(producer.collect(['mine'], IN_TIME));
    await producer.close();
    expect(unclaimed).toEqual([]);
    await expect(sqs.drain(resultQueueUrl)).resolves.toMatchObject([{ Body: gone }]);
  });

  it('leaves what it throws at on the queue', async () => {
    const { client, writer, resultQueueUrl } = await deployments.create('queue');
    await writer.write([...orphans(2), 'mine'].map(resultOf), ALIVE);
    const producer = client({ onUnclaimed: () => Promise.reject(new Error('the disk is full')) });
    await allOf(producer.collect(['mine'], IN_TIME));
    await producer.close();
    await expect(sqs.drain(resultQueueUrl)).resolves.toHaveLength(2);
    expect(warnings).toEqual([expect.stringContaining('the disk is full')]);
  });
});

describe('results that a client received before it crashed', () => {
  it('are told of by the timeout, with the time until they come again', async () => {
    const { client, writer, resultQueueUrl } = await deployments.create('queue');
    await writer.write(orphans(3).map(resultOf), ALIVE);
    const received = await sqs.receive(resultQueueUrl, { visibilitySeconds: 30 });
    const producer = client();
    expect(String(await rejectionOf(allOf(producer.collect(orphans(3), { timeoutMs: 500 }))))).toMatch(
      /3 are missing; 3 may be hidden for (29|30) s more, as a client received them that ended without close\(\) or reads this result queue too; collect/,
    );
    for (const { ReceiptHandle } of received) {
      const returned = { QueueUrl: resultQueueUrl, ReceiptHandle, VisibilityTimeout: 0 };
      await sqs.client().send(new ChangeMessageVisibilityCommand(returned));
    }
    await expect(allOf(producer.collect(orphans(3), IN_TIME))).resolves.toHaveLength(3);
  });

  it('are not meant by a timeout after that time: another client reads the queue then', async () => {
    const { client, writer, resultQueueUrl } = await deployments.create('queue');
    const producer = client();
    const now = performance.now.bind(performance);
    jest.spyOn(performance, 'now').mockImplementation(() => now() + 31_000);
    await writer.write(orphans(3).map(resultOf), ALIVE);
    await sqs.receive(resultQueueUrl, { visibilitySeconds: 30 });
    expect(String(await rejectionOf(allOf(producer.collect(orphans(3), { timeoutMs: 500 }))))).toContain(
      '3 are missing; 3 may be hidden, as another client reads this result queue; give each client a queue of its own',
    );
  });
});
