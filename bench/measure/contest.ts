import { availableParallelism, cpus, totalmem } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { env } from 'onnxruntime-node';

/** One turn. @returns the milliseconds it took */
type Turn = () => Promise<number>;

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

/** @throws Error when there are no values */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const above = sorted[sorted.length >> 1];
  if (above === undefined) throw new Error('expected values to take the median of, got none');
  return sorted.length % 2 === 1 ? above : ((sorted[(sorted.length >> 1) - 1] as number) + above) / 2;
}

/** The value that so large a share of the values does not exceed. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  const found = sorted[Math.ceil(share * sorted.length) - 1];
  if (found === undefined) throw new Error('expected values to take a quantile of, got none');
  return found;
}

setFlagsFromString('--expose-gc');

const gc: (options?: { readonly type: 'minor' | 'major' }) => void = runInNewContext('gc');

/** Runs a full garbage collection. */
export function collectGarbage(): void {
  gc();
}

/** Collects what was allocated lately, so that one contestant's garbage is not collected on another's time. */
function collectYoungGarbage(): void {
  gc({ type: 'minor' });
}

/** The machine that the figures were measured on. */
export interface Machine {
  readonly cpu: string;
  readonly cores: number;
  readonly memoryBytes: number;
  readonly platform: string;
  readonly node: string;
  readonly onnxruntime: string;
}

export function describeMachine(): Machine {
  return {
    cpu: cpus()[0]?.model ?? 'unknown',
    cores: availableParallelism(),
    memoryBytes: totalmem(),
    platform: `${process.platform} ${process.arch}`,
    node: process.version,
    onnxruntime: env.versions.node ?? env.versions.common,
  };
}
