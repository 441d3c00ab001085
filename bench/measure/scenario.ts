import type { SQSRecord } from 'aws-lambda';
import type { InferenceSession } from 'onnxruntime-node';
import { createBatchingWatch } from '../../lambda/core/verify.ts';
import type { Batchscore } from '../contestants/batchscore.ts';
import { planFirstCome } from '../contestants/firstCome.ts';
import { leastPadding } from '../contestants/leastPadding.ts';
import { prepareLimit } from '../contestants/limit.ts';
import { limitsOf, type PartitionLimits, type Parts } from '../contestants/partitions.ts';
import type { Sweep } from '../contestants/sweep.ts';
import { type Encoding, type Message, toRecords } from '../workload/messages.ts';
import type { Scenario } from '../workload/scenarios.ts';
import { takeTurns, timed } from './contest.ts';
import { watchRuns } from './watchRuns.ts';

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
  const least = leastPadding(allLengths, { maxRows: bestRows, maxElements }, seen.runs).paddedElements(seen.runs);
  const optimalPaddingShare = 1 - allLengths.reduce((sum, length) => sum + length, 0) / least;
  return { paddingShare, optimalPaddingShare, microBatches: seen.runs };
}

function lengthAt(messages: readonly Message[], index: number): number {
  return messages[index]?.length ?? 0;
}
