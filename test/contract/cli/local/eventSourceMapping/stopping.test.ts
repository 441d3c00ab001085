import { ReceiveMessageCommand } from '@aws-sdk/client-sqs';
import { describe, expect, it } from '@jest/globals';
import { numbered, sizes, stack, untilHidden } from './setup.ts';

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
