import type { SQSRecord } from 'aws-lambda';
import type { InferenceSession } from 'onnxruntime-node';
import { SETTINGS } from '../../lambda/settings.ts';
import type { Message } from '../workload/messages.ts';
import { drawTypicalMessages, type Encoding, toBase64, toNumbers } from '../workload/messages.ts';

import type { Scenario } from '../workload/scenarios.ts';
import { type Feeds, stackMessages } from './bareSession.ts';

/** A partition, as the indexes of the messages that are run together. */
export type Parts = readonly (readonly number[])[];

/** What a part may hold. */
export interface PartitionLimits {
  /** The size that the sweep found best. */
  readonly bestRows: number;
  /** Most rows times the longest length. */
  readonly maxElements: number;
}

/** Partitions into so many times the fewest parts of the best size are looked for by their padding. */
const PARTS_TIMES = [1, 2, 3, 4, 5, 6, 7, 8];
/** Rows of the runs that messages in order of length are cut into. */
const SORTED_ROWS = [1, 2, 4, 8, 16, 32, 64];
/** Rows times the longest length, in typical lengths, of runs that take many short messages or a few long ones. */
const SORTED_LENGTHS = [2, 4, 8, 16, 32, 64];
/** A partition that takes so much longer than the fastest is not run to its end. */
const GIVEN_UP_AT = 1.2;
/** So many of the fastest are run once more. */
const FINALISTS = 3;

/** The partition whose runs take the least time of many; where lengths do not differ, the one into parts of the best size. */
export async function fastestPartition(
  session: InferenceSession,
  { lengths }: Scenario,
  messages: readonly Message[],
  limits: PartitionLimits,
): Promise<Parts> {
  if (lengths === undefined) return partsOf(messages, limits.bestRows);
  const candidates = candidatesFor(messages, lengths.typical, limits);
  const timed: { readonly parts: Parts; readonly ms: number }[] = [];
  const time = async (parts: Parts): Promise<void> => {
    const minMs = Math.min(...timed.map(({ ms }) => ms));
    timed.push({ parts, ms: await timeRuns(session, stackParts(parts, messages), minMs * GIVEN_UP_AT) });
  };
  await timeRuns(session, stackParts(candidates[0] as Parts, messages));
  for (const parts of candidates) await time(parts);
  for (const { parts } of fastestFirst(timed).slice(0, FINALISTS)) await time(parts);
  return (fastestFirst(timed)[0] as { parts: Parts }).parts;
}

/** The limits that batchscore has, as these messages have them. */
export function limitsOf([first]: readonly Message[], bestRows: number): PartitionLimits {
  const { inputs, length } = first as Message;
  const elements = inputs.reduce((sum, { data }) => sum + data.length, 0);
  return { bestRows, maxElements: Math.floor((SETTINGS.maxBatchElements.default * length) / elements) };
}

/** In order of arrival. */
export function partsOf(messages: readonly Message[], rows: number): Parts {
  return cutInto(Array.from(messages.keys()), () => rows);
}

function fastestFirst<T extends { readonly ms: number }>(timed: readonly T[]): T[] {
  return timed.toSorted((a, b) => a.ms - b.ms);
}

/** The tensors of every run. */
export function stackParts(parts: Parts, messages: readonly Message[]): Feeds[] {
  return parts.map((part) => stackMessages(part.map((index) => messages[index] as Message)));
}

/** @returns Infinity when it took more than `maxMs` */
async function timeRuns(session: InferenceSession, runs: readonly Feeds[], maxMs = Infinity): Promise<number> {
  const startedAt = performance.now();
  for (const feeds of runs) {
    await session.run(feeds);
    if (performance.now() - startedAt > maxMs) return Infinity;
  }
  return performance.now() - startedAt;
}

/** Partitions of messages whose lengths differ: those of least padding, and those of sorted runs. */
export function candidatesFor(
  messages: readonly Message[],
  typicalLength: number,
  { bestRows, maxElements }: PartitionLimits,
): Parts[] {
  const lengths = messages.map(({ length }) => length);
  const sorted = Array.from(lengths.keys()).toSorted((a, b) => (lengths[a] as number) - (lengths[b] as number));
  const fitting = (index: number): number => Math.floor(maxElements / (lengths[index] as number));
  return [
    ...ofLeastPadding(lengths, { maxRows: bestRows, maxElements }),
    ...SORTED_ROWS.map((rows) => cutInto(sorted, (index) => Math.min(rows, fitting(index)))),
    ...SORTED_LENGTHS.map((times) =>
      cutInto(sorted, (index) =>
        Math.min(Math.floor((times * typicalLength) / (lengths[index] as number)), fitting(index)),
      ),
    ),
  ];
}

