import { describe, expect, it } from '@jest/globals';
import { createBackoff } from '../../client/receive/collector.ts';

const NEVER = new Promise<void>(() => {});
const AT_ONCE = Promise.resolve();

/** Milliseconds that a pause took. */
async function lengthOf(pause: Promise<void>): Promise<number> {
  const startedAt = performance.now();
  await pause;
  return performance.now() - startedAt;
}

describe('pauses between polls', () => {
  it('double from 50 ms, and are the shortest again after one was cut short', async () => {
    const backoff = createBackoff();
    const whole: number[] = [];
    for (let count = 0; count < 4; count++) whole.push(await lengthOf(backoff.pause(NEVER)));
    // Timers of Node may fire up to a millisecond early.
    for (const [index, length] of whole.entries()) expect(length).toBeGreaterThanOrEqual(50 * 2 ** index - 2);

    expect(await lengthOf(backoff.pause(AT_ONCE))).toBeLessThan(800);
    expect(await lengthOf(backoff.pause(NEVER))).toBeLessThan(800);
  });

  it('are the shortest again after a reset', async () => {
    const backoff = createBackoff();
    for (let count = 0; count < 4; count++) await backoff.pause(NEVER);
    backoff.reset();
    expect(await lengthOf(backoff.pause(NEVER))).toBeLessThan(800);
  });
});
