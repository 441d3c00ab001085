import { describe, expect, it } from '@jest/globals';
import { estimatedJob } from '../../../helpers/jobs.ts';

const within5Percent = (expected: number) => [0.95 * expected, 1.05 * expected] as const;

describe('the estimate of a job', () => {
  it.each([
    [1e6, 0.0019],
    [1e8, 0.19],
    [1e10, 19],
  ])('of %d rows is %d $', (rows, dollars) => {
    const { dollars: got } = estimatedJob(rows);
    const [min, max] = within5Percent(dollars);
    expect(got.all).toBeGreaterThanOrEqual(min);
    expect(got.all).toBeLessThanOrEqual(max);
    expect(got.compute + got.objects + got.transitions).toBeCloseTo(got.all, 10);
  });

  it('of ten thousand million rows is 42 minutes with 200 calls at a time', () => {
    const { minutes, parts, pieces } = estimatedJob(1e10);
    expect(minutes).toBeCloseTo(41.7, 1);
    expect(parts).toBe(Math.ceil(5e12 / (96 * 2 ** 20)));
    expect(pieces).toBe(Math.ceil(5e12 / (16 * 2 ** 20)));
  });

  it('counts no more calls at a time than there are parts', () => {
    expect(estimatedJob(1e6).minutes).toBeCloseTo(50 / 5 / 60, 5);
    expect(estimatedJob(0)).toMatchObject({ parts: 1, pieces: 0, minutes: 0, dollarsPerMillion: 0 });
  });
});
