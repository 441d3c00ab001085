import { describe, expect, it } from '@jest/globals';
import { planAll, zeros } from '../requests.ts';
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

/** The fastest of several plans for so many sentences. */
function msToPlan(count: number): number {
  const model = sentenceModel({ maxBatchRows: 512 });
  const { inputs, ...like } = zeros(model, 1);
  const requests = sentenceLengths(count).map((length) => {
    return { ...like, length, inputs: inputs.map((input) => ({ ...input, shape: [1, length] })) };
  });
  const times = Array.from({ length: 5 }, () => {
    const startedAt = performance.now();
    planAll(requests, { maxBatchElements: 65_536 });
    return performance.now() - startedAt;
  });
  return Math.min(...times);
}

describe('planning', () => {
  it('takes well under 200 ms for 10,000 sentences, also on a busy machine, and grows with their number only', () => {
    const [few, many] = [msToPlan(10_000), msToPlan(40_000)];
    expect(few).toBeLessThan(200);
    expect(many / few).toBeLessThan(9);
  });
});
