import { setTimeout as sleep } from 'node:timers/promises';
import { collectYoungGarbage } from './collectGarbage.ts';
import { median } from './median.ts';

/** One turn. @returns the milliseconds it took */
export type Turn = () => Promise<number>;

/** ONNX Runtime's threads spin for a while after a run; the next contestant waits until the cores are free. */
const REST_MS = 25;

/**
 * Gives every contestant a turn in each round, a different one first each time, so that whatever else the machine does
 * affects all of them alike. The first round is a warm-up. Before each turn the young garbage of the last one is
 * collected; a full collection would also discard the code that V8 has optimized, which no deployment suffers.
 *
 * @returns the median milliseconds of each, aligned with `turns`
 */
export async function takeTurns(turns: readonly Turn[], rounds: number): Promise<number[]> {
  const taken: number[][] = turns.map(() => []);
  for (let round = 0; round <= rounds; round++) {
    for (let place = 0; place < turns.length; place++) {
      const contestant = (place + round) % turns.length;
      collectYoungGarbage();
      await sleep(REST_MS);
      const ms = await (turns[contestant] as Turn)();
      if (round > 0) (taken[contestant] as number[]).push(ms);
    }
  }
  return taken.map(median);
}

/** A turn that is the time `work` takes. */
export function timed(work: () => Promise<void>): Turn {
  return async () => {
    const startedAt = performance.now();
    await work();
    return performance.now() - startedAt;
  };
}
