import type { Model } from '../../core/contract/model.ts';
import { elementsPerRowAt, type Part } from '../../core/plan/microBatch.ts';
import type { ProbeSet } from './rowCheck.ts';

/**
 * Odd and even counts, powers of two and none, fewer and more rows than a vector has lanes, and the most there are; else
 * the ladder's rungs.
 */
const ROW_COUNTS = [3, 7, 8, 32, 33, 100];
export const MANY_ROWS = 32;

export function elementsOf(probe: Part | undefined): number {
  if (probe === undefined) return 0;
  return elementsPerRowAt(probe.request, probe.request.length);
}

/**
 * The row counts at which a row has neighbours, the first of them the one that tells most for its time.
 *
 * @param isThorough also at 2, 4, 8, … rows
 */
export function rowCountsOf({ ladder, maxBatchRows }: Model, isThorough: boolean): number[] {
  const more = isThorough ? rungsUpTo(maxBatchRows) : [maxBatchRows];
  const all = ladder.length > 0 ? ladder : [...new Set([...ROW_COUNTS, ...more])].toSorted((a, b) => a - b);
  const counts = all.filter((count) => count > 1 && count <= maxBatchRows);
  const [telling = counts[0]] = counts.filter((count) => count > 2);
  return telling === undefined ? [] : [telling, ...counts.filter((count) => count !== telling)];
}

/** One probe among others, among copies of another, at the end, and among copies of itself. */
export function companiesOf(
  probes: readonly Part[],
  count: number,
): [others: Part[], copies: Part[], last: Part[], equal: Part[]] {
  const [p, q = p, r = q, s = r] = probes as [Part, ...Part[]];
  const behind = (first: Part, others: readonly Part[]): Part[] => [first, ...fill(others, count - 1)];
  return [behind(p, [r, s, q]), behind(p, [q]), behind(p, [q, s]).reverse(), behind(p, [p])];
}

/** All probes in turn, in companies of so many: forwards and backwards, and beginning at others where it is thorough. */
export function companiesOfPool(
  pool: readonly Part[],
  count: number,
  { ladder }: Model,
  isThorough: boolean,
): (readonly Part[])[] {
  const first = fill(pool, count);
  if (count >= MANY_ROWS && ladder.length === 0 && !isThorough) return [first];
  const both = [first, fill(pool.toReversed(), count)];
  if (!isThorough) return both;
  const turned = [1, 2].map((third) => Math.floor((third * pool.length) / 3)).filter((start) => start > 0);
  return [...both, ...turned.map((start) => fill([...pool.slice(start), ...pool.slice(0, start)], count))];
}

/** The probes of all sets in turn, as far as they can share a run: those of the first one's trailing shapes. */
export function poolOf(sets: readonly ProbeSet[]): Part[] {
  const [first] = sets;
  if (first === undefined) return [];
  const alike = sets.filter(({ probes }) => shapeOf(probes[0]) === shapeOf(first.probes[0]));
  const longest = Math.max(...alike.map(({ probes }) => probes.length));
  return Array.from({ length: longest }, (_, index) => alike.flatMap(({ probes }) => probes[index] ?? [])).flat();
}

function shapeOf(probe: Part | undefined): string {
  return probe?.request.inputs.map(({ shape }) => shape.slice(1).join()).join(';') ?? '';
}

/** So many rows, the parts one after the other again and again. */
function fill(parts: readonly Part[], count: number): Part[] {
  return Array.from({ length: count }, (_, index) => parts[index % parts.length] as Part);
}

/** 1, 2, 4, … below `most`, and `most`. */
export function rungsUpTo(most: number): number[] {
  const powers = Array.from({ length: Math.ceil(Math.log2(most)) }, (_, power) => 2 ** power);
  return [...powers, most];
}
