import { setTimeout as sleep } from 'node:timers/promises';
import type { SQSRecord } from 'aws-lambda';
import type { InferenceSession } from 'onnxruntime-node';
import { type MicroBatch, microBatchOf, type Part } from '../../lambda/core/microBatch.ts';
import type { Planner } from '../../lambda/core/plan.ts';
import { CONFIG_KEYS } from '../../lambda/settings.ts';
import { createBareSession, prepareLimit, type Sweep, scoreBare, sweep } from '../contestants/bareSession.ts';
import { type Batchscore, openBatchscore, openWithPlan } from '../contestants/openBatchscore.ts';
import { fastestPartition, type Parts, partsOf } from '../contestants/partitions.ts';
import { openProcesses } from '../harness/processes.ts';
import { median, takeTurns, timed } from '../harness/turns.ts';
import { drawMessages, ENCODINGS, type Encoding, type Message, toRecords } from '../workload/messages.ts';
import type { Repository } from '../workload/modelRepository.ts';
import type { Scenario } from '../workload/scenarios.ts';

/** All messages of a scenario in one invocation, in a process that has done so before: medians. */
export interface ContestFigures {
  readonly scenario: string;
  readonly encoding: Encoding;
  readonly messages: number;
  /** Most rows in a run, for every contestant. */
  readonly bestRows: number;
  /** Rows per second at that size over those at one row: the most that batching can gain with this model. */
  readonly batchingGain: number;
  /** JSON.parse, runs of the fastest partition and JSON.stringify: nobody can be faster. */
  readonly limitMs: number;
  readonly batchscoreMs: number;
  /** The limit's time divided by batchscore's. */
  readonly efficiency: number;
  /** The handler with the plan of a batcher that runs what it has; where lengths do not differ, it plans as batchscore. */
  readonly firstComeMs?: number;
}

/**
 * What batching is worth from the first call on, with settings as they come, of binary messages: little surrounds their
 * runs. Each contestant has processes of its own, in turns; medians of the milliseconds of their first and second call.
 */
