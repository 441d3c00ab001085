import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { leastPadding, type PartLimits } from '../../../bench/contestants/partitions.ts';

/** Every partition of the lengths, in any grouping. */
function* partitionsOf(lengths: readonly number[]): Generator<number[][]> {
  const [first, ...rest] = lengths;
  if (first === undefined) {
    yield [];
    return;
  }
  for (const parts of partitionsOf(rest)) {
    yield [[first], ...parts];
    for (const [index, part] of parts.entries()) yield parts.with(index, [first, ...part]);
  }
}

function paddedElements(parts: readonly (readonly number[])[]): number {
  return parts.reduce((sum, part) => sum + part.length * Math.max(...part), 0);
}

function isAllowed(part: readonly number[], { maxRows, maxElements }: PartLimits): boolean {
  return part.length <= maxRows && part.length * Math.max(...part) <= maxElements;
}

function bruteForce(lengths: readonly number[], limits: PartLimits, maxParts: number): number {
  let min = Number.POSITIVE_INFINITY;
  for (const parts of partitionsOf(lengths)) {
    if (parts.length > maxParts || !parts.every((part) => isAllowed(part, limits))) continue;
    min = Math.min(min, paddedElements(parts));
  }
  return min;
}

const UNLIMITED: PartLimits = { maxRows: 1_000, maxElements: 1_000_000 };

describe('leastPadding', () => {
  it('puts like to like', () => {
    const min = leastPadding([9, 1, 10, 2], UNLIMITED, 2);
    expect(min.paddedElements(1)).toBe(40);
    expect(min.paddedElements(2)).toBe(24);
    expect(min.partition(2)).toEqual([
      [1, 3],
      [0, 2],
    ]);
  });

  it('finds what trying every partition finds', () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 1, max: 20 }), { minLength: 1, maxLength: 7 }),
        fc.integer({ min: 1, max: 7 }),
        fc.integer({ min: 1, max: 7 }),
        fc.integer({ min: 20, max: 80 }),
        (lengths, parts, maxRows, maxElements) => {
          const limits = { maxRows, maxElements };
          const min = leastPadding(lengths, limits, parts);
          expect(min.paddedElements(parts)).toBe(bruteForce(lengths, limits, parts));
        },
      ),
    );
  });

  it('gives the partition whose padding it tells, every length once and no limit exceeded', () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 1, max: 50 }), { minLength: 1, maxLength: 40 }),
        fc.integer({ min: 2, max: 8 }),
        (lengths, maxRows) => {
          const limits = { maxRows, maxElements: 200 };
          const min = leastPadding(lengths, limits, lengths.length);
          for (let parts = 1; parts <= lengths.length; parts++) {
            if (min.paddedElements(parts) === Number.POSITIVE_INFINITY) continue;
            const partition = min.partition(parts);
            const ofLengths = partition.map((part) => part.map((index) => lengths[index] as number));
            expect(partition.length).toBeLessThanOrEqual(parts);
            expect(partition.flat().toSorted((a, b) => a - b)).toEqual([...lengths.keys()]);
            expect(ofLengths.every((part) => isAllowed(part, limits))).toBe(true);
            expect(paddedElements(ofLengths)).toBe(min.paddedElements(parts));
          }
        },
      ),
    );
  });

  it('says so when there are too few parts', () => {
    const min = leastPadding([1, 2, 3], { maxRows: 1, maxElements: 10 }, 3);
    expect(min.paddedElements(2)).toBe(Number.POSITIVE_INFINITY);
    expect(() => min.partition(2)).toThrow('expected enough parts for 3 lengths under the limits, got 2');
  });
});
