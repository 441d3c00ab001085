import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, it } from '@jest/globals';
import { CollectTimeoutError } from '../../../client/index.ts';
import { ALIVE, IN_TIME, idsOf, resultOf, useDeployments } from '../../helpers/deployment.ts';
import { allOf } from './requests.ts';

const deployments = useDeployments();
const { sqs } = deployments;

/** How many timers keep this process alive. */
function activeTimers(): number {
  return process.getActiveResourcesInfo().filter((resource) => resource === 'Timeout').length;
}

describe('a collection that does not end by itself', () => {
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

  it.each([0, -1, Number.NaN, Number.POSITIVE_INFINITY])('does not start with a timeout of %s', async (timeoutMs) => {
    const { client } = await deployments.create('queue');
    await expect(allOf(client().collect(['a'], { timeoutMs }))).rejects.toThrow('timeoutMs: expected 1 to 2147483647');
  });

  it('ends at once when there is nothing to collect', async () => {
    const { client } = await deployments.create('queue');
    await expect(allOf(client().collect([], IN_TIME))).resolves.toEqual([]);
  });
});