function ofLeastPadding(lengths: readonly number[], limits: Parameters<typeof leastPadding>[1]): Parts[] {
  const fewest = Math.ceil(lengths.length / limits.maxRows);
  const counts = PARTS_TIMES.map((times) => Math.min(lengths.length, times * fewest));
  const min = leastPadding(lengths, limits, counts.at(-1) as number);
  return counts.filter((count) => Number.isFinite(min.paddedElements(count))).map((count) => min.partition(count));
}

/**
 * Cuts into parts from the end, where the longest are, so that the rows of a part are those that its longest allows.
 *
 * @param rowsAtMost of a part whose last is this one; at least one is taken
 */
function cutInto(indexes: readonly number[], rowsAtMost: (last: number) => number): Parts {
  const parts: number[][] = [];
  for (let end = indexes.length; end > 0; ) {
    const from = Math.max(0, end - Math.max(1, rowsAtMost(indexes[end - 1] as number)));
    parts.push(indexes.slice(from, end));
    end = from;
  }
  return parts.reverse();
}

/** What one part of a partition may hold. */
export interface PartLimits {
  readonly maxRows: number;
  /** Most rows times the longest length. */
  readonly maxElements: number;
}

/** The least elements that a partition of lengths can have, padding included. */
interface LeastPadding {
  /** Elements with padding of the best partition into at most `parts` parts; Infinity where there is none. */
  paddedElements(parts: number): number;
  /**
   * That partition, as the indexes of the lengths.
   *
   * @throws Error where there is none
   */
  partition(parts: number): number[][];
}

/**
 * Finds, for every number of parts up to `maxParts`, the partition of the lengths that pads least.
 *
 * Exact: swapping members between two parts until one holds nothing longer than the other's shortest never pads more,
 * so neighbours in order of length are enough. `least[parts][i]`, over the `i` shortest, is then the least over every
 * last part. O(maxParts · n · maxRows).
 */
export function leastPadding(lengths: readonly number[], limits: PartLimits, maxParts: number): LeastPadding {
  const order = Array.from(lengths.keys()).toSorted((a, b) => (lengths[a] as number) - (lengths[b] as number));
  const sorted = order.map((index) => lengths[index] as number);
  const count = sorted.length;
  const min: Float64Array[] = [new Float64Array(count + 1).fill(Number.POSITIVE_INFINITY)];
  const starts: Int32Array[] = [new Int32Array(count + 1)];
  (min[0] as Float64Array)[0] = 0;

  for (let parts = 1; parts <= maxParts; parts++) {
    const fewer = min[parts - 1] as Float64Array;
    const best = fewer.slice();
    const start = Int32Array.from({ length: count + 1 }, (_, end) => end);
    for (let end = 1; end <= count; end++) {
      const longest = sorted[end - 1] as number;
      const rows = Math.min(end, limits.maxRows, Math.floor(limits.maxElements / longest));
      for (let from = end - 1; from >= end - rows; from--) {
        const elements = (fewer[from] as number) + (end - from) * longest;
        if (elements < (best[end] as number)) {
          best[end] = elements;
          start[end] = from;
        }
      }
    }
    min.push(best);
    starts.push(start);
  }

  const paddedElements = (parts: number): number => (min[Math.min(parts, maxParts)] as Float64Array)[count] as number;
  return {
    paddedElements,
    partition(parts) {
      if (paddedElements(parts) === Number.POSITIVE_INFINITY) {
        throw new Error(`expected enough parts for ${count} lengths under the limits, got ${parts}`);
      }
      const partition: number[][] = [];
      for (let left = Math.min(parts, maxParts), end = count; end > 0; left--) {
        const from = (starts[left] as Int32Array)[end] as number;
        if (from < end) partition.push(order.slice(from, end));
        end = from;
      }
      return partition.reverse();
    },
  };
}

/** What was found by running the model at several sizes. */
export interface Sweep {
  /** The smallest size within 2 % of the most rows per second: of equals, the one that takes the least memory. */
  readonly bestRows: number;
  /** Rows per second at the best size, divided by those at one row. */
  readonly gain: number;
  readonly rowsPerSecond: number;
}

const SIZES = Array.from({ length: 11 }, (_, power) => 2 ** power);
const TIE = 0.02;
const ROUNDS = 5;
const TRIED_FOR_MS = 30;
/** Sizes above one that takes longer are not tried. */
const LONGEST_RUN_MS = 300;

