import { describe, expect, it } from '@jest/globals';
import { type Backoff, createBackoff, type Sleep } from '../../../client/collect.ts';

const NEVER = new Promise<void>(() => {});

/** Pauses that are neither shorter nor longer by chance. */
const random = () => 0.5;

/** A sleep that takes no time, and the milliseconds of all sleeps so far. */
function recordedSleep(): { readonly sleep: Sleep; readonly sleptMs: () => number } {
  let total = 0;
  return {
    sleep: async (ms) => {
      total += ms;
    },
    sleptMs: () => total,
  };
}

/** The milliseconds of so many pauses that nothing cuts short. */
async function wholePauses(count: number, backoff: Backoff, sleptMs: () => number): Promise<number[]> {
  const pauses: number[] = [];
  for (let pause = 0; pause < count; pause++) {
    const before = sleptMs();
    await backoff.pause(NEVER);
    pauses.push(sleptMs() - before);
  }
  return pauses;
}

describe('pauses between polls', () => {
  it('double from 50 ms to 1 s', async () => {
    const { sleep, sleptMs } = recordedSleep();
    await expect(wholePauses(7, createBackoff({ sleep, random }), sleptMs)).resolves.toEqual([
      50, 100, 200, 400, 800, 1000, 1000,
    ]);
  });

  it('are the shortest again after a reset', async () => {
    const { sleep, sleptMs } = recordedSleep();
    const backoff = createBackoff({ sleep, random });
    await wholePauses(4, backoff, sleptMs);
    backoff.reset();
    await expect(wholePauses(2, backoff, sleptMs)).resolves.toEqual([50, 100]);
  });

  it('are up to half shorter or longer by chance, so that clients do not wait in step', async () => {
    const [shorter, longer] = [recordedSleep(), recordedSleep()];
    await createBackoff({ sleep: shorter.sleep, random: () => 0 }).pause(NEVER);
    await createBackoff({ sleep: longer.sleep, random: () => 0.999 }).pause(NEVER);
    expect([shorter.sleptMs(), Math.round(longer.sleptMs())]).toEqual([25, 75]);
  });

  it('are as long as they are told to be at least', async () => {
    const { sleep, sleptMs } = recordedSleep();
    await createBackoff({ sleep, random }).pause(NEVER, 3000);
    expect(sleptMs()).toBe(3000);
  });

  it('end after the shortest when they are cut short, which makes the next the shortest again', async () => {
    const slept: number[] = [];
    const abandoned: number[] = [];
    const endless: Sleep = async (ms, signal) => {
      slept.push(ms);
      if (signal === undefined) return;
      await new Promise<void>((_, reject) => {
        signal.addEventListener('abort', () => {
          abandoned.push(ms);
          reject(signal.reason);
        });
      });
    };
    const backoff = createBackoff({ sleep: endless, random });
    await backoff.pause(NEVER);
    await backoff.pause(Promise.resolve());
    expect({ slept, abandoned }).toEqual({ slept: [50, 50, 50], abandoned: [50] });

    await backoff.pause(NEVER);
    expect(slept).toEqual([50, 50, 50, 50]);
  });

  it('are real time', async () => {
    const before = AbortSignal.timeout(48);
    await createBackoff({ random }).pause(NEVER);
    expect(before.aborted).toBe(true);
  });
});
