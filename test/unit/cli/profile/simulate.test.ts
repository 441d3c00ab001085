import { describe, expect, it } from '@jest/globals';
import { type Course, simulateMapping } from '../../../../cli/profile/simulate.ts';

const sizesOf = ({ sizes }: Course): Record<string, number> => Object.fromEntries(sizes);

describe('simulateMapping', () => {
  it('leaves messages waiting while all invocations run, and hands those over together', () => {
    // Two run from 0 and 1 until 100 and 101; at 100 the three that wait go into one batch.
    const times = Float64Array.of(0, 1, 2, 3, 4);
    const course = simulateMapping(times, { batchSize: 10, windowSeconds: 0, maximumConcurrency: 2 }, () => 100);
    expect(sizesOf(course)).toEqual({ 1: 2, 3: 1 });
    expect(course.p99Ms).toBe(198);
  });

  it('gives a slot nothing while it runs', () => {
    // It runs from 1000 to 3000. The second message is received then, and waits out a window of its own.
    const mapping = { batchSize: 10, windowSeconds: 1, maximumConcurrency: 1 };
    expect(simulateMapping(Float64Array.of(0, 1500), mapping, () => 2000).p99Ms).toBe(4500);
  });

  it('starts more invocations while messages are left waiting, five a second', () => {
    // Five run at first, 9 after a second, 14 after two, and the other 12 after three: without more it would take 8 s.
    const times = Float64Array.from({ length: 41 }, (_, index) => (index < 40 ? index : 100_000));
    const course = simulateMapping(times, { batchSize: 1, windowSeconds: 0, maximumConcurrency: 100 }, () => 1000);
    expect(Math.round(course.p99Ms / 1000)).toBe(4);
  });

  it('leaves out the age of those in a batch with others that count', () => {
    const mapping = { batchSize: 2, windowSeconds: 5, maximumConcurrency: 1 };
    expect(simulateMapping(Float64Array.of(0, 100), mapping, () => 10, 1).p99Ms).toBe(10);
  });

  it('leaves out the messages until the queue has settled', () => {
    const course = simulateMapping(
      Float64Array.of(0, 10, 5000, 5001),
      { batchSize: 1, windowSeconds: 0, maximumConcurrency: 2 },
      (messages) => 100 * messages,
      2,
    );
    expect([course.messages, course.p99Ms]).toEqual([2, 100]);
  });
});
