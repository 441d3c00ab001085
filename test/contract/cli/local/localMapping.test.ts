import {
  GetQueueAttributesCommand,
  ReceiveMessageCommand,
  SendMessageBatchCommand,
  type SendMessageBatchRequestEntry,
  type SQSClient,
} from '@aws-sdk/client-sqs';
import { afterEach, describe, expect, it } from '@jest/globals';
import type { SQSEvent, SQSRecord } from 'aws-lambda';
import {
  type EventSourceMappingOptions,
  type InvocationReport,
  startEventSourceMapping,
} from '../../../../cli/local/localMapping.ts';
import { type LocalQueues, localSqsClient, startLocalQueues } from '../../../../cli/local/localServices.ts';
import { createManualClock } from '../../../helpers/manualClock.ts';

const cleanups: (() => Promise<void>)[] = [];

afterEach(async () => {
  // At once, so that the server's end wakes the long polls that the mappings wait for.
  await Promise.all(cleanups.splice(0).map((cleanup) => cleanup()));
});

describe('batches', () => {
  it('invokes with what one poll returned when there is no window', async () => {
    const { send, map } = await stack();
    await send(numbered(7));

    const { reports } = map({ batchSize: 4, maximumConcurrency: 1 });
    await reports.reaching(2);

    expect(sizes(reports.entries)).toEqual([
      [4, 'full'],
      [3, 'poll'],
    ]);
  });
});

describe('invocations', () => {
  it('never runs more than maximumConcurrency invocations at once, and uses them all', async () => {
    const { send, map } = await stack();
    await send(numbered(12));
    let running = 0;
    let max = 0;
    const bothRun = Promise.withResolvers<void>();

    const { reports } = map({
      batchSize: 2,
      maximumConcurrency: 2,
      invoke: async () => {
        running += 1;
        max = Math.max(max, running);
        if (running === 2) bothRun.resolve();
        await bothRun.promise;
        await new Promise(setImmediate);
        running -= 1;
      },
    });
    await reports.until((entries) => total(entries) === 12);

    expect(max).toBe(2);
  });

  it('leaves in the queue what it cannot invoke with soon', async () => {
    const local = await stack();
    await local.send(numbered(200));
    const release = Promise.withResolvers<void>();

    const { reports } = local.map({ batchSize: 10, maximumConcurrency: 1, invoke: () => release.promise });
    await untilHidden(local, 10);
    let maxHidden = 0;
    for (let look = 0; look < 50; look += 1) maxHidden = Math.max(maxHidden, (await local.counts()).hidden);
    release.resolve();
    await reports.until((entries) => total(entries) === 200);

    expect(maxHidden).toBeLessThanOrEqual(20);
  });
});

describe('stopping', () => {
  it('invokes with what it has gathered when it is stopped, and waits for the acknowledgement', async () => {
    const local = await stack();
    await local.send(numbered(5));
    const { mapping, reports } = local.map({ batchSize: 100, windowSeconds: 300 });
    await untilHidden(local, 5);

    await mapping.stop();

    expect(sizes(reports.entries)).toEqual([[5, 'stop']]);
    expect(await local.counts()).toEqual({ visible: 0, hidden: 0 });
  });

  it('waits for the running invocations when it is stopped', async () => {
    const { send, counts, map } = await stack();
    await send(['slow']);
    const release = Promise.withResolvers<void>();
    const { mapping, events, reports } = map({ invoke: () => release.promise });
    await events.reaching(1);

    const stopped = mapping.stop();
    const again = mapping.stop();
    expect(reports.entries).toEqual([]);
    release.resolve();
    await Promise.all([stopped, again]);

    expect(reports.entries).toMatchObject([{ records: 1, failed: 0 }]);
    expect(await counts()).toEqual({ visible: 0, hidden: 0 });
  });

  it('takes nothing from the queue once it is stopped', async () => {
    const { queues, sqs, send, map } = await stack();
    const { mapping, events } = map();
    await send(['before']);
    await events.reaching(1);

    await mapping.stop();
    await send(['after']);
    const { Messages } = await sqs.send(new ReceiveMessageCommand({ QueueUrl: queues.requestQueueUrl }));

    expect(Messages).toMatchObject([{ Body: 'after' }]);
    expect(events.entries).toHaveLength(1);
  });

  it('reports that the server is gone, and still stops', async () => {
    const { queues, map } = await stack();
    const { mapping, errors } = map();

    await queues.stop();
    const [error] = await errors.reaching(1);
    await mapping.stop();

    expect(error?.message).toMatch(/^could not receive from http:\/\/127\.0\.0\.1:\d+.*: .+/);
    expect(errors.entries.length).toBeLessThanOrEqual(2);
  });
});

