import type { SQSRecord } from 'aws-lambda';
import { CONFIG_KEYS } from '../../lambda/settings.ts';
import { createBareSession, scoreBare } from '../contestants/bareSession.ts';
import { openBatchscore } from '../contestants/openBatchscore.ts';
import { openProcesses } from '../harness/processes.ts';
import { median, takeTurns, timed } from '../harness/turns.ts';
import { drawMessages, toRecords } from '../workload/messages.ts';
import type { Repository } from '../workload/modelRepository.ts';
import type { Scenario } from '../workload/scenarios.ts';

/**
 * Gain from batching, from the first call on, with default settings and binary messages, which add little overhead.
 * Each contestant runs in its own processes, in turns. The figures are median milliseconds of the first and second
 * call.
 */
export interface GainFigures {
  readonly scenario: string;
  readonly messages: number;
  readonly batchscoreMs: CallTimes;
  /** Handler with `maxBatchRows` 1. */
  readonly rowsAloneMs: CallTimes;
  /** `session.run` for each message, with JSON.parse before and JSON.stringify after it. */
  readonly bareMs: CallTimes;
}

/** Cost of a message that arrives alone, as JSON: medians. */
export interface LoneMessageFigures {
  readonly scenario: string;
  /** JSON.parse, tensors, `session.run` on the same thread, JSON.stringify. */
  readonly bareMicroseconds: number;
  /** One invocation of the handler. */
  readonly batchscoreMicroseconds: number;
}

export interface ScenarioFigures {
  readonly gains: readonly GainFigures[];
  readonly loneMessage: readonly LoneMessageFigures[];
}

interface ScenarioTurns {
  readonly maxMessages: number;
  readonly rounds: number;
  readonly provider: string;
}

export async function measureScenario(
  scenario: Scenario,
  { maxMessages, rounds, provider }: ScenarioTurns,
  { directory, addModel }: Repository,
  say: (progress: string) => void,
): Promise<ScenarioFigures> {
  const { name } = scenario;
  const path = await addModel(scenario);
  const messages = Math.min(scenario.messages, maxMessages);
  say(`${name}: ${messages} messages in fresh processes`);
  const gains = await measureGains({ modelsDirectory: directory, scenario: name, provider, messages }, rounds);
  say(`${name}: a lone message`);
  const loneMessage = await measureLoneMessage(scenario, { directory, path, provider }, rounds);
  return { gains: [gains], loneMessage: [loneMessage] };
}

export interface CallTask {
  /** `rowsAlone` is the handler with `maxBatchRows` 1. */
  readonly contestant: 'batchscore' | 'rowsAlone' | 'bare';
  readonly modelsDirectory: string;
  readonly scenario: string;
  readonly provider: string;
  readonly messages: number;
}

/** Milliseconds of the first and the second call. */
export type CallTimes = readonly [first: number, second: number];

const CALLS = new URL('../contestants/gainCalls.ts', import.meta.url);

async function measureGains(given: Omit<CallTask, 'contestant'>, rounds: number): Promise<GainFigures> {
  const processes = await openProcesses();
  const calls = (contestant: CallTask['contestant']) => async (): Promise<CallTimes> => {
    const child = processes.start(CALLS);
    const taken = await child.ask<CallTimes>({ ...given, contestant } satisfies CallTask);
    await child.stop();
    return taken;
  };
  const both = (taken: readonly CallTimes[] = []): CallTimes => [
    median(taken.map(([first]) => first)),
    median(taken.map(([, second]) => second)),
  ];
  try {
    const contestants = [calls('batchscore'), calls('rowsAlone'), calls('bare')];
    const [batchscore, rowsAlone, bare] = await takeTurns(contestants, rounds);
    const { scenario, messages } = given;
    return { scenario, messages, batchscoreMs: both(batchscore), rowsAloneMs: both(rowsAlone), bareMs: both(bare) };
  } finally {
    await processes.stop();
  }
}

/** Number of messages, enough for V8 to optimize the code after the warm-up. */
const LONE_MESSAGES = 100;
/** Slow models get fewer messages, but some. */
const LONE_TURN_MS = 500;
const LONE_MESSAGES_MIN = 15;

async function measureLoneMessage(
  scenario: Scenario,
  { directory, path, provider }: { readonly directory: string; readonly path: string; readonly provider: string },
  rounds: number,
): Promise<LoneMessageFigures> {
  const { name } = scenario;
  const session = await createBareSession(path, provider);
  const batchscore = await openBatchscore(directory, name, { [CONFIG_KEYS.providers]: provider });
  const records = toRecords(drawMessages(scenario, LONE_MESSAGES), 'json');
  const turns = [
    () => medianMs(records, (record) => scoreBare(record, 'json', name, session)),
    () => medianMs(records, (record) => batchscore.invoke([record])),
  ];
  try {
    const [bare = [], own = []] = await takeTurns(turns, rounds, 0);
    return { scenario: name, bareMicroseconds: 1000 * median(bare), batchscoreMicroseconds: 1000 * median(own) };
  } finally {
    await batchscore.close();
    await session.release();
  }
}

async function medianMs(
  records: readonly SQSRecord[],
  score: (record: SQSRecord) => Promise<unknown>,
): Promise<number> {
  const takenMs: number[] = [];
  const until = performance.now() + LONE_TURN_MS;
  for (const record of records) {
    if (takenMs.length >= LONE_MESSAGES_MIN && performance.now() > until) break;
    takenMs.push(await timed(() => score(record))());
  }
  return median(takenMs);
}
