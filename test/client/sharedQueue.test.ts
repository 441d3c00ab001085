import { describe, expect, it } from '@jest/globals';
import type { ScoringResult } from '../../client/index.ts';
import { useDeployments } from './deployment.ts';
import { allOf } from './requests.ts';
import { ALIVE, IN_TIME, idsOf, resultOf } from './results.ts';

const deployments = useDeployments();
const { sqs } = deployments;

describe('results of others', () => {
  it('are left for them', async () => {
    const { client, writer } = await deployments.create('queue');
    await writer.write(['theirs', 'mine'].map(resultOf), ALIVE);
    expect(idsOf(await allOf(client().collect(['mine'], IN_TIME)))).toEqual(['mine']);
    expect(idsOf(await allOf(client().collect(['theirs'], IN_TIME)))).toEqual(['theirs']);
  });

  it('reach each of several clients of one queue', async () => {
    const { client, writer } = await deployments.create('queue');
    const ids = Array.from({ length: 40 }, (_, index) => `m-${index}`);
    const [even, odd] = [ids.filter((_, index) => index % 2 === 0), ids.filter((_, index) => index % 2 === 1)];
    const collected = [even, odd].map((wanted) => allOf(client().collect(wanted, IN_TIME)));
    await writer.write(ids.map(resultOf), ALIVE);
    const [evens = [], odds = []] = await Promise.all(collected);
    expect(idsOf(evens)).toEqual(even.toSorted());
    expect(idsOf(odds)).toEqual(odd.toSorted());
  });

  it('that nobody takes do not stand before ours, however many they are', async () => {
    const { client, writer } = await deployments.create('queue');
    const orphans = Array.from({ length: 600 }, (_, index) => `orphan-${index}`);
    await writer.write([...orphans, 'mine'].map(resultOf), ALIVE);
    expect(idsOf(await allOf(client().collect(['mine'], IN_TIME)))).toEqual(['mine']);
  });

  it('that carry no message ID stay on the queue', async () => {
    const { client, writer, resultQueueUrl } = await deployments.create('queue');
    sqs.send(resultQueueUrl, ['a stray']);
    await writer.write([resultOf('mine')], ALIVE);
    const producer = client();
    await allOf(producer.collect(['mine'], IN_TIME));
    await producer.close();
    const left = await sqs.drain(resultQueueUrl);
    expect(left.map(({ Body }) => Body)).toEqual(['a stray']);
  });

  it('are left when the caller leaves the loop early', async () => {
    const { client, writer } = await deployments.create('queue');
    const ids = ['a', 'b', 'c', 'd', 'e'];
    await writer.write(ids.map(resultOf), ALIVE);
    const taken: ScoringResult[] = [];
    for await (const result of client().collect(ids, IN_TIME)) {
      taken.push(result);
      break;
    }
    const rest = ids.filter((id) => id !== taken[0]?.messageId);
    expect(idsOf(await allOf(client().collect(rest, IN_TIME)))).toEqual(rest);
  });
});
