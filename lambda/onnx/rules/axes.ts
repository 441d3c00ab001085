import {
  axisOf,
  broadcast,
  constantOf,
  constantSize,
  constantsOf,
  hasRows,
  meet,
  meetBroadcast,
  mixes,
  ONE,
  refuseOwnRows,
  type Size,
  shapeOf,
  sizeAt,
  type Traced,
  unknown,
  variesWithRows,
} from '../traced.ts';
import { permuted } from './shapes.ts';
import {
  axesOf,
  type Family,
  family,
  followSizes,
  fromAxis,
  givenOf,
  inputAt,
  plain,
  type Rule,
  refuseAlong,
  type Step,
  withSizeAt,
} from './step.ts';

/* Rules of operators that work along axes, and of matrix products. */

/** Returns the rule of operators that work along axes. The axis of the rows must not be one of them. */
function along(axesOfStep: (step: Step, rank: number) => readonly number[]): Rule {
  return (step) => {
    const data = inputAt(step, 0);
    refuseAlong(data, axesOfStep(step, shapeOf(data).length));
    return plain(data);
  };
}

/** Returns the axes of a softmax. Before version 13 it works along an axis and all axes after it. */
const softmaxAxes = ({ node, opset }: Step, rank: number): number[] => {
  // ONNX Runtime's operator for quantised values has the version as an attribute.
  const version = node.int('opset', opset);
  const axis = axisOf(node.int('axis', version < 13 ? 1 : -1), rank);
  return version < 13 ? fromAxis(axis, rank) : [axis];
};

const oneAxis = ({ node }: Step, rank: number): number[] => [axisOf(node.int('axis', -1), rank)];

const normalised: Rule = (step) => {
  const data = inputAt(step, 0);
  const rank = shapeOf(data).length;
  refuseAlong(data, fromAxis(axisOf(step.node.int('axis', -1), rank), rank));
  const others = givenOf(step).slice(1);
  const met = meet(
    [data, ...others],
    [data, ...others].map((one) => one.axis + rank - shapeOf(one).length),
  );
  if (met.axis >= 0) refuseOwnRows(others, met.axis, rank);
  const sums = shapeOf(data).map((size, axis) => (axis >= axisOf(step.node.int('axis', -1), rank) ? ONE : size));
  const skipsAdded = step.node.operator.startsWith('Skip');
  return [0, 1, 2, 3].map((output) => ({
    ...met,
    shape: output === 0 || (skipsAdded && output === 3) ? shapeOf(data) : sums,
  }));
};

const reduction: Rule = (step) => {
  const { node } = step;
  const data = inputAt(step, 0);
  const rank = shapeOf(data).length;
  const isOfOne = node.operator.startsWith('Arg');
  const given = isOfOne ? [axisOf(node.int('axis', 0), rank)] : axesOf(step, rank);
  const isNone = given === undefined || given.length === 0;
  if (isNone && node.int('noop_with_empty_axes', 0) === 1) return plain(data);
  const axes = isNone ? fromAxis(0, rank) : given;
  const keeps = node.int('keepdims', 1) === 1;
  const shape = shapeOf(data).flatMap((size, axis) => (axes.includes(axis) ? (keeps ? [ONE] : []) : [size]));
  if (hasRows(data) && axes.includes(data.axis)) {
    if (data.kind !== 'equal')
      mixes(isNone ? 'it reduces all axes, the rows among them' : `it reduces axis ${data.axis}, the rows`);
    return { kind: 'count', axis: -1, shape };
  }
  const before = keeps ? 0 : axes.filter((axis) => axis < data.axis).length;
  return { ...plain(data), axis: data.axis < 0 ? -1 : data.axis - before, shape };
};

const topK: Rule = (step) => {
  const data = inputAt(step, 0);
  const axis = axisOf(step.node.int('axis', -1), shapeOf(data).length);
  refuseAlong(data, [axis]);
  const k = step.inputs[1] === undefined ? constantSize(step.node.int('k', 1)) : followSizes(step, 1)?.[0];
  if (k !== undefined && variesWithRows(k)) mixes('the number of rows decides how many it takes');
  const shape = withSizeAt(shapeOf(data), axis, k ?? step.open());
  return [0, 1].map(() => ({ ...plain(data), shape }));
};

const cumulative: Rule = (step) => {
  const data = inputAt(step, 0);
  const [given = 0] = constantsOf(inputAt(step, 1)) ?? unknown('its axis is not constant');
  const axis = axisOf(given, shapeOf(data).length);
  if (data.kind === 'equal' && axis === data.axis) return { ...plain(data), kind: 'places' };
  refuseAlong(data, [axis]);
  return plain(data);
};

/** Returns the rule of a product of two inputs. A scale and a zero point are between quantised ones. */
const matMul =
  ([first, second]: readonly [number, number]) =>
  (step: Step): Traced => {
    if (step.node.int('transBatchA', 0) === 1 || step.node.int('transBatchB', 0) === 1)
      unknown('its batches are transposed');
    return productOfMatrices(
      transpose(inputAt(step, first), step.node.int('transA', 0) === 1),
      transpose(inputAt(step, second), step.node.int('transB', 0) === 1),
    );
  };

function transpose(matrix: Traced, is: boolean): Traced {
  if (!is) return matrix;
  const rank = shapeOf(matrix).length;
  return permuted(matrix, [...fromAxis(0, rank - 2), rank - 1, rank - 2]);
}

