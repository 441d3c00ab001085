import { expect, it } from '@jest/globals';
import { ALIVE, IN_TIME, idsOf, resultOf, useDeployments } from '../../helpers/deployment.ts';
import { allOf } from './requests.ts';
import { useWarnings } from './warnings.ts';

const deployments = useDeployments();
const { sqs } = deployments;
const warnings = useWarnings();

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
