import {
  ChangeMessageVisibilityBatchCommand,
  DeleteMessageBatchCommand,
  GetQueueAttributesCommand,
  type Message,
  ReceiveMessageCommand,
  SendMessageBatchCommand,
  SendMessageCommand,
} from '@aws-sdk/client-sqs';
import { afterEach, describe, expect, it } from '@jest/globals';
import { CLIENT_PATIENCE } from '../../lambda/aws/awsClients.ts';
import { useSqsServer } from '../helpers/awsServers.ts';
import { until } from '../helpers/hosts.ts';
import { FAULTS, nameOf, redrivePolicy, type StrictSqs, startStrictSqs } from '../helpers/strictSqs.ts';

let sqs: StrictSqs;
const server = useSqsServer(async () => {
  sqs = await startStrictSqs();
  return sqs;
});

afterEach(() => sqs.intercept());

/** A long poll that is open. */
async function poll(QueueUrl: string, abortSignal?: AbortSignal, WaitTimeSeconds = 20) {
  const before = sqs.openPolls(nameOf(QueueUrl));
  const input = { QueueUrl, WaitTimeSeconds, MaxNumberOfMessages: 10, MessageAttributeNames: ['All'] };
  const answer = server.client(undefined, CLIENT_PATIENCE).send(new ReceiveMessageCommand(input), { abortSignal });
  const messages = answer.then(({ Messages = [] }) => Messages);
  messages.catch(() => {});
  await until(() => sqs.openPolls(nameOf(QueueUrl)) > before);
  return { messages };
}

function bodies(messages: readonly Message[]): (string | undefined)[] {
  return messages.map(({ Body }) => Body);
}

