import { describe, expect, it } from '@jest/globals';
import { Batchscore, type TensorRequest } from '../../../client/index.ts';
import { shardOf } from '../../../client/outbox.ts';
import { sqsError } from '../../helpers/awsServers.ts';
import { useDeployments } from '../../helpers/deployment.ts';
import { countedClient, idsOnQueue, lines } from './requests.ts';

const deployments = useDeployments();
const { sqs } = deployments;
const NAMES = ['a', 'b', 'c'].map((name) => ({ queueUrl: `https://sqs.eu-central-1.amazonaws.com/1/${name}.fifo` }));

/** A client of three request queues. */
async function sharded(kind: 'standard' | 'fifo' = 'standard') {
  const { client } = await deployments.create('queue', kind);
  const queues = [1, 2, 3].map(() => (kind === 'fifo' ? sqs.fifoQueue() : sqs.queue()));
  return {
    queues,
    producer: (sqsClient = sqs.client(), urls = queues) => client({ requestQueueUrl: urls.join(','), sqs: sqsClient }),
  };
}

/** So many that each of three queues has some of them: one has none once in 10^10 times. */
const GROUPS = 60;

/** Requests of these message groups in turn. */
function grouped(count: number): TensorRequest[] {
  return lines(count).map((request, index) => ({ ...request, group: `group-${index % GROUPS}` }));
}

describe('requests to several standard queues', () => {
  it('are spread evenly over them, in calls that stay full', async () => {
    const { queues, producer } = await sharded();
    const counted = countedClient(sqs);

    const messageIds = await producer(counted.client).submit(lines(90));

    const onQueues = await Promise.all(queues.map((queue) => idsOnQueue(sqs, queue)));
    expect(onQueues.map(({ size }) => size)).toEqual([30, 30, 30]);
    expect(counted.calls).toEqual(Array(9).fill(10));
    const ids = new Map(onQueues.flatMap((onQueue) => [...onQueue]));
    expect(messageIds.map((messageId) => ids.get(messageId))).toEqual(lines(90).map(({ id }) => id));
  });

  it('go to another queue where one does not take them for now', async () => {
    const { queues, producer } = await sharded();
    const [failing = ''] = queues;
    const failed: string[] = [];
    const client = sqs.client();
    client.middlewareStack.add(
      (next) => async (args) => {
        const { QueueUrl } = args.input as { QueueUrl: string };
        if (QueueUrl !== failing) return await next(args);
        failed.push(QueueUrl);
        throw sqsError('ServiceUnavailable', 'server');
      },
      { step: 'initialize' },
    );

    await expect(producer(client).submit(lines(30))).resolves.toHaveLength(30);

    expect(failed.length).toBeGreaterThan(0);
    await expect(sqs.drain(failing)).resolves.toEqual([]);
  });
});

describe('requests to several FIFO queues', () => {
  it('stay in the order of their message group, on the queue of the group', async () => {
    const { queues, producer } = await sharded('fifo');

    await producer().submit(grouped(5 * GROUPS));

    const onQueues = await Promise.all(queues.map((queue) => sqs.drain(queue)));
    expect(onQueues.every((messages) => messages.length > 0)).toBe(true);
    const bodies = onQueues
      .flat()
      .map(({ Body = '', Attributes }) => [Attributes?.MessageGroupId, JSON.parse(Body).id]);
    for (let group = 0; group < GROUPS; group++) {
      const holding = onQueues.filter((messages) =>
        messages.some(({ Attributes }) => Attributes?.MessageGroupId === `group-${group}`),
      );
      expect(holding).toHaveLength(1);
      const ids = bodies.filter(([name]) => name === `group-${group}`).map(([, id]) => Number(id));
      expect(ids).toEqual(Array.from({ length: 5 }, (_, index) => group + GROUPS * index));
    }
  });

  it('do not wait for those to another queue', async () => {
    const { queues, producer } = await sharded('fifo');
    const [held = ''] = queues;
    const client = sqs.client();
    const [gate, others] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const reached = new Set<string>();
    client.middlewareStack.add(
      (next) => async (args) => {
        const { QueueUrl } = args.input as { QueueUrl: string };
        if (QueueUrl === held) await gate.promise;
        const answer = await next(args);
        if (QueueUrl !== held && reached.add(QueueUrl).size === 2) others.resolve();
        return answer;
      },
      { step: 'initialize' },
    );

    const submitting = producer(client).submit(grouped(GROUPS));
    await others.promise;
    gate.resolve();

    await expect(submitting).resolves.toHaveLength(GROUPS);
  });

  it('leave their queue for a new one only', () => {
    const more = [{ queueUrl: 'https://sqs.eu-central-1.amazonaws.com/1/d.fifo' }, ...NAMES];
    const moves = Array.from({ length: 1_000 }, (_, group) => [shardOf(`${group}`, NAMES), shardOf(`${group}`, more)]);
    const moved = moves.filter(([before, after]) => before !== after);
    expect(new Set(moved.map(([, after]) => after))).toEqual(new Set([more[0]]));
    expect(Math.abs(moved.length - 250)).toBeLessThan(50);
  });

  it('are on the queue of their group whatever endpoint its URL has, and in whatever order the queues are named', () => {
    const local = NAMES.map(({ queueUrl }) => ({
      queueUrl: queueUrl.replace(/^https:.*\/1\//, 'http://127.0.0.1:1/2/'),
    }));
    for (let group = 0; group < 20; group++) {
      expect(local.indexOf(shardOf(`${group}`, local.toReversed()))).toBe(NAMES.indexOf(shardOf(`${group}`, NAMES)));
    }
  });
});

describe('the URLs of several queues', () => {
  const [{ queueUrl }, { queueUrl: another }] = NAMES as [{ queueUrl: string }, { queueUrl: string }];

  it('may have spaces after their commas', async () => {
    const client = new Batchscore({ requestQueueUrl: `${queueUrl}, ${another}`, region: 'eu-central-1' });
    await expect(client.submit([])).resolves.toEqual([]);
    await client.close();
  });

  it.each([
    ['one of them twice', `${queueUrl},${queueUrl}`, 'expected each queue once, got one of them twice'],
    ['of both kinds', `${queueUrl},https://sqs.eu-central-1.amazonaws.com/1/d`, 'got some of both'],
    ['and something else', `${queueUrl},`, 'expected the URL of an SQS queue, https://…, got ""'],
  ])('are refused: %s', (_, requestQueueUrl, message) => {
    expect(() => new Batchscore({ requestQueueUrl })).toThrow(message);
  });
});
