import {
  ChangeMessageVisibilityBatchCommand,
  DeleteMessageBatchCommand,
  type Message,
  ReceiveMessageCommand,
  SendMessageBatchCommand,
  type SendMessageBatchRequestEntry,
} from '@aws-sdk/client-sqs';
import { afterEach, describe, expect, it } from '@jest/globals';
import { useSqsServer } from '../helpers/awsServers.ts';
import { deployment, lookup, until } from '../helpers/hosts.ts';
import { nameOf, redrivePolicy, type StrictSqs, startStrictSqs } from '../helpers/strictSqs.ts';

let sqs: StrictSqs;
const server = useSqsServer(async () => {
  sqs = await startStrictSqs();
  return sqs;
});
afterEach(() => sqs.intercept());
const MAX_IN_FLIGHT = 15;
const crowded = useSqsServer(() => startStrictSqs(1000, { maxInFlight: MAX_IN_FLIGHT }));

const bodies = (messages: readonly Message[]) => messages.map(({ Body }) => Body).toSorted();
const entry = (Id: string, more: object = {}): SendMessageBatchRequestEntry => ({ Id, MessageBody: 'a', ...more });
const send = (QueueUrl: string, Entries: SendMessageBatchRequestEntry[]) =>
  server.client().send(new SendMessageBatchCommand({ QueueUrl, Entries }));
const handles = (messages: readonly Message[]) =>
  messages.map(({ ReceiptHandle }, id) => ({ Id: String(id), ReceiptHandle }));
const text = (StringValue: string) => ({ DataType: 'String', StringValue });

