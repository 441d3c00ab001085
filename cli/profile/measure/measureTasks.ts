import { readFileSync } from 'node:fs';

/** Task of a child process. The process ends after it. */
export type Task = StartTask | RunTask;

export interface Target {
  readonly path: string;
  readonly maxBatchRows: number;
  readonly providers: readonly string[];
}

export interface StartTask extends Target {
  readonly do: 'start';
  /** Time when the process was requested, in milliseconds since 1970. */
  readonly askedAt: number;
}

/** Runs sizes to find out if they run, and then times those that do. */
export interface RunTask extends Target {
  readonly do: 'run';
  /** Fewer rows first. If a size fails or is slow, no more rows of its length are tried. */
  readonly sizes: readonly Size[];
  readonly threads: number;
  /** Row counts that the model accepts. Empty if it accepts any. */
  readonly allowedSizes: readonly number[];
  /** Milliseconds of a run that count as slow. */
  readonly slowMs: number;
  /** Time for the timing, after which no round starts, except for the first. */
  readonly enoughMs: number;
}

export interface Size {
  readonly rows: number;
  readonly length: number;
}

/** Size that runs. */
export interface Ran extends Size {
  readonly runMs: number;
  /** Peak memory of a process that ran at most these rows. */
  readonly peakRssBytes: number;
}

export interface Timed extends Size {
  readonly medianMs: number;
  readonly spread: number;
  readonly isStable: boolean;
}

/**
 * Returns the peak memory of this process. On Linux, `maxRSS` includes the parent's memory at the start of the process,
 * so the function reads the value from `/proc`.
 *
 * @see https://man7.org/linux/man-pages/man5/proc_pid_status.5.html
 */
export function peakRssBytes(): number {
  try {
    const [, kibibytes] = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync('/proc/self/status', 'utf8')) ?? [];
    if (kibibytes !== undefined) return Number(kibibytes) * 1024;
  } catch {}
  return process.resourceUsage().maxRSS * 1024;
}
