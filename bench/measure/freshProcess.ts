import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { ENCODINGS, type Encoding } from '../workload/messages.ts';
import type { Scenario } from '../workload/scenarios.ts';
import type { GrowthResult } from './benchResults.ts';

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

const POINTS = [100, 1_000, 10_000, 100_000];
/** V8 takes hundreds of calls to optimize the SDK. */
const WARM_UP_MS_FOR_A_ROUND = 200;
const MAX_WARM_UP_MS = 1_000;

/** Time per message and memory from 100 to 100,000 messages in one event, each in a fresh process. */
export async function measureGrowth(
  { name, rounds }: Scenario,
  maxMessages: number,
  modelsDirectory: string,
  say: (progress: string) => void,
): Promise<GrowthResult[]> {
  const figures: GrowthResult[] = [];
  for (const encoding of ENCODINGS) {
    for (const messages of pointsUpTo(maxMessages)) {
      say(`${name} ${encoding}: growth, ${messages} messages`);
      const task = {
        modelsDirectory,
        scenario: name,
        encoding,
        messages,
        warmUpMs: Math.min(MAX_WARM_UP_MS, rounds * WARM_UP_MS_FOR_A_ROUND),
      };
      const { invocationMs, ...memory }: FreshFigures = await measureInFreshProcess(task);
      const microsecondsPerMessage = (invocationMs * 1000) / messages;
      figures.push({ scenario: name, encoding, messages, microsecondsPerMessage, ...memory });
    }
  }
  return figures;
}

function pointsUpTo(max: number): number[] {
  const points = POINTS.filter((messages) => messages <= max);
  return points.length > 0 ? points : [max];
}
