import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { candidatesFor, minPadding, type PartLimits } from '../../../bench/contestants/partitions.ts';
import { drawMessages, type Message } from '../../../bench/workload/messages.ts';
import { scenarioNamed } from '../../../bench/workload/scenarios.ts';

const ENCODER = scenarioNamed('encoder');
const MESSAGES = [...drawMessages(ENCODER, 200)];

function lengthsOf(part: readonly number[]): number[] {
  return part.map((index) => (MESSAGES[index] as Message).length);
}

describe('the partitions that the fastest is looked for among', () => {
  const candidates = candidatesFor(MESSAGES, 24, { maxRows: 16, maxElements: 2 ** 21 });

  it('hold every message once, and no run more than it may', () => {
    const maxElements = 1024;
    for (const parts of candidatesFor(MESSAGES, 24, { maxRows: 16, maxElements })) {
      expect(parts.flat().toSorted((a, b) => a - b)).toEqual([...MESSAGES.keys()]);
      for (const part of parts) expect(part.length * Math.max(...lengthsOf(part))).toBeLessThanOrEqual(maxElements);
    }
  });

  it.each([1, 2, 4, 8, 16, 32, 64])('include runs of %i rows in order of length', (rows) => {
    const runs = candidates.find((parts) => parts.slice(1, 3).every((part) => part.length === rows));
    const lengths = lengthsOf((runs ?? []).flat());
    expect(lengths).toHaveLength(MESSAGES.length);
    expect(lengths).toEqual(lengths.toSorted((a, b) => a - b));
  });
});

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

function minByTrying(lengths: readonly number[], limits: PartLimits, maxParts: number): number | undefined {
  const allowed = [...partitionsOf(lengths)].filter(
    (parts) => parts.length <= maxParts && parts.every((part) => isAllowed(part, limits)),
  );
  return allowed.length === 0 ? undefined : Math.min(...allowed.map(paddedElements));
}

describe('minPadding', () => {
  it('puts like to like, for each number of parts', () => {
    expect(minPadding([9, 1, 10, 2], { maxRows: 1_000, maxElements: 1_000_000 }, [1, 2])).toEqual([
      [[1, 3, 0, 2]],
      [
        [1, 3],
        [0, 2],
      ],
    ]);
  });

  it('finds what trying every partition finds, every length once and no limit exceeded', () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 1, max: 20 }), { minLength: 1, maxLength: 7 }),
        fc.integer({ min: 1, max: 7 }),
        fc.integer({ min: 1, max: 7 }),
        fc.integer({ min: 20, max: 80 }),
        (lengths, maxParts, maxRows, maxElements) => {
          const limits = { maxRows, maxElements };
          const [found] = minPadding(lengths, limits, [maxParts]);
          const parts = found?.map((part) => part.map((index) => lengths[index] as number));
          expect(parts && paddedElements(parts)).toBe(minByTrying(lengths, limits, maxParts));
          if (found === undefined) return;
          expect(found.length).toBeLessThanOrEqual(maxParts);
          expect(found.flat().toSorted((a, b) => a - b)).toEqual([...lengths.keys()]);
          expect(parts?.every((part) => isAllowed(part, limits))).toBe(true);
        },
      ),
    );
  });
});
