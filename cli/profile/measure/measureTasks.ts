import { readFileSync } from 'node:fs';
import type { ModelStart } from '../../../lambda/onnx/loadModel.ts';
import type { ProfileFile } from '../../../lambda/onnx/profileFile.ts';

/** What a child process is to do: one thing, then it ends. */
export type Task = StartTask | ReachTask | TimeTask;

/** Which model, and how it is to be opened. */
export interface Target {
  readonly path: string;
  /** Most rows of a run. */
  readonly maxBatchRows: number;
  /** Execution providers, first choice first. */
  readonly providers: readonly string[];
}

export interface StartTask extends Target {
  readonly do: 'start';
  /** Milliseconds since 1970, when the process was asked for. */
  readonly askedAt: number;
  /** True if no run may have more than `maxBatchRows`, whatever config.json says. */
  readonly isLimited: boolean;
}

/** Runs of so many rows, shorter ones first: how much memory they take, and whether they can be run at all. */
export interface ReachTask extends Target {
  readonly do: 'reach';
  readonly rows: number;
  /** Ascending. */
  readonly lengths: readonly number[];
  readonly limits: Limits;
}

/** Runs of many sizes, again and again. */
export interface TimeTask extends Target {
  readonly do: 'time';
  readonly sizes: readonly Size[];
  readonly threads: number;
  /** No round is begun after so many milliseconds, but the first. */
  readonly enoughMs: number;
  readonly limits: Limits;
}

export interface Limits {
  /** The model runs with these row counts alone; empty: with any. */
  readonly allowedSizes: readonly number[];
  /** Milliseconds. With more rows than a run that takes longer has, none is tried. */
  readonly slowMs: number;
}

export interface Size {
  readonly rows: number;
  readonly length: number;
}

/** What a model is, once it was started as it is deployed. */
export interface Started {
  readonly model: string;
  readonly version: string;
  /** Of its file. */
  readonly path: string;
  readonly allowedSizes: readonly number[];
  /** The most rows of a run that config.json and the option allow. */
  readonly maxRows: number;
  readonly safety: ProfileFile['safety'];
  readonly start: Omit<ModelStart, 'threads'> & { readonly processMs: number };
  /** Of a session as it is deployed. */
  readonly threads: number;
  /** True if config.json says how many, so that no other number is of interest. */
  readonly hasGivenThreads: boolean;
  readonly provider: string;
  /** What it may be run at, ascending: of the ragged axis, or of what else is open. */
  readonly lengths: readonly number[];
  /** Of ordinary rows. */
  readonly length: number;
  /** Bytes of a real request; undefined where there are no samples. */
  readonly requestBytes: number | undefined;
}

export interface Timed extends Size {
  readonly medianMs: number;
  readonly spread: number;
  readonly isStable: boolean;
}

/** What a child process tells while it works. */
export type Told =
  | { readonly kind: 'warning'; readonly text: string }
  | { readonly kind: 'started'; readonly started: Started }
  /** The runs of this size come next. */
  | { readonly kind: 'trying'; readonly size: Size }
  | { readonly kind: 'ran'; readonly size: Size; readonly runMs: number; readonly peakRssBytes: number }
  | { readonly kind: 'failed'; readonly size: Size; readonly reason: string }
  | { readonly kind: 'progress'; readonly share: number }
  | { readonly kind: 'timed'; readonly timed: readonly Timed[] }
  | { readonly kind: 'error'; readonly message: string };

/**
 * The most memory that this process has held. Linux tells it of the process alone; `maxRSS` there also counts what its
 * parent held when it was started.
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
