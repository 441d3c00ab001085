import { describe, expect, it } from '@jest/globals';
import { createManualClock } from '../../../../helpers/manualClock.ts';
import { numbered, sizes, stack, untilHidden } from './setup.ts';

describe('updating', () => {
  it('hands over what it has gathered, and gathers by the new size and window from then on', async () => {
    const local = await stack();
    await local.send(numbered(5));
    const { mapping, reports } = local.map({ batchSize: 100, windowSeconds: 300, maximumConcurrency: 1 });
    await untilHidden(local, 5);

    mapping.update({ batchSize: 3, windowSeconds: 0 });
    await reports.reaching(1);
    await local.send(numbered(6));
    await reports.until((all) => all.reduce((sum, { records }) => sum + records, 0) === 11);

    expect(sizes(reports.entries)[0]).toEqual([5, 'update']);
    for (const [records] of sizes(reports.entries).slice(1)) expect(records).toBeLessThanOrEqual(3);
    expect(await local.counts()).toEqual({ visible: 0, hidden: 0 });
  });

  it('waits as long as the new window says', async () => {
    const clock = createManualClock();
    const { send, map } = await stack();
    const { mapping, reports } = map({ batchSize: 10, windowSeconds: 0, clock, maximumConcurrency: 1 });

    mapping.update({ batchSize: 500, windowSeconds: 7 });
    await send(numbered(20));
    await clock.untilWaitedFor(7000);
    clock.advance(7000);
    await reports.reaching(1);

    expect(reports.entries[0]?.closedBecause).toBe('window');
  });

  it('refuses what AWS refuses, and goes on as before', async () => {
    const { send, map } = await stack();
    const { mapping, reports } = map({ batchSize: 4, windowSeconds: 0, maximumConcurrency: 1 });

    expect(() => mapping.update({ batchSize: 11, windowSeconds: 0 })).toThrow(
      'expected at least 1 with a batchSize above 10',
    );
    expect(() => mapping.update({ batchSize: 4, windowSeconds: 301 })).toThrow('from 0 to 300');
    await send(numbered(4));
    await reports.reaching(1);

    expect(sizes(reports.entries)[0]).toEqual([4, 'full']);
  });

  it('loses nothing of what the polls bring that are under way', async () => {
    const local = await stack();
    await local.send(numbered(200));
    const { mapping, reports } = local.map({ batchSize: 50, windowSeconds: 1 });

    for (const batchSize of [1, 2, 30, 10]) {
      mapping.update({ batchSize, windowSeconds: 1 });
      await local.send(numbered(50));
    }
    await reports.until((all) => all.reduce((sum, { records }) => sum + records, 0) === 400);
    await mapping.stop();

    expect(await local.counts()).toEqual({ visible: 0, hidden: 0 });
  });
});
