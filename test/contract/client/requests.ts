import type { TensorRequest } from '../../../client/index.ts';

/** A request to the line model, one row per value; its id is the first. */
export function lineOf(...values: number[]): TensorRequest {
  return { id: String(values[0]), inputs: { x: { data: Float32Array.from(values), shape: [values.length, 1] } } };
}

/** Requests of one row with the values and ids from 0 to `count`. */
export function lines(count: number): TensorRequest[] {
  return Array.from({ length: count }, (_, index) => lineOf(index));
}

/** What the line model makes of one value. */
export function lineAnswer(value: number) {
  return { y: { datatype: 'FP32', shape: [1, 1], data: Float32Array.of(2 * value + 1) } };
}

export async function allOf<T>(source: AsyncIterable<T>): Promise<T[]> {
  return await Array.fromAsync(source);
}

/** Requests that echo so many floats, each a value of its own. */
export function wide(count: number, floats: number): TensorRequest[] {
  return Array.from({ length: count }, (_, value) => {
    const data = new Float32Array(floats).fill(value + 0.5);
    return { id: String(value), inputs: { in: { data, shape: [1, floats] } } };
  });
}
