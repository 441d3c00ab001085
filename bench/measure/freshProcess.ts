import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { Encoding } from '../workload/messages.ts';

/** What a fresh process measures. */
export interface FreshTask {
  readonly modelsDirectory: string;
  readonly scenario: string;
  readonly encoding: Encoding;
  /** In the one event of every invocation. */
  readonly messages: number;
  /** Least milliseconds of invocations before any is timed; 0 for a single invocation in all. */
  readonly warmUpMs: number;
}

export interface FreshFigures {
  /** Median over the timed invocations. */
  readonly invocationMs: number;
  /**
   * Most resident memory of the process during the invocations, less what it had before the first of them: with Node,
   * the model and the event in memory and garbage collected.
   */
  readonly peakRssBytes: number;
  /** Most resident memory of the process during the invocations, everything included. */
  readonly processRssBytes: number;
  /** Resident memory that came with the event. */
  readonly eventRssBytes: number;
}

const SCRIPT = fileURLToPath(new URL('./freshInvocations.ts', import.meta.url));

/** Invokes batchscore in a process of its own, so that nobody else's garbage counts. */
export async function measureInFreshProcess(task: FreshTask): Promise<FreshFigures> {
  const { stdout } = await promisify(execFile)(process.execPath, [SCRIPT, JSON.stringify(task)]);
  return JSON.parse(stdout);
}
