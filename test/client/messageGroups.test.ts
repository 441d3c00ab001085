import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, it } from '@jest/globals';
import { interceptSends } from '../helpers/sqsServer.ts';
import { useDeployments } from './deployment.ts';
import { lines } from './requests.ts';

const deployments = useDeployments();
const { sqs } = deployments;

describe('requests of a message group', () => {
  it('are on a FIFO queue in their order, however long each call takes and whatever `maxInFlight` says', async () => {
    const { client, requestQueueUrl } = await deployments.create('queue', 'fifo');
    const slow = sqs.client();
    let underWay = 0;
    let most = 0;
    interceptSends(slow, async (_, reach) => {
      most = Math.max(most, ++underWay);
      await nextTurn();
      const answer = await reach();
      underWay -= 1;
      return answer;
    });
    const requests = lines(35).map((request) => ({ ...request, group: 'one' }));

    await client({ sqs: slow, maxInFlight: 8 }).submit(requests);

    expect(most).toBe(1);
    const bodies = (await sqs.drain(requestQueueUrl)).map(({ Body = '' }) => JSON.parse(Body));
    expect(bodies.map(({ id }) => id)).toEqual(requests.map(({ id }) => id));
  });
});
