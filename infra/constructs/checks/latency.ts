import type { Batching } from '../base/batching.ts';
import { outside, type Problem } from '../base/refuse.ts';

/** Every message may wait out the window, so that a target within it would be missed all the time. */
export function latencyProblems({ windowSeconds }: Batching, latencyTargetSeconds: number): Problem[] {
  return [
    outside('latencyTargetSeconds', latencyTargetSeconds, 1, 1_209_600),
    latencyTargetSeconds <= windowSeconds
      ? `latencyTargetSeconds: expected more than windowSeconds, ${windowSeconds}, got ${latencyTargetSeconds}, ` +
        'raise it or shorten the window'
      : undefined,
  ];
}
