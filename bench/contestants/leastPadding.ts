/** What one part of a partition may hold. */
export interface PartLimits {
  readonly maxRows: number;
  /** Most rows times the longest length. */
  readonly maxElements: number;
}

/** The least elements that a partition of lengths can have, padding included. */
export interface LeastPadding {
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
 * Finds, for every number of parts up to `mostParts`, the partition of the lengths that pads least.
 *
 * Exact: swapping members between two parts until one holds nothing longer than the other's shortest never pads more,
 * so neighbours in order of length are enough. `least[parts][i]`, over the `i` shortest, is then the least over every
 * last part. O(mostParts · n · maxRows).
 */
export function leastPadding(lengths: readonly number[], limits: PartLimits, mostParts: number): LeastPadding {
  const order = Array.from(lengths.keys()).toSorted((a, b) => (lengths[a] as number) - (lengths[b] as number));
  const sorted = order.map((index) => lengths[index] as number);
  const count = sorted.length;
  const least: Float64Array[] = [new Float64Array(count + 1).fill(Number.POSITIVE_INFINITY)];
  const starts: Int32Array[] = [new Int32Array(count + 1)];
  (least[0] as Float64Array)[0] = 0;

  for (let parts = 1; parts <= mostParts; parts++) {
    const fewer = least[parts - 1] as Float64Array;
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
    least.push(best);
    starts.push(start);
  }

  const paddedElements = (parts: number): number =>
    (least[Math.min(parts, mostParts)] as Float64Array)[count] as number;
  return {
    paddedElements,
    partition(parts) {
      if (paddedElements(parts) === Number.POSITIVE_INFINITY) {
        throw new Error(`expected enough parts for ${count} lengths under the limits, got ${parts}`);
      }
      const partition: number[][] = [];
      for (let left = Math.min(parts, mostParts), end = count; end > 0; left--) {
        const from = (starts[left] as Int32Array)[end] as number;
        if (from < end) partition.push(order.slice(from, end));
        end = from;
      }
      return partition.reverse();
    },
  };
}