describe('events', () => {
  it('hands over the event that Lambda would, with every attribute', async () => {
    const { send, map } = await stack();
    await send([
      {
        MessageBody: '{"instances":[[1]]}',
        MessageAttributes: {
          tenant: { DataType: 'String', StringValue: 'é' },
          size: { DataType: 'Number', StringValue: '12' },
          raw: { DataType: 'Binary', BinaryValue: new Uint8Array([0, 255, 16]) },
        },
      },
      'plain',
    ]);

    const { events } = map();
    const [event] = await events.reaching(1);

    const common = {
      messageId: expect.stringMatching(/^[0-9a-f-]{36}$/),
      receiptHandle: expect.any(String),
      attributes: {
        ApproximateReceiveCount: '1',
        SentTimestamp: expect.stringMatching(/^\d{13}$/),
        SenderId: expect.any(String),
        ApproximateFirstReceiveTimestamp: expect.stringMatching(/^\d{13}$/),
      },
      md5OfBody: expect.stringMatching(/^[0-9a-f]{32}$/),
      eventSource: 'aws:sqs',
      eventSourceARN: 'arn:aws:sqs:us-east-1:000000000000:batchscore-requests',
      awsRegion: 'us-east-1',
    };
    expect(JSON.parse(JSON.stringify(event))).toStrictEqual(event);
    expect(event).toEqual({
      Records: [
        {
          ...common,
          body: '{"instances":[[1]]}',
          messageAttributes: {
            tenant: { stringValue: 'é', stringListValues: [], binaryListValues: [], dataType: 'String' },
            size: { stringValue: '12', stringListValues: [], binaryListValues: [], dataType: 'Number' },
            raw: { binaryValue: 'AP8Q', stringListValues: [], binaryListValues: [], dataType: 'Binary' },
          },
          md5OfMessageAttributes: expect.stringMatching(/^[0-9a-f]{32}$/),
        },
        { ...common, body: 'plain', messageAttributes: {} },
      ],
    });
  });
});

describe('acknowledging', () => {
  it('deletes what succeeded, and redelivers what failed when its visibility ends', async () => {
    const { send, counts, map } = await stack({ visibilityTimeoutSeconds: 1 });
    await send(['good', 'bad', 'fine']);
    const failFirstBad = ({ Records }: SQSEvent) =>
      Records.filter(({ body, attributes }) => body === 'bad' && attributes.ApproximateReceiveCount === '1');

    const { events, reports, errors } = map({
      invoke: async (event) => ({
        batchItemFailures: failFirstBad(event).map(({ messageId }) => ({ itemIdentifier: messageId })),
      }),
    });
    await reports.reaching(2);

    expect(reports.entries).toMatchObject([
      { records: 3, failed: 1 },
      { records: 1, failed: 0 },
    ]);
    expect(recordsOf(events.entries).map(({ body, attributes }) => [body, attributes.ApproximateReceiveCount])).toEqual(
      [
        ['good', '1'],
        ['bad', '1'],
        ['fine', '1'],
        ['bad', '2'],
      ],
    );
    expect(await counts()).toEqual({ visible: 0, hidden: 0 });
    expect(errors.entries).toEqual([]);
  });

  it('reports each message that SQS refuses to delete', async () => {
    const { sqs, send, map } = await stack();
    sqs.middlewareStack.add(
      (next, { commandName }) =>
        async (args) => {
          const answer = await next(args);
          if (commandName !== 'DeleteMessageBatchCommand') return answer;
          const Failed = [{ Id: '0', Code: 'ReceiptHandleIsInvalid', Message: 'It has expired.', SenderFault: true }];
          return { ...answer, output: { ...answer.output, Failed } };
        },
      { step: 'initialize' },
    );
    await send(['stale']);

    const { errors } = map();
    const [error] = await errors.reaching(1);

    expect(error?.message).toMatch(/could not delete .*ReceiptHandleIsInvalid: It has expired\./);
  });
});