/** A size, and the fastest of its runs: whatever else the machine does only makes runs slower. */
interface Trial {
  readonly rows: number;
  readonly feeds: Feeds;
  fastestMs: number;
}

/**
 * Runs the model at 1, 2, 4, … rows of typical length, in rounds one after the other.
 *
 * @param rowsAtMost the largest size
 */
export async function sweep(session: InferenceSession, scenario: Scenario, rowsAtMost = 1024): Promise<Sweep> {
  const trials: Trial[] = [];
  for (const rows of SIZES.filter((size) => size <= rowsAtMost)) {
    const trial = {
      rows,
      feeds: stackMessages(drawTypicalMessages(scenario, rows)),
      fastestMs: Number.POSITIVE_INFINITY,
    };
    await session.run(trial.feeds);
    await runFor(TRIED_FOR_MS, session, trial);
    trials.push(trial);
    if (trial.fastestMs > LONGEST_RUN_MS) break;
  }
  for (let round = 1; round < ROUNDS; round++) {
    for (const trial of trials) await runFor(TRIED_FOR_MS, session, trial);
  }
  return choose(trials as [Trial, ...Trial[]]);
}

async function runFor(ms: number, session: InferenceSession, trial: Trial): Promise<void> {
  const until = performance.now() + ms;
  do {
    const startedAt = performance.now();
    await session.run(trial.feeds);
    trial.fastestMs = Math.min(trial.fastestMs, performance.now() - startedAt);
  } while (performance.now() < until);
}

function choose(trials: readonly [Trial, ...Trial[]]): Sweep {
  const rate = ({ rows, fastestMs }: Trial): number => rows / fastestMs;
  const max = Math.max(...trials.map(rate));
  const [one] = trials;
  const best = trials.find((trial) => rate(trial) >= max * (1 - TIE)) ?? one;
  return {
    bestRows: best.rows,
    gain: rate(best) / rate(one),
    rowsPerSecond: 1000 * rate(best),
  };
}

/** The work that no scorer of these bodies can do without, and nothing else. */
interface Limit {
  /** Milliseconds of JSON.parse over every body, of every run, and of JSON.stringify over every result. */
  measureMs(): Promise<number>;
}

/**
 * Builds the tensors and the result objects beforehand: that is not timed.
 *
 * @param parts which messages are run together
 */
export async function prepareLimit(
  session: InferenceSession,
  scenario: Scenario,
  messages: readonly Message[],
  records: readonly SQSRecord[],
  encoding: Encoding,
  parts: Parts,
): Promise<Limit> {
  const batches = stackParts(parts, messages);
  const results = await resultsOf(session, scenario, batches, parts, messages, records, encoding);
  return {
    async measureMs() {
      const startedAt = performance.now();
      let characters = 0;
      for (const { body } of records) JSON.parse(body);
      for (const feeds of batches) await session.run(feeds);
      for (const result of results) characters += JSON.stringify(result).length;
      const ms = performance.now() - startedAt;
      if (characters === 0) throw new Error('expected results to write, got none');
      return ms;
    },
  };
}

async function resultsOf(
  session: InferenceSession,
  { name }: Scenario,
  batches: readonly Feeds[],
  parts: Parts,
  messages: readonly Message[],
  records: readonly SQSRecord[],
  encoding: Encoding,
): Promise<object[]> {
  const results: object[] = [];
  for (const [batch, feeds] of batches.entries()) {
    const rowsOf = Object.entries(await session.run(feeds)).map(([output, { dims, data }]) => {
      const width = data.length / (dims[0] as number);
      const shape = [1, ...dims.slice(1)];
      return (row: number) => ({ output, shape, values: (data as Float32Array).slice(row * width, (row + 1) * width) });
    });
    for (const [row, index] of (parts[batch] as readonly number[]).entries()) {
      const outputs = rowsOf.map((rowAt) => rowAt(row));
      const described = outputs.map(({ output, shape }) => ({ name: output, datatype: 'FP32', shape }));
      const head = {
        message_id: (records[index] as SQSRecord).messageId,
        id: (messages[index] as Message).id,
        model_name: name,
        model_version: '1',
      };
      results.push(
        encoding === 'binary'
          ? { ...head, outputs: described, raw_output_contents: outputs.map(({ values }) => toBase64(values)) }
          : {
              ...head,
              outputs: described.map((output, at) => ({
                ...output,
                data: toNumbers((outputs[at] as { values: Float32Array }).values),
              })),
            },
      );
    }
  }
  return results;
}
