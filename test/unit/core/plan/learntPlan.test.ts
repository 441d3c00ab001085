import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { fitCost } from '../../../../lambda/core/cost.ts';
import type { MicroBatch } from '../../../../lambda/core/microBatch.ts';
import type { Cost } from '../../../../lambda/core/model.ts';
import { plan } from '../../../../lambda/core/plan.ts';
import type { ScoringRequest } from '../../../../lambda/core/scoringRequest.ts';
import { lineModel } from '../../../helpers/models.ts';
import { zeros } from '../requests.ts';
import { leastOfAllCuts, type Piece, type RunCost, sentenceModel } from './runCosts.ts';
import {
  leastMs,
  measuredAtStart,
  msOf,
  OUTSIDE_MS,
  SURFACE_NAMES,
  SURFACES,
  type Surface,
  seeded,
  textLengths,
} from './surfaces.ts';

function planWith(learnt: Cost, requests: readonly ScoringRequest[], maxElements = 1_000_000): MicroBatch[] {
  const planned = plan(
    () => maxElements,
    () => learnt,
  );
  return [...requests.flatMap((request) => planned.add(request)), ...planned.finish()];
}

const COSTS = [...SURFACE_NAMES, 'fasterAlone'] as const;

function learntCost(name: (typeof COSTS)[number]): Cost {
  if (name === 'fasterAlone') return (rows, length) => 1 + (rows > 1 ? 2 + 0.06 * rows * length : 0.05 * length);
  const { costOf } = fitCost(measuredAtStart(SURFACES[name]).map((run) => ({ ...run, times: 15 })));
  return (rows, length) => OUTSIDE_MS + costOf(rows, length);
}

const anyPieces = fc.array(
  fc.record({ rows: fc.integer({ min: 1, max: 3 }), length: fc.integer({ min: 1, max: 200 }) }),
  { minLength: 1, maxLength: 9 },
);

describe('a plan by what was learnt', () => {
  it.each(COSTS)('costs the least of all ways to cut requests in order of length: %s', (name) => {
    const cost = learntCost(name);
    const maxBatchRows = 5;
    const model = sentenceModel({ maxBatchRows });
    const maxElements = 400;
    const runCost: RunCost = (pieces) => {
      const rows = pieces.reduce((sum, piece) => sum + piece.rows, 0);
      const length = Math.max(...pieces.map((piece) => piece.length));
      const fits = rows <= maxBatchRows && rows * length <= maxElements;
      return fits || rows === 1 ? cost(rows, length) : Number.POSITIVE_INFINITY;
    };
    const whole = (pieces: readonly Piece[]): Piece[] =>
      pieces.filter((piece) => runCost([piece]) < Number.POSITIVE_INFINITY);
    fc.assert(
      fc.property(anyPieces.map(whole), (pieces) => {
        const sorted = pieces.toSorted((a, b) => a.length - b.length);
        const requests = pieces.map(({ rows, length }) => zeros(model, rows, length));
        const batches = planWith(cost, requests, maxElements);
        const total = batches.reduce((sum, { rows, paddedLength }) => sum + cost(rows, paddedLength), 0);
        expect(total).toBeCloseTo(leastOfAllCuts(sorted, runCost), 6);
      }),
      { numRuns: 150 },
    );
  });

  it('costs the least there is for many texts, also of a model that is faster with one row', () => {
    const alone: Surface = (rows, length) => 1 + (rows > 1 ? 0.5 + 0.045 * rows * length : 0.04 * length);
    const lengths = textLengths(120, seeded(9));
    const model = sentenceModel({ maxBatchRows: 40 });
    const batches = planWith(
      (rows, length) => OUTSIDE_MS + alone(rows, length),
      lengths.map((length) => zeros(model, 1, length)),
    );
    const runs = batches.map(({ rows, paddedLength }) => ({ rows, length: paddedLength }));
    expect(msOf(runs, alone)).toBeCloseTo(leastMs(lengths, alone, 40), 6);
  });

  it('says that more rows would have been dearer together', () => {
    const model = sentenceModel({ maxBatchRows: 100 });
    const beyondFour: Cost = (rows) => 1 + rows + 10 * Math.max(0, rows - 4);
    const batches = planWith(
      beyondFour,
      Array.from({ length: 8 }, () => zeros(model, 1, 10)),
    );
    expect(batches.map(({ rows, closedBecause }) => [rows, closedBecause])).toEqual([
      [4, 'dearer'],
      [4, 'end'],
    ]);
  });

  it('says that padding was too dear where it was', () => {
    const model = sentenceModel({ maxBatchRows: 100 });
    const lengths = [2, 2, 100];
    const batches = planWith(
      (rows, length) => 1 + rows * length,
      lengths.map((length) => zeros(model, 1, length)),
    );
    expect(batches.map(({ rows, closedBecause }) => [rows, closedBecause])).toEqual([
      [2, 'padding'],
      [1, 'end'],
    ]);
  });

  it('goes by what the model itself says of its cost, if it does', () => {
    const model = { ...sentenceModel(), cost: (rows: number) => rows ** 2 };
    const batches = planWith(() => 1, [zeros(model, 1, 5), zeros(model, 1, 5)]);
    expect(batches.map(({ rows }) => rows)).toEqual([1, 1]);
  });
});

describe('rows of one shape, by what was learnt', () => {
  const rowsOf = (batches: readonly MicroBatch[]): number[] => batches.map(({ rows }) => rows);
  const ones = (count: number): ScoringRequest[] => {
    const model = lineModel({ maxBatchRows: 64 });
    return Array.from({ length: count }, () => zeros(model, 1));
  };

  it('fill micro-batches where an overhead is shared', () => {
    const batches = planWith((rows) => 10 + 0.01 * rows, ones(130));
    expect(rowsOf(batches)).toEqual([64, 64, 2]);
    expect(batches[0]?.closedBecause).toBe('full');
  });

  it('stand in runs of the size that costs least a row, and it says so', () => {
    const batches = planWith((rows) => 1 + rows + 10 * Math.max(0, rows - 8), ones(20));
    expect(rowsOf(batches)).toEqual([8, 8, 4]);
    expect(batches.map(({ closedBecause }) => closedBecause)).toEqual(['dearer', 'dearer', 'end']);
  });

  it('fill micro-batches also where the last rows gain next to nothing', () => {
    const batches = planWith((rows) => 0.137 + 0.0045 * rows, ones(64));
    expect(batches.map(({ rows, closedBecause }) => [rows, closedBecause])).toEqual([[64, 'full']]);
    expect(rowsOf(planWith((rows) => 0.03 + 0.05 * rows, ones(64)))).toEqual([31, 31, 2]);
  });

  it('stand in the smaller of runs that cost next to the same', () => {
    expect(rowsOf(planWith((rows) => 0.001 + rows, ones(4)))).toEqual([1, 1, 1, 1]);
  });
});
