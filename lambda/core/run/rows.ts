import { type MicroBatch, microBatchOf, type Part } from '../plan/microBatch.ts';
import { stack } from '../stack/stack.ts';
import type { Tensor } from '../tensor/tensor.ts';

/** Each row of a micro-batch as a part of its own, in their order. */
export function* rowsOf({ parts }: MicroBatch): Generator<Part> {
  for (const { request, fromRow, toRow } of parts) {
    for (let row = fromRow; row < toRow; row++) yield { request, fromRow: row, toRow: row + 1 };
  }
}

/** Row `index` of a micro-batch. */
export function rowAt({ parts }: MicroBatch, index: number): Part {
  let before = 0;
  for (const { request, fromRow, toRow } of parts) {
    const row = fromRow + index - before;
    if (row < toRow) return { request, fromRow: row, toRow: row + 1 };
    before += toRow - fromRow;
  }
  throw new Error(`expected row ${index} in a micro-batch, got ${before} rows`);
}

/** What the model is given when a row is run alone. */
export function inputsOf(row: Part): Tensor[] {
  return stack(microBatchOf(row.request.model, [row], 'end'));
}

/** Whether inputs are of equal shapes and elements. */
export function areAlike(a: readonly Tensor[], b: readonly Tensor[]): boolean {
  return a.every(({ shape, data }, index) => {
    const other = b[index] as Tensor;
    if (shape.join() !== other.shape.join()) return false;
    for (let at = 0; at < data.length; at++) if (!Object.is(data[at], other.data[at])) return false;
    return true;
  });
}