describe('the strict SQS server', () => {
  it.each<[what: string, entries: SendMessageBatchRequestEntry[], name: string]>([
    ['no entry', [], 'EmptyBatchRequest'],
    ['eleven', Array.from({ length: 11 }, (_, id) => entry(String(id))), 'TooManyEntriesInBatchRequest'],
    ['two with one ID', [entry('a'), entry('a')], 'BatchEntryIdsNotDistinct'],
    ['an ID with a dot', [entry('a.b')], 'InvalidBatchEntryId'],
    [
      'a byte more than 1 MiB',
      [entry('a', { MessageBody: 'a'.repeat(1_048_575) }), entry('b', { MessageBody: 'é' })],
      'BatchRequestTooLong',
    ],
  ])('refuses a call of %s', async (_, entries, name) => {
    await expect(send(server.queue(), entries)).rejects.toMatchObject({ name });
  });

  it.each<[what: string, more: object, code: string]>([
    ['a character that SQS does not take', { MessageBody: 'a\u0000' }, 'InvalidMessageContents'],
    ['one in an attribute', { MessageAttributes: { a: text('\uFFFF') } }, 'InvalidMessageContents'],
    ['more bytes than the queue takes', { MessageBody: 'a'.repeat(1_025) }, 'InvalidParameterValue'],
    ['as many with its attributes', { MessageAttributes: { a: text('a'.repeat(1_017)) } }, 'InvalidParameterValue'],
    ['an attribute without a value', { MessageAttributes: { a: text('') } }, 'InvalidParameterValue'],
    [
      'a number that is none',
      { MessageAttributes: { a: { DataType: 'Number', StringValue: 'a' } } },
      'InvalidParameterValue',
    ],
    ['an attribute of AWS', { MessageAttributes: { 'AWS.a': text('a') } }, 'InvalidParameterValue'],
    ['a deduplication ID on a standard queue', { MessageDeduplicationId: 'a' }, 'InvalidParameterValue'],
  ])('refuses a message with %s, and takes the others of the call', async (_, more, Code) => {
    const { Successful, Failed } = await send(server.queue({ MaximumMessageSize: '1024' }), [
      entry('a', more),
      entry('b'),
    ]);
    expect(Failed).toMatchObject([{ Id: 'a', Code, SenderFault: true }]);
    expect(Successful).toMatchObject([{ Id: 'b' }]);
  });

  it('wants a group and a deduplication ID on a FIFO queue, and takes a message once in five minutes', async () => {
    const QueueUrl = server.fifoQueue();
    const both = { MessageGroupId: 'a', MessageDeduplicationId: 'a' };
    const entries = [entry('0', { MessageGroupId: 'a' }), entry('1', { MessageDeduplicationId: 'b' })];
    const { Failed } = await send(QueueUrl, entries);
    expect(Failed).toMatchObject([{ Code: 'InvalidParameterValue' }, { Code: 'MissingParameter' }]);
    const { Successful = [] } = await send(QueueUrl, [entry('a', both), entry('b', both)]);
    expect(Successful[0]?.MessageId).toBe(Successful[1]?.MessageId);
    expect(await server.receive(QueueUrl)).toHaveLength(1);
  });

  it('counts receives, voids old handles and buries a message beyond the receives it may have', async () => {
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

  it('hides no message for more than twelve hours after its receive', async () => {
    const QueueUrl = server.queue();
    server.send(QueueUrl, ['a']);
    const [first] = await server.receive(QueueUrl);
    const Entries = [{ Id: '0', ReceiptHandle: first?.ReceiptHandle, VisibilityTimeout: 43_200 }];
    const change = new ChangeMessageVisibilityBatchCommand({ QueueUrl, Entries });
    expect(await server.client().send(change)).toMatchObject({ Failed: [{ Code: 'InvalidParameterValue' }] });
  });

  it('holds a message group back while one of it is in flight, and refuses a handle that has expired', async () => {
    const QueueUrl = server.fifoQueue();
    server.send(QueueUrl, ['a1'], () => 'a');
    const Entries = handles(await server.receive(QueueUrl, { visibilitySeconds: 1 }));
    server.send(QueueUrl, ['a2', 'b1'], (index) => (index === 0 ? 'a' : 'b'));
    expect(bodies(await server.receive(QueueUrl))).toEqual(['b1']);
    await until(() => server.counts(QueueUrl).ready === 2);
    const deleted = await server.client().send(new DeleteMessageBatchCommand({ QueueUrl, Entries }));
    expect(deleted).toMatchObject({ Successful: [], Failed: [{ Code: 'InvalidParameterValue' }] });
    expect(bodies(await server.receive(QueueUrl))).toEqual(['a1', 'a2']);
  });

  it('gives a standard queue’s messages in another order and at times a part of them, but all', async () => {
    const QueueUrl = server.queue();
    const sent = Array.from({ length: 100 }, (_, index) => String(index + 100));
    server.send(QueueUrl, sent);
    const receives: string[][] = [];
    while (server.counts(QueueUrl).ready > 0) {
      receives.push((await server.receive(QueueUrl)).map(({ Body = '' }) => Body));
    }
    expect(receives.flat()).not.toEqual(sent);
    expect(receives.flat().toSorted()).toEqual(sent);
    expect(new Set(receives.map(({ length }) => length)).size).toBeGreaterThan(1);
  });

  it.each([0, 1])('keeps both handles of a duplicate alive: the %i. deletes it', async (by) => {
    const QueueUrl = server.queue();
    server.send(QueueUrl, ['a']);
    sqs.intercept(() => 'duplicates');
    const first = await server.receive(QueueUrl);
    sqs.intercept();
    const both = [...first, ...(await server.receive(QueueUrl))];
    expect(bodies(both)).toEqual(['a', 'a']);
    const Entries = handles(both).slice(by, by + 1);
    await server.client().send(new DeleteMessageBatchCommand({ QueueUrl, Entries }));
    expect(server.counts(QueueUrl)).toEqual({ ready: 0, inFlight: 0 });
  });

  it('refuses a short poll while as many messages are in flight as may be', async () => {
    const QueueUrl = crowded.queue();
    crowded.send(QueueUrl, Array(MAX_IN_FLIGHT + 1).fill('a'));
    const receive = new ReceiveMessageCommand({ QueueUrl, MaxNumberOfMessages: 10 });
    while (crowded.counts(QueueUrl).inFlight < MAX_IN_FLIGHT) await crowded.client().send(receive);
    await expect(crowded.client().send(receive)).rejects.toMatchObject({ name: 'OverLimit' });
  });
});

it('a worker answers each message once on a queue that is full of messages in flight', async () => {
  const { requestQueueUrl, start, results } = await deployment(crowded);
  const worker = start();
  await worker.says('the worker is ready');
  crowded.send(
    requestQueueUrl,
    Array.from({ length: 100 }, (_, index) => lookup(index)),
  );
  const answers = await results(100);
  expect(new Set(answers.map(({ message_id }) => message_id)).size).toBe(100);
  expect(answers).toHaveLength(100);
  worker.send('SIGTERM');
  expect(await worker.ended).toMatchObject({ code: 0 });
});