describe('the strict SQS server', () => {
  it('hands a message to the poll that has waited longest, and leaves the others open', async () => {
    const QueueUrl = server.queue();
    const [first, second, third] = [await poll(QueueUrl), await poll(QueueUrl), await poll(QueueUrl)];
    const Entries = ['a', 'b'].map((MessageBody, index) => ({ Id: String(index), MessageBody }));
    await server.client().send(new SendMessageBatchCommand({ QueueUrl, Entries }));

    expect([bodies(await first.messages), bodies(await second.messages)]).toEqual([['a'], ['b']]);
    expect(sqs.openPolls(nameOf(QueueUrl))).toBe(1);
    server.deleteQueue(QueueUrl);
    await expect(third.messages).rejects.toMatchObject({ name: 'QueueDoesNotExist' });
  });

  it('hands messages to polls whose client has gone, too: they are received, and hidden', async () => {
    const QueueUrl = server.queue();
    const aborted = new AbortController();
    const gone = await poll(QueueUrl, aborted.signal);
    aborted.abort();
    await expect(gone.messages).rejects.toMatchObject({ name: 'AbortError' });
    server.send(QueueUrl, ['lost', 'next']);

    expect(bodies(await server.receive(QueueUrl))).toEqual(['next']);
    expect(server.counts(QueueUrl)).toEqual({ inFlight: 2, ready: 0 });
    expect(sqs.history(nameOf(QueueUrl))[0]).toMatchObject({ receives: 1, fate: 'in flight' });
  });

  it('answers a poll with nothing when its time is over', async () => {
    const QueueUrl = server.queue();
    expect(await (await poll(QueueUrl, undefined, 1)).messages).toEqual([]);
  });

  it('shows a message again at once, or when its visibility ends, and buries it beyond the receives it may have', async () => {
    const dead = server.queue();
    const QueueUrl = server.queue({ RedrivePolicy: redrivePolicy(dead, 2) });
    const MessageAttributes = { kind: { DataType: 'String', StringValue: 'one' } };
    await server.client().send(new SendMessageCommand({ QueueUrl, MessageBody: 'a', MessageAttributes }));
    const [first] = await server.receive(QueueUrl);
    expect(first).toMatchObject({ MessageAttributes, Attributes: { ApproximateReceiveCount: '1' } });
    const Entries = [{ Id: '0', ReceiptHandle: first?.ReceiptHandle, VisibilityTimeout: 0 }];
    const change = new ChangeMessageVisibilityBatchCommand({ QueueUrl, Entries });
    expect(await server.client().send(change)).toMatchObject({ Successful: [{ Id: '0' }], Failed: [] });
    const [second] = await server.receive(QueueUrl, { visibilitySeconds: 1 });
    expect(second?.Attributes).toMatchObject({ ApproximateReceiveCount: '2' });

    // The first handle is void.
    const stale = [{ Id: '0', ReceiptHandle: first?.ReceiptHandle }];
    await server.client().send(new DeleteMessageBatchCommand({ QueueUrl, Entries: stale }));
    const { Failed } = await server.client().send(change);
    expect(Failed).toMatchObject([{ Code: 'MessageNotInflight', SenderFault: true }]);

    expect(bodies(await server.receive(dead, { waitSeconds: 0 }))).toEqual([]);
    await until(() => server.counts(QueueUrl).ready === 1);
    expect(await server.receive(QueueUrl)).toEqual([]);
    expect(bodies(await server.receive(dead))).toEqual(['a']);
    expect(sqs.history(nameOf(QueueUrl))).toMatchObject([{ body: 'a', receives: 2, fate: 'dead' }]);
  });

  it('holds a message group back while one of it is in flight', async () => {
    const QueueUrl = server.fifoQueue();
    server.send(QueueUrl, ['a1', 'b1', 'a2'], (index) => (index === 1 ? 'b' : 'a'));
    const [one] = await server.receive(QueueUrl);
    expect(one?.Attributes).toMatchObject({ MessageGroupId: 'a' });
    server.send(QueueUrl, ['a3', 'c1'], (index) => (index === 0 ? 'a' : 'c'));
    const waits = server.client().send(new ReceiveMessageCommand({ QueueUrl, MaxNumberOfMessages: 10 }));

    expect(bodies((await waits).Messages ?? [])).toEqual(['c1']);
  });

  it('counts, deletes, and refuses what SQS refuses', async () => {
    const QueueUrl = server.queue({ VisibilityTimeout: '7' });
    server.send(QueueUrl, ['a', 'b']);
    const [a] = await server.receive(QueueUrl);
    const Entries = [{ Id: '0', ReceiptHandle: a?.ReceiptHandle }];
    await server.client().send(new DeleteMessageBatchCommand({ QueueUrl, Entries }));
    const AttributeNames = ['All' as const];
    const { Attributes } = await server.client().send(new GetQueueAttributesCommand({ QueueUrl, AttributeNames }));

    expect(Attributes).toMatchObject({ VisibilityTimeout: '7', ApproximateNumberOfMessagesNotVisible: '1' });
    const many = Array.from({ length: 11 }, (_, index) => ({ Id: String(index), MessageBody: 'c' }));
    const tooMany = server.client().send(new SendMessageBatchCommand({ QueueUrl, Entries: many }));
    await expect(tooMany).rejects.toMatchObject({ name: 'InvalidParameterValue', $fault: 'client' });
  });

  it('fails calls as it is told, before or after their effect', async () => {
    const QueueUrl = server.queue();
    const send = () => server.client().send(new SendMessageCommand({ QueueUrl, MessageBody: 'a' }));
    sqs.intercept(({ queue }) => (queue === nameOf(QueueUrl) ? FAULTS.denied : undefined));
    await expect(send()).rejects.toMatchObject({ name: 'AccessDeniedException' });
    sqs.intercept(() => 'cut before');
    await expect(send()).rejects.toThrow();
    expect(server.counts(QueueUrl)).toEqual({ inFlight: 0, ready: 0 });
    sqs.intercept(({ operation }) => (operation === 'SendMessage' ? 'cut after' : undefined));
    await expect(send()).rejects.toThrow();
    expect(server.counts(QueueUrl)).toEqual({ inFlight: 0, ready: 1 });
    sqs.intercept(async () => {
      sqs.intercept();
      return FAULTS.missing;
    });
    await expect(send()).rejects.toMatchObject({ name: 'QueueDoesNotExist' });
    await send();
  });
});
