import { describe, expect, it } from '@jest/globals';
import { CollectTimeoutError } from '../../../client/index.ts';
import { interceptSends } from '../../helpers/awsServers.ts';
import { ALIVE, IN_TIME, idsOf, resultOf, useDeployments } from '../../helpers/deployment.ts';
import { allOf, rejectionOf } from './requests.ts';

const deployments = useDeployments();
const { sqs } = deployments;

describe('results of others', () => {
  it('reach each of four clients that collect at the same time', async () => {
    const { client, writer } = await deployments.create('queue');
    const ids = Array.from({ length: 400 }, (_, index) => `m-${index}`);
    await writer.write(ids.map(resultOf), ALIVE);
    const parts = [0, 1, 2, 3].map((part) => ids.filter((_, index) => index % 4 === part));
    const collected = await Promise.all(parts.map((wanted) => allOf(client().collect(wanted, IN_TIME))));
    expect(collected.map(idsOf)).toEqual(parts.map((wanted) => wanted.toSorted()));
  });

  it('that nobody takes are passed once, ten thousand of them, and given back', async () => {
    const { client, writer, resultQueueUrl } = await deployments.create('queue');
    sqs.send(
      resultQueueUrl,
      Array.from({ length: 10_000 }, (_, index) => `orphan ${index}`),
    );
    await writer.write([resultOf('mine')], ALIVE);
    const producer = client();
    expect(idsOf(await allOf(producer.collect(['mine'], { timeoutMs: 240_000 })))).toEqual(['mine']);
    await producer.close();
    expect(sqs.secondsInFlight(resultQueueUrl)).toEqual({});
    const orphans = await sqs.receive(resultQueueUrl);
    expect(orphans.map(({ Attributes }) => Attributes?.ApproximateReceiveCount)).toEqual(Array(10).fill('2'));
  }, 270_000);

  it('do not come over and over while a client waits, and its timeout tells of them', async () => {
    const { client, resultQueueUrl } = await deployments.create('queue');
    sqs.send(
      resultQueueUrl,
      Array.from({ length: 10 }, (_, index) => `orphan ${index}`),
    );
    const error = await rejectionOf(allOf(client().collect(['mine'], { timeoutMs: 2000 })));
    const [, times] =
      /; the result queue gave results of others (\d+) times, which were given back; /.exec(String(error)) ?? [];
    expect(Number(times)).toBeGreaterThanOrEqual(10);
  });

  describe('at the end of a sweep', () => {
    /** A client whose first poll that brings nothing is answered only when `gate` is opened; then `reached` resolves. */
    function clientHeldAtTheEnd() {
      const held = sqs.client();
      const [reached, gate] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      interceptSends(held, async (_, reach) => {
        const answer = await reach();
        if (
          Object.keys(answer).every((key) => key === '$metadata' || answer[key as keyof typeof answer] === undefined)
        ) {
          reached.resolve();
          await gate.promise;
        }
        return answer;
      });
      return { held, reached: reached.promise, open: () => gate.resolve() };
    }

    it('are given back, and not before', async () => {
      const { client, resultQueueUrl } = await deployments.create('queue');
      const theirs = Array.from({ length: 9 }, (_, index) => `theirs ${index}`);
      sqs.send(resultQueueUrl, theirs);
      const { held, reached, open } = clientHeldAtTheEnd();
      const collecting = allOf(client({ sqs: held }).collect(['mine'], { timeoutMs: 1000 }));
      const timedOut = expect(collecting).rejects.toThrow(CollectTimeoutError);
      await reached;
      expect(Object.keys(sqs.secondsInFlight(resultQueueUrl))).toEqual(theirs);
      open();
      expect(await sqs.receive(resultQueueUrl, { waitSeconds: 5 })).not.toEqual([]);
      await timedOut;
    });

    it('are given back before it to a caller who asks for them here', async () => {
      const { client, writer, resultQueueUrl } = await deployments.create('queue');
      await writer.write(['wanted later', 'theirs'].map(resultOf), ALIVE);
      const { held, reached, open } = clientHeldAtTheEnd();
      const producer = client({ sqs: held });
      const abort = new AbortController();
      const first = allOf(producer.collect(['never'], { ...IN_TIME, signal: abort.signal }));
      await reached;
      const later = allOf(producer.collect(['wanted later'], IN_TIME));
      const [message] = await sqs.receive(resultQueueUrl, { waitSeconds: 5, visibilitySeconds: 0 });
      expect(message?.Body).toBe(resultOf('wanted later').body);
      open();
      expect(idsOf(await later)).toEqual(['wanted later']);
      abort.abort();
      await expect(first).rejects.toBe(abort.signal.reason);
    });
  });
});
