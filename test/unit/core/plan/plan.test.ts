import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import {
  halve,
  type MicroBatch,
  type Part,
  paddedRowsOf,
  type ScoringRequest,
} from '../../../../lambda/core/microBatch.ts';
import { echoModel, type InMemoryModelOptions, lineModel, sumModel } from '../../../helpers/scoring.ts';
import { planAll, requestOf, zeros } from '../requests.ts';

const PLENTY = { maxBatchElements: 1_000_000 };

/** Plans line requests by their row counts. */
function planRows(rows: readonly number[], options: InMemoryModelOptions, limits = PLENTY): MicroBatch[] {
  const model = lineModel(options);
  return planAll(
    rows.map((count) => zeros(model, count)),
    limits,
  );
}

/** `request:fromRow-toRow` of every part, requests by their index in `requests`, or as they first appear. */
function cuts(batches: readonly MicroBatch[], requests?: readonly ScoringRequest[]): string[] {
  const order = requests ?? [...new Set(batches.flatMap(({ parts }) => parts.map(({ request }) => request)))];
  const cut = ({ request, fromRow, toRow }: Part) => `${order.indexOf(request)}:${fromRow}-${toRow}`;
  return batches.map(({ parts }) => parts.map(cut).join(' '));
}

describe('plan', () => {
  it('starts another one rather than cut a request that fits into one', () => {
    expect(cuts(planRows([3, 2, 4], { maxBatchRows: 4 }))).toEqual(['0:0-3', '1:0-2', '2:0-4']);
  });

  it('cuts a request that no micro-batch holds, from where the open one ends', () => {
    expect(cuts(planRows([1, 9, 1], { maxBatchRows: 4 }))).toEqual(['0:0-1 1:0-3', '1:3-7', '1:7-9 2:0-1']);
  });

  const image = echoModel('FP32', ['height', 'width']);
  const shaped = (height: number, width: number): ScoringRequest =>
    requestOf(image, [{ datatype: 'FP32', shape: [1, height, width], data: new Float32Array(height * width) }]);

  it('does not confuse shapes whose digits read alike', () => {
    expect(planAll([shaped(1, 12), shaped(11, 2), shaped(2, 6)], PLENTY)).toHaveLength(3);
  });

  it.each<[title: string, rows: number[], options: InMemoryModelOptions, elements: number, reasons: string[]]>([
    ['full when it holds the most rows', [2, 2], { maxBatchRows: 4 }, 1000, ['full']],
    [
      'full when the next request does not fit, and at the end of the batch',
      [3, 2],
      { maxBatchRows: 4 },
      1000,
      ['full', 'end'],
    ],
    ['budget when the elements run out first', [2, 2], { maxBatchRows: 4 }, 3, ['budget', 'end']],
    [
      'budget when the elements allow a lower allowed size only',
      [4, 4],
      { maxBatchRows: 8, allowedSizes: [1, 4, 8] },
      7,
      ['budget', 'budget'],
    ],
  ])('says why: %s', (_, rows, options, maxBatchElements, reasons) => {
    const batches = planRows(rows, options, { maxBatchElements });
    expect(batches.map(({ closedBecause }) => closedBecause)).toEqual(reasons);
  });

  it('counts the elements of all inputs together, padding included', () => {
    expect(planRows([3, 3], { allowedSizes: [4] }, { maxBatchElements: 4 }).map((batch) => batch.paddedRows)).toEqual([
      4, 4,
    ]);
    const elementsPerRow = 10 + 10 + 1;
    const summed = planAll([zeros(sumModel(), 7, 10)], { maxBatchElements: 3 * elementsPerRow });
    expect(summed.map(({ rows }) => rows)).toEqual([3, 3, 1]);
  });

  it('runs a single row even when it alone exceeds the budget', () => {
    const wide = echoModel('FP32', ['width']);
    expect(planAll([zeros(wide, 2, 30)], { maxBatchElements: 10 }).map(({ rows }) => rows)).toEqual([1, 1]);
  });

  it('runs the smallest allowed size even when it alone exceeds what a micro-batch may hold', () => {
    const batches = planRows([1, 1], { maxBatchRows: 2, allowedSizes: [4, 8] });
    expect(batches.map(({ rows, paddedRows }) => [rows, paddedRows])).toEqual([[2, 4]]);
  });
});

