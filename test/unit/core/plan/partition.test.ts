import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import type { MicroBatch, ScoringRequest } from '../../../../lambda/core/microBatch.ts';
import type { Cost } from '../../../../lambda/core/model.ts';
import { planAll, zeros } from '../requests.ts';
import { minOfAllCuts, minOfAllPartitions, type Piece, runCostOf, sentenceModel, totalCost } from './runCosts.ts';

const anyMs = fc.double({ min: 0.1, max: 50, noNaN: true });

/** Costs that do not fall with the length, and do as they like with the rows. */
const anyCost: fc.Arbitrary<Cost> = fc
  .array(fc.record({ run: anyMs, ofLength: anyMs }), { minLength: 8, maxLength: 8 })
  .map((byRows) => (rows, length) => {
    const { run, ofLength } = byRows[rows - 1] as (typeof byRows)[number];
    return run + ofLength * Math.sqrt(length);
  });

const anySizes = (max: number): fc.Arbitrary<number[]> =>
  fc
    .uniqueArray(fc.integer({ min: 1, max }), { maxLength: 3 })
    .map((allowedSizes) => allowedSizes.toSorted((a, b) => a - b));

const LONGEST = 100;

const anyModel = fc
  .record({
    maxBatchRows: fc.integer({ min: 1, max: 8 }),
    allowedSizes: anySizes(8),
    lengths: fc.oneof(
      fc.constant([]),
      anySizes(LONGEST - 1).map((allowedSizes) => [...allowedSizes, LONGEST]),
    ),
  })
  .map(sentenceModel);

interface Work {
  readonly requests: readonly ScoringRequest[];
  readonly maxBatchElements: number;
  readonly cost: Cost | undefined;
}

function anyWork(maxRequests: number, maxRows: number): fc.Arbitrary<Work> {
  return anyModel.chain((model) => {
    const anyLength = fc.oneof(fc.integer({ min: 1, max: 6 }), fc.integer({ min: 1, max: LONGEST }));
    const request = fc
      .tuple(fc.integer({ min: 1, max: maxRows }), anyLength)
      .map(([rows, length]) => zeros(model, rows, length));
    return fc.record({
      requests: fc.array(request, { minLength: 1, maxLength: maxRequests }),
      maxBatchElements: fc.oneof(fc.integer({ min: 1, max: 300 }), fc.constant(10_000)),
      cost: fc.option(anyCost, { nil: undefined }),
    });
  });
}

const oneRowRequests = anyWork(7, 1);
const anyRequests = anyWork(9, 12);

function always(works: fc.Arbitrary<Work>, promise: (work: Work, batches: MicroBatch[]) => void): void {
  fc.assert(
    fc.property(works, (work) => promise(work, planAll(work.requests, work))),
    { numRuns: 300 },
  );
}

const modelOf = ({ requests }: Work) => (requests[0] as ScoringRequest).model;
const costsOf = (work: Work) => runCostOf(modelOf(work), work.maxBatchElements, work.cost);
const byLength = (pieces: readonly Piece[]): Piece[] => pieces.toSorted((a, b) => a.length - b.length);

/** Equal but for rounding: sums of the same costs in another order. */
function expectNoMore(cost: number, than: number): void {
  expect(cost).toBeLessThanOrEqual(than * (1 + 1e-9));
}

describe('a plan for requests of many lengths', () => {
  it('costs the least of all ways to share rows out among runs', () => {
    always(oneRowRequests, (work, batches) => {
      const min = minOfAllPartitions(work.requests, costsOf(work));
      const cost = totalCost(batches, work.cost);
      expectNoMore(cost, min);
      expectNoMore(min, cost);
    });
  });

  it('costs the least of all ways to cut requests in order of length, those too large for a run cut first', () => {
    always(anyRequests, (work, batches) => {
      const runCost = costsOf(work);
      let cutFirst = 0;
      const pieces = byLength(work.requests).map(({ rows, length }): Piece => {
        const fits = (count: number): boolean => runCost([{ rows: count, length }]) < Number.POSITIVE_INFINITY;
        const max = Array.from({ length: 8 }, (_, i) => 8 - i).find(fits) as number;
        let left = rows;
        for (; left > max; left -= max) cutFirst += runCost([{ rows: max, length }]);
        return { rows: left, length };
      });
      const min = cutFirst + minOfAllCuts(pieces, runCost);
      const cost = totalCost(batches, work.cost);
      expectNoMore(cost, min);
      expectNoMore(min, cost);
    });
  });

  it('has every row once, exceeds neither rows, elements nor allowed sizes, and cuts only what no run of its length holds', () => {
    always(anyRequests, (work, batches) => {
      const runCost = costsOf(work);
      const parts = batches.flatMap((batch) => batch.parts);
      expect(new Set(parts.map(({ request }) => request))).toEqual(new Set(work.requests));
      for (const request of work.requests) {
        const mine = parts.filter((part) => part.request === request);
        const rows = mine.flatMap(({ fromRow, toRow }) =>
          Array.from({ length: toRow - fromRow }, (_, i) => fromRow + i),
        );
        expect(rows.toSorted((a, b) => a - b)).toEqual(Array.from({ length: request.rows }, (_, row) => row));
        if (mine.length > 1) expect(runCost([request])).toBe(Number.POSITIVE_INFINITY);
      }
      for (const { model, parts, rows, paddedRows, paddedLength } of batches) {
        const longest = Math.max(...parts.map(({ request }) => request.length));
        expect(rows).toBe(parts.reduce((sum, { fromRow, toRow }) => sum + toRow - fromRow, 0));
        expect(rows).toBeLessThanOrEqual(paddedRows);
        expect(paddedLength).toBeGreaterThanOrEqual(longest);
        expect(model.allowedSizes.length > 0 ? model.allowedSizes : [rows]).toContain(paddedRows);
        expect(model.ragged?.allowedSizes.length === 0 ? [longest] : model.ragged?.allowedSizes).toContain(
          paddedLength,
        );
        if (paddedRows === (model.allowedSizes[0] ?? 1)) continue;
        expect(paddedRows).toBeLessThanOrEqual(model.maxBatchRows);
        expect(paddedRows * paddedLength).toBeLessThanOrEqual(work.maxBatchElements);
      }
    });
  });

  it('keeps requests of one length in the order in which they arrived', () => {
    always(anyWork(20, 1), ({ requests }, batches) => {
      const order = batches.flatMap(({ parts }) => parts.map(({ request }) => request));
      expect(order.map((one) => requests.indexOf(one))).toEqual(
        byLength(requests).map((one) => requests.indexOf(one as ScoringRequest)),
      );
    });
  });
});
