import { describe, expect, it } from '@jest/globals';
import { IN_TIME, useDeployments } from '../../helpers/deployment.ts';
import { allOf, lineAnswer, lineOf, lines } from './requests.ts';

const deployments = useDeployments();
const { sqs } = deployments;

describe.each(['standard', 'fifo'] as const)('clients with a result queue each, on %s queues,', (kind) => {
  it.each([1, 3])('get their own results there and no others: %d requests a message', async (requestsPerMessage) => {
    const packing = { results: requestsPerMessage, bytes: 65_536 };
    const deployment = await deployments.create('queue', kind, packing);
    const { client, answer, resultQueueUrl, clientQueueUrls } = deployment;
    const queues = [resultQueueUrl, ...clientQueueUrls];
    const clients = queues.map((queueUrl) => client({ resultQueueUrl: queueUrl, requestsPerMessage }));
    const requests = lines(9).map((request) => ({ ...request, group: 'g' }));
    const ids = await Promise.all(clients.map((one) => one.submit(requests)));
    await answer((3 * 9) / requestsPerMessage);
    for (const [index, one] of clients.entries()) {
      const results = await allOf(one.collect(ids[index] ?? [], IN_TIME));
      expect(results.map((result) => 'outputs' in result && result.outputs)).toEqual(
        expect.arrayContaining(requests.map((_, value) => lineAnswer(value))),
      );
    }
    for (const queueUrl of queues) expect(sqs.counts(queueUrl)).toEqual({ inFlight: 0, ready: 0 });
  });
});

describe('a request whose result queue the deployment does not have', () => {
  it('has its result on the first', async () => {
    const { client, answer, resultQueueUrl } = await deployments.create('queue');
    const [id = ''] = await client({ resultQueueUrl: sqs.queue() }).submit([lineOf(1)]);
    await answer(1);
    await expect(allOf(client({ resultQueueUrl }).collect([id], IN_TIME))).resolves.toHaveLength(1);
  });
});
