import { describe, expect, it } from '@jest/globals';
import type { MicroBatch } from '../../../../lambda/core/microBatch.ts';
import { plan } from '../../../../lambda/core/plan.ts';
import { type InMemoryModelOptions, lineModel } from '../../../helpers/scoring.ts';
import { zeros } from '../requests.ts';

/** The rows of the micro-batches that each request closes, and of those that are left in the end. */
function rowsClosed(
  rows: readonly number[],
  options: InMemoryModelOptions,
  ms?: Readonly<Record<number, number>>,
  mayCut = true,
) {
  const model = lineModel(options);
  const begun = plan(
    () => 1_000_000,
    () => ms && ((paddedRows) => ms[paddedRows] as number),
    () => mayCut,
  );
  const sizesOf = (batches: readonly MicroBatch[]): string[] =>
    batches.map((batch) => `${batch.rows}/${batch.paddedRows}`);
  const closed = rows.map((count) => sizesOf(begun.add(zeros(model, count))));
  return { closed, left: sizesOf(begun.finish()), leftThen: sizesOf(begun.finish()) };
}

const ones = (count: number): number[] => new Array(count).fill(1);

describe('a plan of rows of one shape', () => {
  it('closes a micro-batch of the largest allowed size as soon as it is full', () => {
    const { closed, left } = rowsClosed(ones(5), { maxBatchRows: 4, allowedSizes: [1, 2, 4] });

    expect(closed).toEqual([[], [], [], ['4/4'], []]);
    expect(left).toEqual(['1/1']);
  });

  it('closes it at the allowed size that costs least a row, by what was measured', () => {
    const allowedSizes = [1, 2, 4, 8];
    const { closed } = rowsClosed(ones(4), { maxBatchRows: 8, allowedSizes }, { 1: 10, 2: 11, 4: 12, 8: 40 });

    expect(closed).toEqual([[], [], [], ['4/4']]);
  });

  it('cuts a request with more rows than that', () => {
    const { closed, left } = rowsClosed([3], { maxBatchRows: 8, allowedSizes: [1, 2, 8] }, { 1: 10, 2: 11, 8: 80 });

    expect([closed, left]).toEqual([[['2/2']], ['1/1']]);
  });

  it('runs a request alone, and whole, that has a row too many and may not be cut', () => {
    const { closed, left } = rowsClosed([1, 5, 4], { maxBatchRows: 4 }, undefined, false);

    expect([closed, left]).toEqual([[[], ['5/5'], ['1/1', '4/4']], []]);
  });

  it('cuts what is left where allowed sizes cost less than the padding of one run', () => {
    const allowedSizes = [1, 2, 4, 8];
    const steep = { 1: 1, 2: 1.98, 4: 3.9, 8: 7.7 };
    expect(rowsClosed(ones(5), { maxBatchRows: 8, allowedSizes }, steep).left.toSorted()).toEqual(['1/1', '4/4']);
  });

  it('pads what is left where one run costs less', () => {
    const allowedSizes = [1, 2, 4, 8];
    const flat = { 1: 10, 2: 10, 4: 10, 8: 10.5 };
    expect(rowsClosed(ones(5), { maxBatchRows: 8, allowedSizes }, flat).left).toEqual(['5/8']);
  });
});
