import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { Parts } from '../contestants/partitions.ts';
import type { Encoding } from '../workload/messages.ts';
import type { Scenario } from '../workload/scenarios.ts';
import { median } from './contest.ts';

/**
 * What batching is worth from the first call on, with settings as they come. Each contestant has processes of its own,
 * in turns; medians of the milliseconds that an event takes in their first and second call.
 */
export interface GainFigures {
  readonly scenario: string;
  readonly encoding: Encoding;
  readonly messages: number;
  readonly batchscoreMs: FirstAndSecond;
  /** Our handler with `maxBatchRows` 1. */
  readonly rowsAloneMs: FirstAndSecond;
  /** `session.run` message after message, with JSON.parse before and JSON.stringify after it. */
  readonly bareMs: FirstAndSecond;
  /** The runs of the fastest partition that was found, and nothing else, in a session that has run before. */
  readonly partitionMs: number;
  readonly partitionRuns: number;
}

type FirstAndSecond = readonly [number, number];

const CONTESTANTS = ['batchscore', 'rowsAlone', 'bare'] as const;

/** What a fresh process measures. */
export interface CallTask {
  readonly contestant: (typeof CONTESTANTS)[number];
  readonly modelsDirectory: string;
  readonly scenario: string;
  readonly encoding: Encoding;
  readonly messages: number;
  /** The fastest partition, which the bare session runs besides. */
  readonly parts: Parts;
}

const SCRIPT = fileURLToPath(new URL('./gainCalls.ts', import.meta.url));

/** @param modelsDirectory where the scenario's `config.json` says nothing of rows */
export async function measureGains(
  scenario: Scenario,
  encoding: Encoding,
  messages: number,
  modelsDirectory: string,
  parts: Parts,
): Promise<GainFigures> {
  const taken: Record<(typeof CONTESTANTS)[number], number[][]> = { batchscore: [], rowsAlone: [], bare: [] };
  for (let round = 0; round < scenario.rounds; round++) {
    for (let place = 0; place < CONTESTANTS.length; place++) {
      const contestant = CONTESTANTS[(place + round) % CONTESTANTS.length] as keyof typeof taken;
      const task = { contestant, modelsDirectory, scenario: scenario.name, encoding, messages, parts };
      taken[contestant].push(await callInFreshProcess(task));
    }
  }
  const medianAt = (contestant: keyof typeof taken, call: number): number =>
    median(taken[contestant].map((calls) => calls[call] as number));
  const both = (contestant: keyof typeof taken): FirstAndSecond => [medianAt(contestant, 0), medianAt(contestant, 1)];
  return {
    scenario: scenario.name,
    encoding,
    messages,
    batchscoreMs: both('batchscore'),
    rowsAloneMs: both('rowsAlone'),
    bareMs: both('bare'),
    partitionMs: medianAt('bare', 3),
    partitionRuns: parts.length,
  };
}

async function callInFreshProcess(task: CallTask): Promise<number[]> {
  const { stdout } = await promisify(execFile)(process.execPath, [SCRIPT, JSON.stringify(task)]);
  return JSON.parse(stdout);
}