export interface GainFigures {
  readonly scenario: string;
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

/** What a message costs that comes alone: medians. */
export interface LoneMessageFigures {
  readonly scenario: string;
  readonly encoding: Encoding;
  /** JSON.parse, tensors, `session.run` on the same thread, JSON.stringify. */
  readonly bareMicroseconds: number;
  /** One invocation of the handler. */
  readonly batchscoreMicroseconds: number;
  /** The same where nothing ran for some milliseconds before: what ran last is asleep, and its caches are cold. */
  readonly bareAfterPauseMicroseconds: number;
  readonly afterPauseMicroseconds: number;
}

export interface ScenarioFigures {
  readonly scenarios: readonly ContestFigures[];
  readonly gains: readonly GainFigures[];
  readonly loneMessage: readonly LoneMessageFigures[];
}

interface ScenarioTurns {
  readonly maxMessages: number;
  /** Of contestants that have processes of their own; others have twice as many. */
  readonly rounds: number;
  /** An execution provider of ONNX Runtime, for all contestants. */
  readonly provider: string;
}

export async function measureScenario(
  scenario: Scenario,
  { maxMessages, rounds, provider }: ScenarioTurns,
  repository: Repository,
  say: (progress: string) => void,
): Promise<ScenarioFigures> {
  const { name } = scenario;
  say(`${name}: looking for the best size and the fastest partition`);
  const session = await createBareSession(await repository.addModel(scenario), provider);
  const found = await sweep(session, scenario);
  const messages = [...drawMessages(scenario, Math.min(scenario.messages, maxMessages))];
  const parts = await fastestPartition(session, scenario, messages, found.bestRows);

  await repository.configure(scenario, undefined);
  const fewer = messages.slice(0, scenario.gainMessages);
  const gainParts = fewer.length < messages.length ? partsOf(fewer, found.bestRows) : parts;
  say(`${name}: ${fewer.length} messages in fresh processes`);
  const task = { modelsDirectory: repository.directory, scenario: name, provider, messages: fewer.length };
  const gains = await measureGains({ ...task, parts: gainParts }, rounds);

  await repository.configure(scenario, found.bestRows);
  const batchscore = await openBatchscore(repository.directory, name, { [CONFIG_KEYS.providers]: provider });
  const firstCome = await openWithPlan(repository.directory, name, planFirstCome, {
    [CONFIG_KEYS.providers]: provider,
  });
  const scenarios: ContestFigures[] = [];
  const loneMessage: LoneMessageFigures[] = [];
  for (const encoding of ENCODINGS) {
    if (encoding === 'json') {
      say(`${name} ${encoding}: a lone message`);
      loneMessage.push(await measureLoneMessage(scenario, encoding, session, batchscore, rounds));
    }
    // Where a run takes long, what decoding takes does not show.
    if (scenario.onlyFresh || (scenario.lengths !== undefined && encoding !== 'json')) continue;
    say(`${name} ${encoding}: ${messages.length} messages, at most ${found.bestRows} rows in a run`);
    scenarios.push(
      await measureContest(scenario, encoding, messages, session, found, parts, batchscore, firstCome, rounds),
    );
  }
  await batchscore.close();
  await firstCome.close();
  await session.release();
  return { scenarios, gains: [gains], loneMessage };
}

export interface CallTask {
  /** `bare` also runs the partition; `rowsAlone` is the handler with `maxBatchRows` 1. */
  readonly contestant: 'batchscore' | 'rowsAlone' | 'bare';
  /** Where the scenario's `config.json` says nothing of rows. */
  readonly modelsDirectory: string;
  readonly scenario: string;
  readonly provider: string;
  readonly messages: number;
  readonly parts: Parts;
}

/** Milliseconds of the first and the second call; of `bare` also those of the partition's runs. */
export type CallTimes = readonly [number, number, number?, number?];

const CALLS = new URL('../contestants/gainCalls.ts', import.meta.url);

async function measureGains(given: Omit<CallTask, 'contestant'>, rounds: number): Promise<GainFigures> {
  const processes = await openProcesses();
  const calls = (contestant: CallTask['contestant']) => async (): Promise<CallTimes> => {
    const child = processes.start(CALLS);
    const taken = await child.ask<CallTimes>({ ...given, contestant } satisfies CallTask);
    await child.stop();
    return taken;
  };
  try {
    const [batchscore = [], rowsAlone = [], bare = []] = await takeTurns(
      [calls('batchscore'), calls('rowsAlone'), calls('bare')],
      rounds,
    );
    const both = (taken: readonly CallTimes[]): FirstAndSecond => [
      median(taken.map(([first]) => first)),
      median(taken.map(([, second]) => second)),
    ];
    return {
      scenario: given.scenario,
      messages: given.messages,
      batchscoreMs: both(batchscore),
      rowsAloneMs: both(rowsAlone),
      bareMs: both(bare),
      partitionMs: median(bare.map(([, , , again = Number.NaN]) => again)),
      partitionRuns: given.parts.length,
    };
  } finally {
    await processes.stop();
  }
}

/**
 * @param batchscore serves the scenario's model at the size that the sweep found best
 * @param firstCome the same, but for its plan
 */
async function measureContest(
  scenario: Scenario,
  encoding: Encoding,
  messages: readonly Message[],
  session: InferenceSession,
  { bestRows, gain }: Sweep,
  parts: Parts,
  batchscore: Batchscore,
  firstCome: Batchscore,
  rounds: number,
): Promise<ContestFigures> {
  const { name, lengths } = scenario;
  const records = toRecords(messages, encoding);
  const limit = await prepareLimit(session, name, messages, records, encoding, parts);
  const contestants = [limit, () => batchscore.invoke(records)];
  if (lengths !== undefined) contestants.push(() => firstCome.invoke(records));
  // Runs of long texts take seconds: fewer turns show them.
  const turns = lengths === undefined ? 2 * rounds : rounds;
  const [limitMs = 0, batchscoreMs = 0, firstComeMs] = (await takeTurns(contestants.map(timed), turns, 0)).map(median);
  return {
    scenario: name,
    encoding,
    messages: messages.length,
    bestRows,
    batchingGain: gain,
    limitMs,
    batchscoreMs,
    efficiency: limitMs / batchscoreMs,
    ...(firstComeMs !== undefined && { firstComeMs }),
  };
}

/**
 * First come, first served: micro-batches of as many one-row requests as the model takes, in the order of arrival, each
 * padded to its longest. It is what a batcher does that gathers for a while and runs what it has.
 */
const planFirstCome: Planner = () => {
  let parts: Part[] = [];
  const close = (): MicroBatch[] => {
    const [first] = parts;
    if (first === undefined) return [];
    const batch = microBatchOf(first.request.model, parts, 'full');
    parts = [];
    return [batch];
  };
  return {
    add(request) {
      parts.push({ request, fromRow: 0, toRow: request.rows });
      return parts.length === request.model.maxBatchRows ? close() : [];
    },
    finish: close,
  };
};

/** Enough for V8 to know the code after the warm-up. */
const LONE_MESSAGES = 100;
/** Of slow models fewer are sent, and not fewer than after a pause. */
const LONE_TURN_MS = 500;
const AFTER_PAUSE = 15;
const PAUSE_MS = 10;

async function measureLoneMessage(
  { name, ...scenario }: Scenario,
  encoding: Encoding,
  session: InferenceSession,
  batchscore: Batchscore,
  rounds: number,
): Promise<LoneMessageFigures> {
  const records = toRecords(drawMessages({ name, ...scenario }, LONE_MESSAGES), encoding);
  const bare = (record: SQSRecord): Promise<unknown> => scoreBare(record, encoding, name, session);
  const handled = (record: SQSRecord): Promise<unknown> => batchscore.invoke([record]);
  const rare = records.slice(0, AFTER_PAUSE);
  const [bareMs = 0, batchscoreMs = 0, bareAfterPauseMs = 0, afterPauseMs = 0] = (
    await takeTurns(
      [
        () => medianMs(records, 0, bare),
        () => medianMs(records, 0, handled),
        () => medianMs(rare, PAUSE_MS, bare),
        () => medianMs(rare, PAUSE_MS, handled),
      ],
      rounds,
      0,
    )
  ).map(median);
  return {
    scenario: name,
    encoding,
    bareMicroseconds: bareMs * 1000,
    batchscoreMicroseconds: batchscoreMs * 1000,
    bareAfterPauseMicroseconds: bareAfterPauseMs * 1000,
    afterPauseMicroseconds: afterPauseMs * 1000,
  };
}

async function medianMs(
  records: readonly SQSRecord[],
  pauseMs: number,
  score: (record: SQSRecord) => Promise<unknown>,
): Promise<number> {
  const takenMs: number[] = [];
  const until = performance.now() + LONE_TURN_MS;
  for (const record of records) {
    if (takenMs.length >= AFTER_PAUSE && performance.now() > until) break;
    if (pauseMs > 0) await sleep(pauseMs);
    takenMs.push(await timed(() => score(record))());
  }
  return median(takenMs);
}
