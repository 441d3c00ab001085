import { describe, expect, it } from '@jest/globals';
import { createLimiter } from '../../../../lambda/core/concurrency.ts';
import { closedGate, whatCanHappen } from '../../../helpers/manualClock.ts';

describe('a limiter', () => {
  it('starts work in the order it came, so much at the same time and no more', async () => {
    const gates = Array.from({ length: 5 }, closedGate);
    const started: number[] = [];
    const limiter = createLimiter(2);
    for (const [index, gate] of gates.entries()) {
      limiter.add(() => {
        started.push(index);
        return gate.opened;
      });
    }
    expect(started).toEqual([0, 1]);
    gates[1]?.open();
    await whatCanHappen();
    expect(started).toEqual([0, 1, 2]);
    for (const gate of gates) gate.open();
    await limiter.drained();
    expect(started).toEqual([0, 1, 2, 3, 4]);
  });

  it('is drained when the last work is done, and can be used again', async () => {
    const limiter = createLimiter(1);
    await limiter.drained();
    for (const round of [1, 2]) {
      const gate = closedGate();
      const told: string[] = [];
      limiter.add(() => gate.opened);
      void limiter.drained().then(() => told.push(`drained ${round}`));
      await whatCanHappen();
      expect(told).toEqual([]);
      gate.open();
      await whatCanHappen();
      expect(told).toEqual([`drained ${round}`]);
    }
  });
});
