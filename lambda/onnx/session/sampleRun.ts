import { memoryOf, type RunTask } from '../sessionJobs.ts';

/** Keeps one of the runs that a model was warmed up with, to be run again. */
export interface SampleRun {
  /** To be called before the run, which takes the memory of its inputs. @returns to be called with what it took */
  offer(task: RunTask): (runMs: number) => void;
  /** The shortest of a millisecond or more, else the longest. Undefined where all were long: there, waiting is a small part. */
  take(): RunTask | undefined;
}

const ENOUGH_MS = 1;
const LONGEST_MS = 20;
const MOST_BYTES = 1_048_576;

export function createSampleRun(): SampleRun {
  let kept: { readonly task: RunTask; readonly runMs: number } | undefined;
  let isTaken = false;
  return {
    offer(task) {
      if (isTaken) return () => {};
      const bytes = memoryOf(task.inputs).reduce((sum, { byteLength }) => sum + byteLength, 0);
      if (bytes > MOST_BYTES) return () => {};
      const copy = structuredClone(task);
      return (runMs) => {
        if (!isTaken && isBetter(runMs, kept?.runMs)) kept = { task: copy, runMs };
      };
    },
    take() {
      const task = kept?.task;
      kept = undefined;
      isTaken = true;
      return task;
    },
  };
}

function isBetter(runMs: number, keptMs = 0): boolean {
  if (runMs > LONGEST_MS) return false;
  return keptMs >= ENOUGH_MS ? runMs >= ENOUGH_MS && runMs < keptMs : runMs > keptMs;
}
