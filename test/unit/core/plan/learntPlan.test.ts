import { describe, expect, it } from '@jest/globals';
import type { MicroBatch, ScoringRequest } from '../../../../lambda/core/microBatch.ts';
import type { Cost } from '../../../../lambda/core/model.ts';
import { plan } from '../../../../lambda/core/plan.ts';
import { lineModel } from '../../../helpers/scoring.ts';
import { zeros } from '../requests.ts';

function planWith(cost: Cost, requests: readonly ScoringRequest[], maxElements = 1_000_000): MicroBatch[] {
  const planned = plan(
    () => maxElements,
    () => cost,
  );
  return [...requests.flatMap((request) => planned.add(request)), ...planned.finish()];
}

describe('rows of one shape, by what runs cost', () => {
  const rowsOf = (batches: readonly MicroBatch[]): number[] => batches.map(({ rows }) => rows);
  const ones = (count: number): ScoringRequest[] => {
    const model = lineModel({ maxBatchRows: 64 });
    return Array.from({ length: count }, () => zeros(model, 1));
  };

  it('stand in runs of the size that costs least a row, and it says so', () => {
    const batches = planWith((rows) => 1 + rows + 10 * Math.max(0, rows - 8), ones(20));
    expect(rowsOf(batches)).toEqual([8, 8, 4]);
    expect(batches.map(({ closedBecause }) => closedBecause)).toEqual(['dearer', 'dearer', 'end']);
  });

  it('fill micro-batches also where the last rows gain next to nothing', () => {
    const batches = planWith((rows) => 0.137 + 0.0045 * rows, ones(64));
    expect(batches.map(({ rows, closedBecause }) => [rows, closedBecause])).toEqual([[64, 'full']]);
  });

  it('are not filled up where the last rows are dear', () => {
    const model = lineModel({ maxBatchRows: 10 });
    const twenty = Array.from({ length: 20 }, () => zeros(model, 1));
    expect(rowsOf(planWith((rows) => 0.5 + rows + 10 * Math.max(0, rows - 9), twenty))).toEqual([9, 9, 2]);
  });

  it('are planned anew if runs cost something else, or the memory holds fewer', () => {
    const requests = ones(20);
    const eight: Cost = (rows) => 1 + rows + 10 * Math.max(0, rows - 8);
    expect(rowsOf(planWith(eight, requests))).toEqual([8, 8, 4]);
    expect(rowsOf(planWith((rows) => 1 + rows + 10 * Math.max(0, rows - 5), requests))).toEqual([5, 5, 5, 5]);
    expect(rowsOf(planWith(eight, requests))).toEqual([8, 8, 4]);
    expect(rowsOf(planWith(eight, requests, 4))).toEqual([4, 4, 4, 4, 4]);
  });

  it('stand in the smaller of runs that cost the same', () => {
    expect(rowsOf(planWith((rows) => rows, ones(4)))).toEqual([1, 1, 1, 1]);
  });
});
