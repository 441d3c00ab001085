import type { InferenceSession } from 'onnxruntime-node';
import { RANGES } from '../../lambda/core/limits.ts';
import type { Message } from '../workload/messages.ts';
import type { Scenario } from '../workload/scenarios.ts';
import { type Feeds, stackMessages } from './bareSession.ts';
import { leastPadding } from './leastPadding.ts';

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
    const leastMs = Math.min(...timed.map(({ ms }) => ms));
    timed.push({ parts, ms: await timeRuns(session, stackParts(parts, messages), leastMs * GIVEN_UP_AT) });
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
  return { bestRows, maxElements: Math.floor((RANGES.maxBatchElements.default * length) / elements) };
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

/** @returns Infinity when it took more than `mostMs` */
async function timeRuns(session: InferenceSession, runs: readonly Feeds[], mostMs = Infinity): Promise<number> {
  const startedAt = performance.now();
  for (const feeds of runs) {
    await session.run(feeds);
    if (performance.now() - startedAt > mostMs) return Infinity;
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
  const least = leastPadding(lengths, limits, counts.at(-1) as number);
  return counts.filter((count) => Number.isFinite(least.paddedElements(count))).map((count) => least.partition(count));
}

/**
 * Cuts into parts from the end, where the longest are, so that the rows of a part are those that its longest allows.
 *
 * @param mostRows of a part whose last is this one; at least one is taken
 */
function cutInto(indexes: readonly number[], mostRows: (last: number) => number): Parts {
  const parts: number[][] = [];
  for (let end = indexes.length; end > 0; ) {
    const from = Math.max(0, end - Math.max(1, mostRows(indexes[end - 1] as number)));
    parts.push(indexes.slice(from, end));
    end = from;
  }
  return parts.reverse();
}