describe('any plan', () => {
  const anyModel = fc
    .record({
      maxBatchRows: fc.integer({ min: 1, max: 12 }),
      allowedSizes: fc
        .uniqueArray(fc.integer({ min: 1, max: 12 }), { maxLength: 3 })
        .map((allowedSizes) => allowedSizes.toSorted((a, b) => a - b)),
    })
    .map((options) => echoModel('FP32', ['width'], options));
  const anyWork = fc.array(anyModel, { minLength: 1, maxLength: 2 }).chain((models) =>
    fc.record({
      requests: fc.array(
        fc
          .tuple(fc.constantFrom(...models), fc.integer({ min: 1, max: 30 }), fc.integer({ min: 1, max: 3 }))
          .map(([model, rows, width]) => zeros(model, rows, width)),
        { maxLength: 12 },
      ),
      maxBatchElements: fc.integer({ min: 1, max: 40 }),
    }),
  );
  type Work = { requests: ScoringRequest[]; maxBatchElements: number };
  const always = (promise: (work: Work, batches: MicroBatch[]) => void): void =>
    fc.assert(fc.property(anyWork, (work) => promise(work, planAll(work.requests, work))));
  const widthOf = (request: ScoringRequest | undefined): number => request?.inputs[0]?.shape[1] ?? 0;
  /** The most rows that a micro-batch with this request may run. */
  const roomFor = (request: ScoringRequest, maxBatchElements: number): number => {
    const { allowedSizes, maxBatchRows } = request.model;
    const rows = Math.max(1, Math.min(maxBatchRows, Math.floor(maxBatchElements / widthOf(request))));
    return allowedSizes.length === 0 ? rows : (allowedSizes.findLast((size) => size <= rows) ?? allowedSizes[0] ?? 0);
  };

  it('has every row in one part, runs within rows, elements and allowedSizes, of one model and shape, and cuts only what no run holds', () => {
    always(({ requests, maxBatchElements }, batches) => {
      const parts = batches.flatMap((batch) => batch.parts);
      for (const request of requests) {
        const mine = parts.filter((part) => part.request === request);
        const rows = mine.flatMap(({ fromRow, toRow }) =>
          Array.from({ length: toRow - fromRow }, (_, i) => fromRow + i),
        );
        expect(rows).toEqual(Array.from({ length: request.rows }, (_, row) => row));
        if (mine.length > 1) expect(request.rows).toBeGreaterThan(roomFor(request, maxBatchElements));
      }
      for (const { parts, model, rows, paddedRows } of batches) {
        expect(new Set(parts.map(({ request }) => request.model))).toEqual(new Set([model]));
        expect(new Set(parts.map(({ request }) => widthOf(request))).size).toBe(1);
        expect(rows).toBe(parts.reduce((sum, part) => sum + part.toRow - part.fromRow, 0));
        if (model.allowedSizes.length === 0) expect(paddedRows).toBe(rows);
        else expect(model.allowedSizes).toContain(paddedRows);
        expect(paddedRows).toBeGreaterThanOrEqual(rows);
        if (paddedRows === (model.allowedSizes[0] ?? 1)) continue;
        expect(paddedRows).toBeLessThanOrEqual(model.maxBatchRows);
        expect(paddedRows * widthOf(parts[0]?.request)).toBeLessThanOrEqual(maxBatchElements);
      }
    });
  });

  it('can be halved until every part stands alone, none lost and each run as it may be', () => {
    const alone = (batch: MicroBatch): MicroBatch[] =>
      batch.parts.length === 1 ? [batch] : (halve(batch) ?? []).flatMap(alone);
    always((_, batches) => {
      const pieces = batches.flatMap(alone);
      expect(pieces.flatMap(({ parts }) => parts)).toEqual(batches.flatMap(({ parts }) => parts));
      for (const { model, parts, rows, paddedRows } of pieces) {
        expect(rows).toBe((parts[0]?.toRow ?? 0) - (parts[0]?.fromRow ?? 0));
        expect(paddedRows).toBe(paddedRowsOf(model, rows));
      }
    });
  });
});
