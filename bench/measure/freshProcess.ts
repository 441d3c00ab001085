import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { Encoding } from '../workload/messages.ts';

/** What a fresh process measures. */
export interface FreshTask {
  readonly modelsDirectory: string;
  readonly scenario: string;
  readonly encoding: Encoding;
  /** Messages in the event of every invocation. */
  readonly messages: number;
  /** How long to invoke before any invocation is timed, in milliseconds; 0 for a single invocation in all. */
  readonly warmUpMs: number;
}

export interface FreshFigures {
  /** Median over the timed invocations. */
  readonly invocationMs: number;
  /**
   * Most resident memory of the process during the invocations, less what it had before the first: Node, the model and
   * the event, garbage collected.
   */
  readonly peakRssBytes: number;
  /** Most resident memory of the process during the invocations, everything included. */
  readonly processRssBytes: number;
  /** Resident memory that came with the event. */
  readonly eventRssBytes: number;
}

const SCRIPT = fileURLToPath(new URL('./freshInvocations.ts', import.meta.url));

/** Invokes batchscore in a process of its own, so that no other garbage counts. */
export async function measureInFreshProcess(task: FreshTask): Promise<FreshFigures> {
  const { stdout } = await promisify(execFile)(process.execPath, [SCRIPT, JSON.stringify(task)]);
  return JSON.parse(stdout);
}
