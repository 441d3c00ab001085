import { ReceiveMessageCommand } from '@aws-sdk/client-sqs';
import { describe, expect, it } from '@jest/globals';
import type { SQSEvent } from 'aws-lambda';
import { createManualClock } from '../../../../helpers/manualClock.ts';
import { recordsOf, stack, total } from './setup.ts';

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

  it('deletes what the handler answered, whatever it did to its event', async () => {
    const { send, counts, map } = await stack();
    await send(['a', 'b']);

    const { mapping, reports } = map({
      invoke: async (event) => {
        for (const record of event.Records) record.receiptHandle = 'gone';
        event.Records.length = 0;
      },
    });
    await reports.until((entries) => total(entries) === 2);
    await mapping.stop();

    expect(await counts()).toEqual({ visible: 0, hidden: 0 });
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
  it('lets the queue move a message that keeps failing to the dead-letter queue', async () => {
    const { queues, sqs, send, map } = await stack({ visibilityTimeoutSeconds: 1, maxReceiveCount: 2 });
    await send(['hopeless']);

    const { reports } = map({
      invoke: async ({ Records }) => ({
        batchItemFailures: Records.map(({ messageId }) => ({ itemIdentifier: messageId })),
      }),
    });
    const { Messages } = await sqs.send(
      new ReceiveMessageCommand({ QueueUrl: queues.deadLetterQueueUrl, WaitTimeSeconds: 20 }),
    );

    expect(Messages).toMatchObject([{ Body: 'hopeless' }]);
    expect(reports.entries).toMatchObject([{ failed: 1 }, { failed: 1 }]);
  });

  it('redelivers the whole batch when the handler throws', async () => {
    const { send, map } = await stack({ visibilityTimeoutSeconds: 1 });
    await send(['a', 'b']);

    const { events, reports, errors } = map({
      invoke: async ({ Records }) => {
        if (Records.some(({ attributes }) => attributes.ApproximateReceiveCount === '1')) throw new Error('no model');
      },
    });
    await reports.until((entries) => entries.some(({ failed }) => failed === 0) && total(entries) >= 4);

    expect(reports.entries[0]).toMatchObject({ records: 2, failed: 2 });
    expect(errors.entries.map(({ message }) => message)).toEqual([
      'a batch of 2 records failed and will be redelivered: no model',
    ]);
    expect(
      recordsOf(events.entries)
        .map(({ body, attributes }) => body + attributes.ApproximateReceiveCount)
        .sort(),
    ).toEqual(['a1', 'a2', 'b1', 'b2']);
  });

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
