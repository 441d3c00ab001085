import { describe, expect, it } from '@jest/globals';
import { Batchscore } from '../../../client/index.ts';
import { useDeployments } from '../../helpers/deployment.ts';
import { idsOnQueue, lines } from './requests.ts';

const deployments = useDeployments();
const { sqs } = deployments;

describe('urgent requests', () => {
  it.each(['standard', 'fifo'] as const)(
    'go to the urgent queue, and others to the request queue: %s',
    async (kind) => {
      const { client } = await deployments.create('queue', kind);
      const [requestQueueUrl, urgentQueueUrl] = [1, 2].map(() => (kind === 'fifo' ? sqs.fifoQueue() : sqs.queue()));
      const requests = lines(40).map((line, index) => ({ ...line, group: 'customer', urgent: index % 4 === 0 }));

      const ids = await client({ requestQueueUrl, urgentQueueUrl, sqs: sqs.client() }).submit(requests);

      const on = async (queue = '') => [...(await idsOnQueue(sqs, queue)).keys()].toSorted();
      expect(await on(urgentQueueUrl)).toEqual(ids.filter((_, index) => index % 4 === 0).toSorted());
      expect(await on(requestQueueUrl)).toEqual(ids.filter((_, index) => index % 4 !== 0).toSorted());
    },
  );

  it('are refused without an urgent queue', async () => {
    const { client } = await deployments.create('queue');
    const [line] = lines(1);
    await expect(client({ requestQueueUrl: sqs.queue() }).submit([{ ...line, urgent: true } as never])).rejects.toThrow(
      'urgent: expected the option urgentQueueUrl, got none; set it',
    );
  });

  it('have a queue of the kind of the request queue', () => {
    const url = 'https://sqs.eu-central-1.amazonaws.com/1/a';
    expect(() => new Batchscore({ requestQueueUrl: url, urgentQueueUrl: `${url}.fifo` })).toThrow(
      'urgentQueueUrl: expected a queue of the kind of the request queue, FIFO or standard, got the other',
    );
  });
});

describe('the group of a request', () => {
  it('is the MessageGroupId of its message on a standard queue, where fair queues read it', async () => {
    const { client } = await deployments.create('queue');
    const own = sqs.client();
    const groups: unknown[] = [];
    own.middlewareStack.add(
      (next) => async (args) => {
        const { Entries = [] } = args.input as { Entries?: { MessageGroupId?: string }[] };
        groups.push(...Entries.map(({ MessageGroupId }) => MessageGroupId));
        return await next(args);
      },
      { step: 'initialize' },
    );
    const requests = lines(4).map((line, index) => ({ ...line, group: `tenant-${index % 2}` }));

    await client({ requestQueueUrl: sqs.queue(), sqs: own, requestsPerMessage: 10 }).submit(requests);

    expect(groups.toSorted()).toEqual(['tenant-0', 'tenant-1']);
  });
});
