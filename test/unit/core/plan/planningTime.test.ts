import { describe, expect, it } from '@jest/globals';
import {
  type LimitsAtLength,
  type LimitsByLength,
  limitsByLength,
  minCostPartition,
} from '../../../../lambda/core/plan.ts';
import { zeros } from '../requests.ts';
import { sentenceModel } from './runCosts.ts';

/** Lengths as sentences have them: log-normal, median 32, sigma 0.8, cut at 512. */
function sentenceLengths(count: number): number[] {
  let seed = 42;
  const random = (): number => {
    seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31;
    return (seed + 1) / (2 ** 31 + 1);
  };
  return Array.from({ length: count }, () => {
    const normal = Math.sqrt(-2 * Math.log(random())) * Math.cos(2 * Math.PI * random());
    return Math.min(512, Math.max(1, Math.round(32 * Math.exp(0.8 * normal))));
  });
}

/** How often a cost is looked at for each of so many sentences that are planned. */
function looksASentence(count: number): number {
  const model = sentenceModel({ maxBatchRows: 512 });
  const sample = zeros(model, 1);
  const limits = limitsByLength(sample, { maxElements: 65_536, learnt: undefined, maxRows: 512, mayCut: true });
  let looks = 0;
  const known = new Map<number, LimitsAtLength>();
  const counted: LimitsByLength = {
    furtherRowsCostMore: limits.furtherRowsCostMore,
    at(length) {
      const { costs, ...rest } = limits.at(length);
      const get = (target: Float64Array, key: string | symbol): unknown => {
        looks += 1;
        return Reflect.get(target, key);
      };
      const found = known.get(length) ?? { ...rest, costs: new Proxy(costs, { get }) };
      known.set(length, found);
      return found;
    },
  };
  const lengths = sentenceLengths(count).toSorted((a, b) => a - b);
  const spans = minCostPartition(
    lengths.map((length) => ({ request: { ...sample, length }, fromRow: 0, toRow: 1 })),
    counted,
  );
  expect(spans.at(-1)?.end).toBe(count);
  return looks / count;
}

describe('planning', () => {
  it('looks at few costs for each sentence, however many there are: O(n log n) and not O(n × rows of a run)', () => {
    const [few, many] = [looksASentence(10_000), looksASentence(40_000)];
    expect(few).toBeLessThan(40);
    expect(many / few).toBeLessThan(1.5);
  });
});