function productOfMatrices(a: Traced, b: Traced): Traced {
  const left = asMatrix(a, 'row');
  const right = asMatrix(b, 'column');
  const [rankA, rankB] = [shapeOf(left).length, shapeOf(right).length];
  if (hasRows(left) && left.axis === rankA - 1) mixes('it sums over the rows');
  if (hasRows(right) && right.axis === rankB - 2) mixes('it sums over the rows');
  const leading = broadcast([shapeOf(left).slice(0, -2), shapeOf(right).slice(0, -2)]);
  const rank = leading.length + 2;
  const axes = [left.axis + rank - rankA, right.axis + rank - rankB];
  const met = meet([left, right], axes);
  const bothHave = hasRows(left) && hasRows(right);
  if (bothHave && met.axis >= rank - 2) mixes('it multiplies rows with rows');
  // A separate matrix for each row would fix the number of rows.
  if (met.axis >= 0 && met.axis < rank - 2) refuseOwnRows([left, right], met.axis, rank);
  const whole = [...leading, sizeAt(left, rankA - 2), sizeAt(right, rankB - 1)];
  const isDropped = (index: number): boolean =>
    (index === rank - 2 && shapeOf(a).length === 1) || (index === rank - 1 && shapeOf(b).length === 1);
  const dropped = met.axis === rank - 1 && shapeOf(a).length === 1 ? 1 : 0;
  return { ...met, axis: met.axis - dropped, shape: whole.filter((_, index) => !isDropped(index)) };
}

/** Converts a vector to a matrix of one row or one column. */
function asMatrix(vector: Traced, as: 'row' | 'column'): Traced {
  const shape = shapeOf(vector);
  if (shape.length !== 1) return vector;
  const isRow = as === 'row';
  return {
    ...vector,
    shape: isRow ? [ONE, ...shape] : [...shape, ONE],
    axis: hasRows(vector) && isRow ? 1 : vector.axis,
  };
}

const gemm: Rule = (step) => {
  const product = matMul([0, 1])(step);
  const addend = step.inputs[2];
  if (addend === undefined) return product;
  const { shape, ...met } = meetBroadcast([product, addend]);
  return { ...met, shape };
};

const packedWeights: Rule = (step) => {
  const data = inputAt(step, 0);
  const rank = shapeOf(data).length;
  if (hasRows(data) && data.axis === rank - 1) mixes('it sums over the rows');
  return { ...plain(data), shape: withSizeAt(shapeOf(data), rank - 1, constantSize(step.node.int('N', 1))) };
};

const einsum: Rule = (step) => {
  const inputs = givenOf(step);
  const equation = step.node.text('equation').replaceAll(' ', '');
  const [terms = '', result] = equation.split('->');
  const letters = terms.split(',');
  if (equation.includes('.') || result === undefined) unknown(`its equation ${equation} is not followed`);
  const sizeOf = new Map<string, Size>();
  for (const [index, term] of letters.entries()) {
    for (const [axis, letter] of [...term].entries()) {
      const known = sizeOf.get(letter);
      if (known === undefined || constantOf(known) === 1) sizeOf.set(letter, sizeAt(inputs[index] as Traced, axis));
    }
  }
  const rowLetters = inputs.map((input, index) => (hasRows(input) ? letters[index]?.[input.axis] : undefined));
  const letter = rowLetters.find((one) => one !== undefined);
  if (letter !== undefined && !result.includes(letter)) mixes(`its equation ${equation} sums over the rows`);
  const met = meet(
    inputs,
    rowLetters.map((one) => (one === undefined ? -1 : result.indexOf(one))),
  );
  for (const [index, input] of inputs.entries()) {
    const at = letter === undefined ? -1 : (letters[index] ?? '').indexOf(letter);
    if (!hasRows(input) && at >= 0 && constantOf(sizeAt(input, at)) !== 1)
      mixes('a constant of its own for each row meets the rows');
  }
  return { ...met, shape: [...result].map((one) => sizeOf.get(one) ?? ONE) };
};

const PRODUCTS = 'if neither sums over rows nor multiplies rows with rows';

export const ALONG_AXES: readonly Family[] = [
  family(along(softmaxAxes), 'along another axis than the rows', 'Softmax LogSoftmax Hardmax QLinearSoftmax'),
  family(along(oneAxis), 'along another axis than the rows', 'LpNormalization'),
  family(
    normalised,
    'if the rows are before the axes it normalises',
    `LayerNormalization RMSNormalization SimplifiedLayerNormalization SkipLayerNormalization
    SkipSimplifiedLayerNormalization EmbedNormalization`,
    'all',
  ),
  family(
    reduction,
    'over other axes than the rows',
    `ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum
    ReduceSumSquare ArgMax ArgMin`,
  ),
  family(topK, 'along another axis than the rows', 'TopK', [0, 1]),
  family(cumulative, 'along another axis than the rows', 'CumSum CumProd'),
  family(matMul([0, 1]), PRODUCTS, 'MatMul MatMulInteger MatMulIntegerToFloat FusedMatMul TransposeMatMul', [0, 1]),
  family(matMul([0, 3]), PRODUCTS, 'QLinearMatMul QGemm', [0, 3]),
  family(gemm, PRODUCTS, 'Gemm FusedGemm', [0, 1, 2]),
  family(packedWeights, 'if all rows have the same weights', 'MatMulNBits MatMulBnb4'),
  family(einsum, 'if the letter of the rows is in the result', 'Einsum', 'all'),
  family(
    along(({ node }, rank) => (node.ints('axes') ?? [0, 2, 3]).map((axis) => axisOf(axis, rank))),
    'never',
    'MeanVarianceNormalization',
  ),
];
