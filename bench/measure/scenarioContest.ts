import { setTimeout as sleep } from 'node:timers/promises';
import type { SQSRecord } from 'aws-lambda';
import type { InferenceSession } from 'onnxruntime-node';
import { isFailure } from '../../lambda/core/failure.ts';
import { type MicroBatch, microBatchOf, type Part } from '../../lambda/core/microBatch.ts';
import type { Model, ModelRepository } from '../../lambda/core/model.ts';
import type { Planner } from '../../lambda/core/plan.ts';
import { createBatchingWatch } from '../../lambda/core/verify.ts';

import { scoreBare } from '../contestants/bareSession.ts';
import type { Batchscore } from '../contestants/openBatchscore.ts';
import {
  leastPadding,
  limitsOf,
  type PartitionLimits,
  type Parts,
  prepareLimit,
  type Sweep,
} from '../contestants/partitions.ts';
import { drawMessages, type Encoding, type Message, toRecords } from '../workload/messages.ts';
import type { Scenario } from '../workload/scenarios.ts';
import { median, takeTurns, timed } from './contest.ts';

/** One scenario in one encoding: medians of interleaved rounds. */
export interface ScenarioFigures {
  readonly scenario: string;
  readonly encoding: Encoding;
  readonly messages: number;
  /** The limit's time divided by batchscore's. */
  readonly efficiency: number;
  readonly speedupOverOneByOne: number;
  readonly speedupOverFirstCome: number;
  /** Padding as a share of the elements that were run. */
  readonly paddingShare: number;
  /** The least of any partition into as many micro-batches under the same limits. */
  readonly optimalPaddingShare: number;
  /** Most rows in a run, for every contestant but one by one. */
  readonly bestRows: number;
  /** Rows per second at that size over those at one row: the most that batching can gain with this model. */
  readonly batchingGain: number;
  readonly microBatches: number;
  readonly limitMs: number;
  readonly batchscoreMs: number;
  readonly firstComeMs: number;
  /** For all messages, projected from a sample. */
  readonly oneByOneMs: number;
}

/**
 * @param parts the fastest partition of the messages
 * @param batchscore serves the scenario's model at the size that the sweep found best
 */
export async function measureScenario(
  scenario: Scenario,
  encoding: Encoding,
  messages: readonly Message[],
  session: InferenceSession,
  found: Sweep,
  parts: Parts,
  batchscore: Batchscore,
): Promise<ScenarioFigures> {
  const count = messages.length;
  const records = toRecords(messages, encoding);
  const firstCome = batchscore.with({ plan: planFirstCome });
  const limit = await prepareLimit(session, scenario, messages, records, encoding, parts);
  const sample = sampleOf(messages, records, Math.min(scenario.oneByOneMessages, count));
  const padding = await measurePadding(batchscore, scenario, messages, records, limitsOf(messages, found.bestRows));
  const [limitMs = 0, oneByOneSampleMs = 0, firstComeMs = 0, batchscoreMs = 0] = await takeTurns(
    [
      limit.measureMs,
      timed(async () => {
        for (const record of sample) await batchscore.invoke([record]);
      }),
      timed(() => firstCome.invoke(records)),
      timed(() => batchscore.invoke(records)),
    ],
    scenario.rounds,
  );
  const oneByOneMs = (oneByOneSampleMs / sample.length) * count;
  return {
    scenario: scenario.name,
    encoding,
    messages: count,
    efficiency: limitMs / batchscoreMs,
    speedupOverOneByOne: oneByOneMs / batchscoreMs,
    speedupOverFirstCome: firstComeMs / batchscoreMs,
    ...padding,
    bestRows: found.bestRows,
    batchingGain: found.gain,
    limitMs,
    batchscoreMs,
    firstComeMs,
    oneByOneMs,
  };
}

/** Records of every length, as often as it occurs: the middle one of each of `size` strata of equal size. */
function sampleOf(messages: readonly Message[], records: readonly SQSRecord[], size: number): SQSRecord[] {
  const byLength = Array.from(messages.keys()).toSorted((a, b) => lengthAt(messages, a) - lengthAt(messages, b));
  return Array.from({ length: size }, (_, stratum) => {
    const middle = Math.floor(((stratum + 0.5) * messages.length) / size);
    return records[byLength[middle] as number] as SQSRecord;
  });
}

async function measurePadding(
  batchscore: Batchscore,
  { lengths }: Scenario,
  messages: readonly Message[],
  records: SQSRecord[],
  { bestRows, maxElements }: PartitionLimits,
): Promise<Pick<ScenarioFigures, 'paddingShare' | 'optimalPaddingShare' | 'microBatches'>> {
  const { models, seen } = watchRuns(batchscore.scoring.models);
  // Rows that are run once more to be compared are no padding.
  await batchscore.with({ models, batching: createBatchingWatch(0) }).invoke(records);
  const realElements = messages.reduce(
    (sum, { inputs }) => sum + inputs.reduce((n, { data }) => n + data.length, 0),
    0,
  );
  const paddingShare = 1 - realElements / seen.elements;
  if (lengths === undefined) return { paddingShare, optimalPaddingShare: 0, microBatches: seen.runs };
  const allLengths = messages.map(({ length }) => length);
  const min = leastPadding(allLengths, { maxRows: bestRows, maxElements }, seen.runs).paddedElements(seen.runs);
  const optimalPaddingShare = 1 - allLengths.reduce((sum, length) => sum + length, 0) / min;
  return { paddingShare, optimalPaddingShare, microBatches: seen.runs };
}

function lengthAt(messages: readonly Message[], index: number): number {
  return messages[index]?.length ?? 0;
}

/** What the models were really given to run. */
interface RunsSeen {
  runs: number;
  /** Elements of all inputs, padding included. */
  elements: number;
}

/** The same models, with what they are given counted. Not for timed runs. */
function watchRuns(models: ModelRepository): { readonly models: ModelRepository; readonly seen: RunsSeen } {
  const seen: RunsSeen = { runs: 0, elements: 0 };
  const watchedModels = new Map<Model, Model>();
  const watch = (model: Model): Model => {
    const watched: Model = watchedModels.get(model) ?? {
      ...model,
      run(inputs) {
        seen.runs += 1;
        for (const { data } of inputs) seen.elements += data.length;
        return model.run(inputs);
      },
    };
    watchedModels.set(model, watched);
    return watched;
  };
  return {
    seen,
    models: {
      async find(name, version) {
        const found = await models.find(name, version);
        return isFailure(found) ? found : watch(found);
      },
    },
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
const MAX_AFTER_PAUSE = 15;
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
  const rare = records.slice(0, MAX_AFTER_PAUSE);
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
