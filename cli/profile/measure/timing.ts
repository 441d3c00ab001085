import { availableParallelism } from 'node:os';
import type { Limits, Size, Started, Target, Timed } from './messages.ts';
import { describeCrash, runChild } from './runChild.ts';

export interface TimedWith extends Timed {
  readonly threads: number;
}

export interface Timings {
  readonly timed: readonly TimedWith[];
  readonly findings: readonly string[];
}

/** One thread, a few, and all; one number where config.json gives it, and where not the cores run the model. */
export function threadCounts({ threads, hasGivenThreads, provider }: Started): number[] {
  if (hasGivenThreads || provider !== 'cpu') return [threads];
  const all = availableParallelism();
  return [...new Set([1, 2, 4, all, threads])].filter((count) => count <= all).toSorted((a, b) => a - b);
}

/**
 * Times runs of all sizes with each number of threads, in a process for each.
 *
 * @param enoughMs of all together, from which on only what was begun is finished
 * @param onProgress told the share of the time that is over
 * @throws Error where nothing could be timed
 */
export async function timeAll(
  target: Target,
  sizes: readonly Size[],
  counts: readonly number[],
  limits: Limits,
  enoughMs: number,
  onProgress: (share: number) => void,
): Promise<Timings> {
  const all: TimedWith[] = [];
  const failed: Size[] = [];
  const findings: string[] = [];
  for (const [index, threads] of counts.entries()) {
    const task = { ...target, do: 'time', sizes, threads, limits, enoughMs: enoughMs / counts.length } as const;
    const crash = await runChild(task, (told) => {
      if (told.kind === 'timed') all.push(...told.timed.map((one) => ({ ...one, threads })));
      if (told.kind === 'failed') {
        const { rows, length } = told.size;
        failed.push(told.size);
        findings.push(
          `with ${threads} threads, ${rows} rows of length ${length} failed after runs of other sizes, and are not timed: ${told.reason}`,
        );
      }
      if (told.kind === 'progress') onProgress((index + told.share) / counts.length);
    });
    if (crash === undefined) continue;
    findings.push(
      `with ${threads} threads the runs ended their process (${describeCrash(crash)}): none of them is timed`,
    );
  }
  // What fails with some number of threads is left out of all, so that each has the same sizes.
  const timed = all.filter((one) => !failed.some(({ rows, length }) => rows === one.rows && length === one.length));
  const unstable = timed.filter(({ isStable }) => !isStable).length;
  if (unstable > 0) {
    findings.push(
      `the medians of ${unstable} of ${timed.length} sizes were not stable within the time: allow more with --seconds, ` +
        'and leave the machine alone meanwhile',
    );
  }
  if (timed.length === 0) throw new Error(findings[0]);
  return { timed, findings };
}
