import { DATATYPES, type Datatype, elementsPerRow, type Tensor, type TensorData } from './tensor.ts';

/** The largest difference between two rows of an output. */
export interface Difference {
  readonly output: string;
  readonly datatype: Datatype;
  /**
   * As a share of the larger value; of values below 1 as a share of 1, or of the row's largest value where that is less.
   * Infinite where shapes, strings or booleans differ, or one value is no number.
   */
  readonly share: number;
  /** The two values or shapes, in words. */
  readonly detail: string;
  /** Set where the shapes of the rows differ: the first axis along which they do, and its two sizes. */
  readonly axis?: { readonly index: number; readonly sizes: readonly [number, number] } | undefined;
}

/** Shares up to which floats differ by rounding alone. */
export interface Tolerance {
  readonly FP16: number;
  /** FP32 and FP64: models cast between the two inside. */
  readonly OTHER: number;
}

/** Between runs of one shape, a row at the same place: the same arithmetic on the same numbers. */
export const SAME_PLACE: Tolerance = { FP16: 1e-3, OTHER: 1e-5 };

/** Between runs of one shape, a row at another place: the same arithmetic, in vector lanes or not. */
export const SAME_SHAPE: Tolerance = { FP16: 1e-2, OTHER: 1e-4 };

/**
 * Between runs of different shapes: other kernels add up in another order, which some sound models make 1e-3 of. What is
 * more than {@link SAME_SHAPE} is looked at more closely.
 */
export const OTHER_SHAPE: Tolerance = { FP16: 1e-2, OTHER: 2e-3 };

/** The same, of a model that answers as differently when its inputs are rounded, and on a GPU. */
export const OTHER_SHAPE_SENSITIVE: Tolerance = { FP16: 5e-2, OTHER: 1e-2 };

/** Between runs of one shape but for the length of a row. */
export const OTHER_LENGTH: Tolerance = { FP16: 1e-2, OTHER: 1e-3 };

/** The same on a GPU, which may multiply FP32 in TF32: 10 bits of mantissa. ONNX Runtime for Node cannot turn that off. */
export const OTHER_LENGTH_ON_GPU: Tolerance = OTHER_SHAPE_SENSITIVE;

/** Whether a difference is more than rounding. Of integers, strings, booleans and shapes any difference is. */
export function isMoreThanRounding({ share, datatype }: Difference, tolerance: Tolerance): boolean {
  if (DATATYPES[datatype].kind !== 'float') return share > 0;
  return share > (datatype === 'FP16' ? tolerance.FP16 : tolerance.OTHER);
}

/** How row `rowOfA` of one run's output differs from row `rowOfB` of another's. */
export function differenceOf(a: Tensor, rowOfA: number, b: Tensor, rowOfB: number): Difference {
  const of = { output: a.name, datatype: a.datatype };
  const [shapeOfA, shapeOfB] = [a.shape.slice(1), b.shape.slice(1)];
  if (shapeOfA.join() !== shapeOfB.join()) {
    const detail = `rows of shape [${shapeOfA.join(', ')}] and [${shapeOfB.join(', ')}]`;
    return { ...of, share: Number.POSITIVE_INFINITY, detail, axis: firstOddAxis(a.shape, b.shape) };
  }
  const elements = elementsPerRow(a.shape);
  const [fromA, fromB] = [rowOfA * elements, rowOfB * elements];
  const unit = Math.min(1, largestOf(a.data, fromA, elements));
  let share = 0;
  let worst = 0;
  for (let index = 0; index < elements; index++) {
    const ofElement = shareOf(a.data[fromA + index], b.data[fromB + index], unit);
    if (ofElement <= share) continue;
    share = ofElement;
    worst = index;
  }
  const detail = share === 0 ? '' : `${a.data[fromA + worst]} and ${b.data[fromB + worst]} at element ${worst}`;
  return { ...of, share, detail };
}

