import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { SQSRecord } from 'aws-lambda';
import { CONFIG_KEYS } from '../../lambda/settings.ts';
import { createBareSession, scoreBare } from '../contestants/bareSession.ts';
import { openBatchscore } from '../contestants/openBatchscore.ts';
import { type Parts, stackParts } from '../contestants/partitions.ts';
import { drawMessages, type Encoding, toRecords } from '../workload/messages.ts';
import { type Scenario, scenarioNamed } from '../workload/scenarios.ts';
import { median, timed } from './contest.ts';

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
interface CallTask {
  readonly contestant: (typeof CONTESTANTS)[number];
  readonly modelsDirectory: string;
  readonly scenario: string;
  readonly encoding: Encoding;
  readonly messages: number;
  /** The fastest partition, which the bare session runs besides. */
  readonly parts: Parts;
}

const SCRIPT = fileURLToPath(new URL('./gains.ts', import.meta.url));

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

/** Runs as the process of `callInFreshProcess`: takes the task as its argument, writes the milliseconds to stdout. */

const CALLS = 2;
/** Batchscore has run its model when it takes the first message; so have the others. */
const BARE_WARM_UP = 5;

async function measure(task: CallTask): Promise<number[]> {
  const messages = [...drawMessages(scenarioNamed(task.scenario), task.messages)];
  const records = toRecords(messages, task.encoding);
  switch (task.contestant) {
    case 'batchscore':
      return callHandler(task, records, {});
    case 'rowsAlone':
      return callHandler(task, records, { [CONFIG_KEYS.maxBatchRows]: '1' });
    case 'bare': {
      const session = await createBareSession(join(task.modelsDirectory, task.scenario, '1', 'model.onnx'));
      const scoreAll = async (some: readonly SQSRecord[]): Promise<void> => {
        for (const record of some) await scoreBare(record, task.encoding, task.scenario, session);
      };
      await scoreAll(records.slice(0, BARE_WARM_UP));
      const alone = await timeCalls(() => scoreAll(records));
      const runs = stackParts(task.parts, messages);
      const runAll = async (): Promise<void> => {
        for (const feeds of runs) await session.run(feeds);
      };
      return [...alone, ...(await timeCalls(runAll))];
    }
  }
}

async function callHandler(
  { modelsDirectory, scenario }: CallTask,
  records: SQSRecord[],
  variables: Readonly<Record<string, string>>,
): Promise<number[]> {
  const batchscore = await openBatchscore(modelsDirectory, scenario, variables);
  const taken = await timeCalls(() => batchscore.invoke(records));
  await batchscore.close();
  return taken;
}

async function timeCalls(call: () => Promise<void>): Promise<number[]> {
  const taken: number[] = [];
  for (let calls = 0; calls < CALLS; calls++) taken.push(await timed(call)());
  return taken;
}

process.stdout.write(JSON.stringify(await measure(JSON.parse(process.argv[2] ?? '{}'))));
