import { availableParallelism, cpus, totalmem } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { env } from 'onnxruntime-node';

/** Runs one turn of a contestant and returns its measurement. */
export type Turn<T> = () => Promise<T>;

/** Pause between turns. ONNX Runtime's threads spin for a while after a run, and the cores must be free. */
const REST_MS = 25;

/**
 * Runs a turn of every contestant in each round, and starts with a different one each time, so that other load affects
 * all of them alike. Before each turn it collects the young garbage of the last one. A full collection would also
 * discard the code that V8 has optimized, which does not occur in deployments.
 *
 * @param warmUpMs duration of each contestant's warm-up, which has at least one turn. @default no warm-up
 * @returns the measurements by contestant and round
 */
export async function takeTurns<T>(turns: readonly Turn<T>[], rounds: number, warmUpMs?: number): Promise<T[][]> {
  if (warmUpMs !== undefined) {
    for (const turn of turns) {
      const until = performance.now() + warmUpMs;
      do await turn();
      while (performance.now() < until);
    }
  }
  const taken = turns.map((): T[] => []);
  for (let round = 0; round < rounds; round++) {
    for (let place = 0; place < turns.length; place++) {
      const contestant = (place + round) % turns.length;
      gc({ type: 'minor' });
      await sleep(REST_MS);
      taken[contestant]?.push(await (turns[contestant] as Turn<T>)());
    }
  }
  return taken;
}

setFlagsFromString('--expose-gc');
const gc: (options: { readonly type: 'minor' }) => void = runInNewContext('gc');

export function timed(work: () => Promise<unknown>): Turn<number> {
  return async () => {
    const startedAt = performance.now();
    await work();
    return performance.now() - startedAt;
  };
}

/** @throws Error if there are no values */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const above = sorted[sorted.length >> 1];
  if (above === undefined) throw new Error('expected values to take the median of, got none');
  return sorted.length % 2 === 1 ? above : ((sorted[(sorted.length >> 1) - 1] as number) + above) / 2;
}

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
