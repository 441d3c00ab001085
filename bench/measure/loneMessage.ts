import { setTimeout as sleep } from 'node:timers/promises';
import type { SQSRecord } from 'aws-lambda';
import type { InferenceSession } from 'onnxruntime-node';
import { scoreBare } from '../contestants/bareScore.ts';
import type { Batchscore } from '../contestants/batchscore.ts';
import { drawMessages, type Encoding, toRecords } from '../workload/messages.ts';
import type { Scenario } from '../workload/scenarios.ts';
import { takeTurns } from './contest.ts';
import { median } from './median.ts';

/** What a message costs that comes alone: medians. */
export interface LoneMessageFigures {
  readonly scenario: string;
  readonly encoding: Encoding;
  /** JSON.parse, tensors, `session.run` on the same thread, JSON.stringify. */
  readonly bareMicroseconds: number;
  /** One invocation of the handler. */
  readonly batchscoreMicroseconds: number;
  readonly overMicroseconds: number;
  readonly overPercent: number;
  /** The same where nothing ran for some milliseconds before: what ran last is asleep, and its caches are cold. */
  readonly bareAfterPauseMicroseconds: number;
  readonly afterPauseMicroseconds: number;
}

/** Enough for V8 to know the code in the first round, which does not count. */
const MESSAGES = 100;
const MOST_AFTER_PAUSE = 15;
const PAUSE_MS = 10;

export async function measureLoneMessage(
  scenario: Scenario,
  encoding: Encoding,
  session: InferenceSession,
  batchscore: Batchscore,
): Promise<LoneMessageFigures> {
  const records = toRecords(drawMessages(scenario, MESSAGES), encoding);
  const bare = (record: SQSRecord): Promise<unknown> => scoreBare(record, encoding, scenario.name, session);
  const handled = (record: SQSRecord): Promise<unknown> => batchscore.invoke([record]);
  const rare = records.slice(0, MOST_AFTER_PAUSE);
  const [bareMs = 0, batchscoreMs = 0, bareAfterPauseMs = 0, afterPauseMs = 0] = await takeTurns(
    [
      () => medianMs(records, 0, bare),
      () => medianMs(records, 0, handled),
      () => medianMs(rare, PAUSE_MS, bare),
      () => medianMs(rare, PAUSE_MS, handled),
    ],
    scenario.rounds,
  );
  return {
    scenario: scenario.name,
    encoding,
    bareMicroseconds: bareMs * 1000,
    batchscoreMicroseconds: batchscoreMs * 1000,
    overMicroseconds: (batchscoreMs - bareMs) * 1000,
    overPercent: (batchscoreMs / bareMs - 1) * 100,
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
  for (const record of records) {
    if (pauseMs > 0) await sleep(pauseMs);
    const startedAt = performance.now();
    await score(record);
    takenMs.push(performance.now() - startedAt);
  }
  return median(takenMs);
}
