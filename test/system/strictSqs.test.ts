import { ChangeMessageVisibilityBatchCommand, type Message } from '@aws-sdk/client-sqs';
import { expect, it } from '@jest/globals';
import { useSqsServer } from '../helpers/awsServers.ts';
import { until } from '../helpers/hosts.ts';
import { nameOf, redrivePolicy, type StrictSqs, startStrictSqs } from '../helpers/strictSqs.ts';

let sqs: StrictSqs;
const server = useSqsServer(async () => {
  sqs = await startStrictSqs();
  return sqs;
});
const bodies = (messages: readonly Message[]) => messages.map(({ Body }) => Body);

it('the strict SQS server counts receives, voids old handles and buries a message beyond the receives it may have', async () => {
  const dead = server.queue();
  const QueueUrl = server.queue({ RedrivePolicy: redrivePolicy(dead, 2) });
  server.send(QueueUrl, ['a']);
  const [first] = await server.receive(QueueUrl);
  const Entries = [{ Id: '0', ReceiptHandle: first?.ReceiptHandle, VisibilityTimeout: 0 }];
  const change = new ChangeMessageVisibilityBatchCommand({ QueueUrl, Entries });
  expect(await server.client().send(change)).toMatchObject({ Successful: [{ Id: '0' }], Failed: [] });
  const [second] = await server.receive(QueueUrl, { visibilitySeconds: 1 });
  expect(second?.Attributes).toMatchObject({ ApproximateReceiveCount: '2' });
  expect(await server.client().send(change)).toMatchObject({ Failed: [{ Code: 'MessageNotInflight' }] });
  await until(() => server.counts(QueueUrl).ready === 1);
  expect(await server.receive(QueueUrl)).toEqual([]);
  expect(bodies(await server.receive(dead))).toEqual(['a']);
  expect(sqs.history(nameOf(QueueUrl))).toMatchObject([{ body: 'a', receives: 2, fate: 'dead' }]);
});

it('the strict SQS server holds a message group back while one of it is in flight', async () => {
  const QueueUrl = server.fifoQueue();
  server.send(QueueUrl, ['a1'], () => 'a');
  await server.receive(QueueUrl);
  server.send(QueueUrl, ['a2', 'b1'], (index) => (index === 0 ? 'a' : 'b'));
  expect(bodies(await server.receive(QueueUrl))).toEqual(['b1']);
});