describe('redelivery', () => {
  it('redelivers the whole batch when the invocation outlives its timeout', async () => {
    const clock = createManualClock();
    const { send, counts, map } = await stack({ visibilityTimeoutSeconds: 1 });
    await send(['slow']);
    const never = new Promise<void>(() => {});

    const { events, reports, errors } = map({
      functionTimeoutSeconds: 3,
      clock,
      invoke: ({ Records }) => (Records[0]?.attributes.ApproximateReceiveCount === '1' ? never : Promise.resolve()),
    });
    await clock.untilWaitedFor(3000);
    clock.advance(3000);
    await reports.until((entries) => entries.some(({ failed }) => failed === 0));

    expect(reports.entries.filter(({ failed }) => failed === 1)).toHaveLength(1);
    expect(errors.entries.map(({ message }) => message)).toEqual([
      expect.stringContaining("within the function's timeout of 3 s"),
    ]);
    expect(recordsOf(events.entries)).toHaveLength(2);
    expect(await counts()).toEqual({ visible: 0, hidden: 0 });
  });
});

type Messages = readonly (string | Omit<SendMessageBatchRequestEntry, 'Id'>)[];

async function stack({ visibilityTimeoutSeconds = 30, maxReceiveCount = 10 } = {}) {
  const queues = await startLocalQueues({ port: 0, visibilityTimeoutSeconds, maxReceiveCount });
  const sqs = localSqsClient(queues);
  cleanups.push(queues.stop);
  return {
    queues,
    sqs,
    send: (messages: Messages) => sendAll(sqs, queues.requestQueueUrl, messages),
    counts: () => countMessages(sqs, queues.requestQueueUrl),
    map: (options?: Partial<Omit<EventSourceMappingOptions, 'onError'>>) =>
      startMapped({ sqs, ...mappingDefaults(queues), ...options }),
  };
}

function mappingDefaults(queues: LocalQueues) {
  return {
    queueUrl: queues.requestQueueUrl,
    queueArn: queues.requestQueueArn,
    region: queues.region,
    batchSize: 10,
    windowSeconds: 0,
    maximumConcurrency: 2,
    functionTimeoutSeconds: 30,
    invoke: async () => {},
  };
}

function startMapped(options: Omit<EventSourceMappingOptions, 'onError'>) {
  const events = createLog<SQSEvent>();
  const reports = createLog<InvocationReport>();
  const errors = createLog<Error>();
  const mapping = startEventSourceMapping({
    ...options,
    invoke: (event, context) => {
      events.add(structuredClone(event));
      return options.invoke(event, context);
    },
    onInvocation: reports.add,
    onError: errors.add,
  });
  cleanups.push(mapping.stop);
  return { mapping, events, reports, errors };
}

function createLog<T>() {
  const entries: T[] = [];
  const watchers = new Set<() => void>();
  /** Resolves with the entries once `enough` holds of them. */
  const until = (enough: (entries: readonly T[]) => boolean) =>
    new Promise<T[]>((resolve) => {
      const watch = () => {
        if (!enough(entries)) return;
        watchers.delete(watch);
        resolve([...entries]);
      };
      watchers.add(watch);
      watch();
    });
  return {
    entries,
    add: (entry: T): void => {
      entries.push(entry);
      for (const watch of [...watchers]) watch();
    },
    until,
    reaching: (count: number) => until(({ length }) => length >= count),
  };
}

async function sendAll(sqs: SQSClient, QueueUrl: string, messages: Messages): Promise<void> {
  for (let start = 0; start < messages.length; start += 10) {
    const Entries = messages.slice(start, start + 10).map((message, index) => ({
      Id: String(index),
      ...(typeof message === 'string' ? { MessageBody: message } : message),
    }));
    const { Failed } = await sqs.send(new SendMessageBatchCommand({ QueueUrl, Entries }));
    expect(Failed ?? []).toEqual([]);
  }
}

async function countMessages(sqs: SQSClient, QueueUrl: string) {
  const { Attributes } = await sqs.send(new GetQueueAttributesCommand({ QueueUrl, AttributeNames: ['All'] }));
  return {
    visible: Number(Attributes?.ApproximateNumberOfMessages),
    hidden: Number(Attributes?.ApproximateNumberOfMessagesNotVisible),
  };
}

async function untilHidden(
  { counts }: Pick<Awaited<ReturnType<typeof stack>>, 'counts'>,
  hidden: number,
): Promise<void> {
  while ((await counts()).hidden < hidden);
}

function numbered(count: number): string[] {
  return Array.from({ length: count }, (_, index) => `message ${index}`);
}

function recordsOf(events: readonly SQSEvent[]): SQSRecord[] {
  return events.flatMap(({ Records }) => Records);
}

function total(reports: readonly InvocationReport[]): number {
  return reports.reduce((sum, { records }) => sum + records, 0);
}

function sizes(reports: readonly InvocationReport[]) {
  return reports.map(({ records, endedBecause }) => [records, endedBecause]);
}
