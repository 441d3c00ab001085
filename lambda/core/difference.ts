import { DATATYPES, type Datatype, elementsPerRow, type Tensor } from './tensor.ts';

/** Difference between two rows of an output that exceeds rounding. */
export interface Difference {
  readonly output: string;
  /** Both values or shapes, in words. */
  readonly detail: string;
  /** First axis on which the shapes of the rows differ, with its two sizes. Undefined if the shapes agree. */
  readonly axis?: { readonly index: number; readonly sizes: readonly [number, number] } | undefined;
}

/** Allowed difference as a share of the larger value, and as a share of the largest value in the row. */
interface Accuracy {
  readonly ofValue: number;
  readonly ofRow: number;
}

/** Kernels for another number of rows add in another order. Some models cast FP64 to FP32 and back. */
const FP32: Accuracy = { ofValue: 2e-3, ofRow: 1e-5 };
const FP16: Accuracy = { ofValue: 2e-2, ofRow: 1e-3 };
/** A GPU may multiply FP32 in TF32, with 10 bits of mantissa. ONNX Runtime for Node cannot turn that off. */
const TF32: Accuracy = { ofValue: 1e-2, ofRow: 1e-3 };

/**
 * Compares the answers of two runs value by value. Integers, booleans, strings and NaN must be equal.
 *
 * @param a one tensor per output
 * @param b the same outputs of the other run, with the same number of rows
 * @param isCoarse true if FP32 is as inaccurate as on a GPU
 * @returns the first difference that exceeds rounding
 */
export function firstDifference(
  a: readonly Tensor[],
  b: readonly Tensor[],
  isCoarse: boolean | undefined,
): Difference | undefined {
  for (const [index, output] of a.entries()) {
    const other = b[index] as Tensor;
    const [shape, otherShape] = [output.shape.slice(1), other.shape.slice(1)];
    if (shape.join() !== otherShape.join()) {
      const detail = `rows of shape [${shape.join(', ')}] and [${otherShape.join(', ')}]`;
      return { output: output.name, detail, axis: firstOddAxis(output.shape, other.shape) };
    }
    const at = firstOddElement(output, other, accuracyOf(output.datatype, isCoarse));
    if (at === undefined) continue;
    const place = `element ${at % elementsPerRow(output.shape)}`;
    return { output: output.name, detail: `${output.data[at]} and ${other.data[at]} at ${place}` };
  }
  return undefined;
}

function accuracyOf(datatype: Datatype, isCoarse: boolean | undefined): Accuracy | undefined {
  if (DATATYPES[datatype].kind !== 'float') return undefined;
  if (datatype === 'FP16') return FP16;
  return isCoarse && datatype === 'FP32' ? TF32 : FP32;
}

function firstOddElement(a: Tensor, b: Tensor, accuracy: Accuracy | undefined): number | undefined {
  const width = elementsPerRow(a.shape);
  for (let from = 0; from < a.data.length; from += width) {
    let largest: number | undefined;
    for (let at = from; at < from + width; at++) {
      const [x, y] = [a.data[at], b.data[at]];
      if (x === y || Object.is(x, y)) continue;
      if (accuracy === undefined || typeof x !== 'number' || typeof y !== 'number') return at;
      // NaN values may differ in their bits.
      if (Number.isNaN(x) && Number.isNaN(y)) continue;
      if (!Number.isFinite(x) || !Number.isFinite(y)) return at;
      largest ??= largestOf(a, from, width);
      const allowed = accuracy.ofValue * Math.max(Math.abs(x), Math.abs(y)) + accuracy.ofRow * largest;
      if (!(Math.abs(x - y) <= allowed)) return at;
    }
  }
  return undefined;
}

function largestOf({ data }: Tensor, from: number, width: number): number {
  let largest = 0;
  for (let at = from; at < from + width; at++) {
    const value = Math.abs(Number(data[at]));
    if (value > largest && Number.isFinite(value)) largest = value;
  }
  return largest;
}

function firstOddAxis(a: readonly number[], b: readonly number[]): Difference['axis'] {
  const index = a.findIndex((size, axis) => axis > 0 && size !== b[axis]);
  if (a.length !== b.length || index < 0) return undefined;
  return { index, sizes: [a[index] as number, b[index] as number] };
}