/**
 * The first output one of whose rows differs by more than rounding.
 *
 * @param a one tensor per output
 * @param b the same outputs of another run, with as many rows
 * @param onRounding told of the differences that are no more than rounding
 */
export function firstDifference(
  a: readonly Tensor[],
  b: readonly Tensor[],
  tolerance: Tolerance,
  onRounding: (difference: Difference) => void = () => {},
): Difference | undefined {
  for (const [index, output] of a.entries()) {
    for (let row = 0; row < (output.shape[0] as number); row++) {
      const difference = differenceOf(output, row, b[index] as Tensor, row);
      if (isMoreThanRounding(difference, tolerance)) return difference;
      onRounding(difference);
    }
  }
  return undefined;
}

/** The same, of a difference of the gravest kind there is; undefined where it is no more than between runs of one shape. */
export function gravestDifference(a: readonly Tensor[], b: readonly Tensor[]): Difference | undefined {
  const small = firstDifference(a, b, SAME_SHAPE);
  if (small === undefined) return undefined;
  return firstDifference(a, b, OTHER_SHAPE_SENSITIVE) ?? firstDifference(a, b, OTHER_SHAPE) ?? small;
}

/**
 * Whether an answer that differs between runs of different shapes is rounding.
 *
 * @param answersToRounded what the request is answered, and then what it is with its inputs rounded, in one run
 */
export async function isRounding(
  difference: Difference,
  isCoarse: boolean,
  answersToRounded: () => Promise<readonly (readonly Tensor[])[] | undefined>,
): Promise<boolean> {
  if (!isMoreThanRounding(difference, OTHER_SHAPE)) return true;
  if (isMoreThanRounding(difference, OTHER_SHAPE_SENSITIVE)) return false;
  if (isCoarse) return true;
  const [exact, ...rounded] = (await answersToRounded()) ?? [];
  const at = exact?.findIndex(({ name }) => name === difference.output) ?? -1;
  const output = exact?.[at];
  if (output === undefined) return false;
  const shares = rounded.flatMap((one) =>
    Array.from(
      { length: output.shape[0] as number },
      (_, row) => differenceOf(output, row, one[at] as Tensor, row).share,
    ),
  );
  return difference.share <= ROUNDED_TWICE * Math.max(0, ...shares);
}

/** A difference between two runs is of two that were rounded. */
const ROUNDED_TWICE = 2;

/** Undefined where the two have another number of axes. */
function firstOddAxis(a: readonly number[], b: readonly number[]): Difference['axis'] {
  const index = a.findIndex((size, axis) => axis > 0 && size !== b[axis]);
  if (a.length !== b.length || index < 0) return undefined;
  return { index, sizes: [a[index] as number, b[index] as number] };
}

/** The largest finite value of some elements without its sign; 1 where they are strings. */
function largestOf(data: TensorData, from: number, elements: number): number {
  if (Array.isArray(data)) return 1;
  let largest = 0;
  for (let index = from; index < from + elements; index++) {
    const value = Math.abs(Number(data[index]));
    if (value > largest && Number.isFinite(value)) largest = value;
  }
  return largest;
}

function shareOf(
  a: string | number | bigint | undefined,
  b: string | number | bigint | undefined,
  unit: number,
): number {
  if (a === b || Object.is(a, b)) return 0;
  if (typeof a === 'string') return Number.POSITIVE_INFINITY;
  const [x, y] = [Number(a), Number(b)];
  // Large integers of 64 bits may differ where no number does.
  const difference = Math.max(Math.abs(x - y), Number.MIN_VALUE);
  const share = difference / Math.max(Math.abs(x), Math.abs(y), unit);
  // Of values that no number holds, and of two NaN with other bits.
  if (Number.isNaN(share)) return Number.isNaN(x) && Number.isNaN(y) ? 0 : Number.POSITIVE_INFINITY;
  return share;
}
