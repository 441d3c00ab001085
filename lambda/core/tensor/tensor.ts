import type { Datatype, TensorData } from './datatype.ts';

/** A named tensor, row-major: `data` holds exactly the product of `shape` elements. */
export interface Tensor {
  readonly name: string;
  readonly datatype: Datatype;
  readonly shape: readonly number[];
  readonly data: TensorData;
}

export function elementCount(shape: readonly number[]): number {
  return shape.reduce((product, dim) => product * dim, 1);
}

/** Elements in one slice along axis 0. */
export function elementsPerRow(shape: readonly number[]): number {
  return elementCount(shape.slice(1));
}

/** `shape` with another number of rows. */
export function withRows(shape: readonly number[], rows: number): number[] {
  return withSize(shape, 0, rows);
}

/** `shape` with another size of one axis. */
export function withSize(shape: readonly number[], axis: number, size: number): number[] {
  return shape.with(axis, size);
}

/** Elements `from` to `to` without a copy where the data is a typed array. */
export function viewOf(data: TensorData, from: number, to: number): TensorData {
  if (from === 0 && to === data.length) return data;
  return Array.isArray(data) ? data.slice(from, to) : data.subarray(from, to);
}

/** Copies all of `source` into `target` from element `offset` on. Both are of the same datatype. */
export function copyInto(target: TensorData, offset: number, source: TensorData): void {
  if (Array.isArray(target)) {
    for (let i = 0; i < source.length; i++) target[offset + i] = source[i] as string;
  } else if (target instanceof BigInt64Array || target instanceof BigUint64Array) {
    target.set(source as BigInt64Array, offset);
  } else {
    target.set(source as Float32Array, offset);
  }
}
