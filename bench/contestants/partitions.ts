import type { InferenceSession } from 'onnxruntime-node';
import { SETTINGS } from '../../lambda/settings.ts';
import type { Message } from '../workload/messages.ts';
import type { Scenario } from '../workload/scenarios.ts';
import { stackParts } from './bareSession.ts';

/** A partition, as the indexes of the messages that are run together. */
export type Parts = readonly (readonly number[])[];

export interface PartLimits {
  readonly maxRows: number;
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
  bestRows: number,
): Promise<Parts> {
  if (lengths === undefined) return partsOf(messages, bestRows);
  const candidates = candidatesFor(messages, lengths.typical, limitsOf(messages, bestRows));
  const tried: { readonly parts: Parts; readonly ms: number }[] = [];
  const fastestFirst = () => tried.toSorted((a, b) => a.ms - b.ms);
  const time = async (parts: Parts): Promise<void> => {
    const giveUpMs = (fastestFirst()[0]?.ms ?? Number.POSITIVE_INFINITY) * GIVEN_UP_AT;
    tried.push({ parts, ms: await timeRuns(session, parts, messages, giveUpMs) });
  };
  await timeRuns(session, candidates[0] as Parts, messages, Number.POSITIVE_INFINITY);
  for (const parts of candidates) await time(parts);
  for (const { parts } of fastestFirst().slice(0, FINALISTS)) await time(parts);
  return fastestFirst()[0]?.parts ?? [];
}

/** @returns Infinity when it took more than `maxMs` */
async function timeRuns(
  session: InferenceSession,
  parts: Parts,
  messages: readonly Message[],
  maxMs: number,
): Promise<number> {
  const runs = stackParts(parts, messages);
  const startedAt = performance.now();
  for (const feeds of runs) {
    await session.run(feeds);
    if (performance.now() - startedAt > maxMs) return Number.POSITIVE_INFINITY;
  }
  return performance.now() - startedAt;
}

/** The limits that batchscore has, as these messages have them. */
export function limitsOf([first]: readonly Message[], maxRows: number): PartLimits {
  const { inputs, length } = first as Message;
  const elements = inputs.reduce((sum, { data }) => sum + data.length, 0);
  return { maxRows, maxElements: Math.floor((SETTINGS.maxBatchElements.default * length) / elements) };
}

/** In order of arrival. */
export function partsOf(messages: readonly Message[], rows: number): Parts {
  return cutInto(Array.from(messages.keys()), () => rows);
}

/** Partitions of messages whose lengths differ: those of least padding, and those of sorted runs. */
export function candidatesFor(messages: readonly Message[], typicalLength: number, limits: PartLimits): Parts[] {
  const lengths = messages.map(({ length }) => length);
  const sorted = inOrder(lengths);
  const fitting = (index: number): number => Math.floor(limits.maxElements / (lengths[index] as number));
  const fewest = Math.ceil(lengths.length / limits.maxRows);
  const counts = PARTS_TIMES.map((times) => Math.min(lengths.length, times * fewest));
  return [
    ...minPadding(lengths, limits, counts),
    ...SORTED_ROWS.map((rows) => cutInto(sorted, (index) => Math.min(rows, fitting(index)))),
    ...SORTED_LENGTHS.map((times) =>
      cutInto(sorted, (index) =>
        Math.min(Math.floor((times * typicalLength) / (lengths[index] as number)), fitting(index)),
      ),
    ),
  ];
}

/** The indexes of the lengths, the shortest first. */
function inOrder(lengths: readonly number[]): number[] {
  return Array.from(lengths.keys()).toSorted((a, b) => (lengths[a] as number) - (lengths[b] as number));
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

/**
 * For each of some numbers of parts, the partition of the lengths into at most so many that pads least; none where no
 * partition into so few keeps the limits.
 *
 * Exact: swapping members between two parts until one holds nothing longer than the other's shortest never pads more,
 * so neighbours in order of length are enough. `least[i]` with one part more, over the `i` shortest, is then the least
 * over every last part. O(most parts · n · maxRows).
 */
export function minPadding(
  lengths: readonly number[],
  { maxRows, maxElements }: PartLimits,
  counts: readonly number[],
): number[][][] {
  const order = inOrder(lengths);
  const sorted = order.map((index) => lengths[index] as number);
  const count = sorted.length;
  /** By number of parts: where the last part of the best partition of the `end` shortest begins. */
  const starts: Int32Array[] = [new Int32Array(count + 1)];
  let least = new Float64Array(count + 1).fill(Number.POSITIVE_INFINITY, 1);
  const found = new Map<number, number[][]>();
  for (let parts = 1; parts <= Math.max(...counts); parts++) {
    const best = least.slice();
    const start = Int32Array.from({ length: count + 1 }, (_, end) => end);
    for (let end = 1; end <= count; end++) {
      const longest = sorted[end - 1] as number;
      const rows = Math.min(end, maxRows, Math.floor(maxElements / longest));
      for (let from = end - 1; from >= end - rows; from--) {
        const elements = (least[from] as number) + (end - from) * longest;
        if (elements < (best[end] as number)) {
          best[end] = elements;
          start[end] = from;
        }
      }
    }
    least = best;
    starts.push(start);
    if (counts.includes(parts) && Number.isFinite(least[count])) found.set(parts, partitionBy(starts, order));
  }
  return counts.flatMap((parts) => {
    const partition = found.get(parts);
    return partition === undefined ? [] : [partition];
  });
}

function partitionBy(starts: readonly Int32Array[], order: readonly number[]): number[][] {
  const partition: number[][] = [];
  let end = order.length;
  for (const start of starts.toReversed()) {
    const from = start[end] as number;
    if (from < end) partition.unshift(order.slice(from, end));
    end = from;
  }
  return partition;
}
