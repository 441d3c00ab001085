import { describe, expect, it } from '@jest/globals';
import { createManualClock } from '../../../../helpers/manualClock.ts';
import { numbered, recordsOf, sizes, stack, total, untilHidden } from './setup.ts';

describe('batches', () => {
  it('fills batches to their size, and invokes with the rest when the window ends', async () => {
    const clock = createManualClock();
    const { send, counts, map } = await stack();
    await send(numbered(60));

    const { events, reports } = map({ batchSize: 25, windowSeconds: 1, clock, maximumConcurrency: 1 });
    await reports.reaching(2);
    await clock.untilWaitedFor(1000);
    clock.advance(1000);
    await reports.reaching(3);

    expect(sizes(reports.entries)).toEqual([
      [25, 'full'],
      [25, 'full'],
      [10, 'window'],
    ]);
    expect(new Set(recordsOf(events.entries).map(({ body }) => body))).toEqual(new Set(numbered(60)));
    expect(await counts()).toEqual({ visible: 0, hidden: 0 });
  });

  it('are gathered by each invocation on its own, as many as may run at once', async () => {
    const clock = createManualClock();
    const { send, map } = await stack();
    await send(numbered(20));

    const { reports } = map({ batchSize: 25, windowSeconds: 1, clock, maximumConcurrency: 2 });
    await clock.untilWaitedFor(1000, 2);
    clock.advance(1000);
    await reports.reaching(2);

    expect(sizes(reports.entries)).toEqual([
      [10, 'window'],
      [10, 'window'],
    ]);
  });

  it('take what comes one by one in turn', async () => {
    const clock = createManualClock();
    const { send, map } = await stack();
    const { reports } = map({ batchSize: 25, windowSeconds: 1, clock, maximumConcurrency: 2 });

    await send(['first']);
    await clock.untilWaitedFor(1000, 1);
    await send(['second']);
    await clock.untilWaitedFor(1000, 2);
    clock.advance(1000);
    await reports.reaching(2);

    expect(sizes(reports.entries)).toEqual([
      [1, 'window'],
      [1, 'window'],
    ]);
  });

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

  it('keeps a lone message no longer than the window', async () => {
    const clock = createManualClock();
    const { send, counts, map } = await stack();
    const invokedAt: number[] = [];
    const { reports } = map({
      batchSize: 100,
      windowSeconds: 1,
      clock,
      invoke: async () => void invokedAt.push(clock.now()),
    });

    await send(['alone']);
    await clock.untilWaitedFor(1000);
    clock.advance(999);
    expect(await counts()).toEqual({ visible: 0, hidden: 1 });
    clock.advance(1);
    await reports.reaching(1);

    expect(invokedAt).toEqual([1000]);
  });

  it('splits what would overflow 6 MB', async () => {
    const local = await stack();
    for (let index = 0; index < 8; index += 1) await local.send([String(index).repeat(1_000_000)]);

    const { mapping, events, reports } = local.map({ batchSize: 100, windowSeconds: 300 });
    await reports.reaching(1);
    await untilHidden(local, 2);
    await mapping.stop();

    expect(sizes(reports.entries)).toEqual([
      [6, 'bytes'],
      [2, 'stop'],
    ]);
    expect(new Set(recordsOf(events.entries).map(({ body }) => body[0])).size).toBe(8);
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

it('a size and a window that AWS refuses are refused, both in one error', async () => {
  const { map } = await stack();
  expect(() => map({ batchSize: 0, windowSeconds: 301 })).toThrow(/batchSize: .* got 0; .*windowSeconds: .* got 301/);
  expect(() => map({ queueArn: 'arn:aws:sqs:us-east-1:000000000000:requests.fifo', batchSize: 11 })).toThrow(
    /at most 10 on a FIFO queue, got 11/,
  );
});
