import { setTimeout as sleep } from 'node:timers/promises';
import { collectYoungGarbage } from './collectGarbage.ts';
import { median } from './median.ts';

/** One turn. @returns the milliseconds it took */
export type Turn = () => Promise<number>;

/** ONNX Runtime's threads spin for a while after a run: nobody starts on cores that are still busy with another's. */
const REST_MS = 25;

/**
 * Gives every contestant its turn, in rounds one after the other, another one first each time, so that what the machine
 * does meanwhile meets all of them alike. The first round is a warm-up. Before a turn the young garbage of the one
 * before is collected; a full collection would also throw away what V8 has learnt of the code, which a deployment's
 * calls do not meet.
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
