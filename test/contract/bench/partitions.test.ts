import { describe, expect, it } from '@jest/globals';
import { candidatesFor, limitsOf, partsOf } from '../../../bench/contestants/partitions.ts';
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

  it('include runs of few long texts and many short ones', () => {
    const mixed = candidates.filter((parts) => {
      const [shortest, longest] = [parts[1], parts.at(-1)] as [readonly number[], readonly number[]];
      return shortest.length >= 8 * longest.length;
    });
    expect(mixed.length).toBeGreaterThan(1);
  });
});

describe('partsOf', () => {
  it('takes messages in the order in which they came', () => {
    expect(partsOf(MESSAGES.slice(0, 5), 2)).toEqual([[0], [1, 2], [3, 4]]);
  });
});

describe('limitsOf', () => {
  it('counts the elements of all inputs', () => {
    expect(limitsOf(MESSAGES, 16)).toEqual({ maxRows: 16, maxElements: 2 ** 22 / 2 });
    expect(limitsOf([...drawMessages(scenarioNamed('bytes'), 1)], 2)).toEqual({ maxRows: 2, maxElements: 2 ** 22 });
  });
});
