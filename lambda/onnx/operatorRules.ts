import { type Graph, type GraphNode, REAL_TYPES } from './graph.ts';
import {
  axisOf,
  broadcast,
  constantOf,
  constantSize,
  constantsOf,
  fewOf,
  hasRows,
  isEqual,
  isMultipleOfRows,
  isOwnPlace,
  type Met,
  meet,
  meetBroadcast,
  mixes,
  ONE,
  productOf,
  ROWS,
  refuseOwnRows,
  type Size,
  same,
  seriesOf,
  shapeOf,
  sizeAt,
  sizes,
  type Traced,
  unknown,
  variesWithRows,
} from './traced.ts';

/*
 * One rule for each family of operators: what is known of its outputs, by what is known of its inputs. A rule follows the
 * axis of rows; an operator that works across it mixes rows. `docs/models.md` lists the families.
 */

/** A node with what is known of its inputs. */
export interface Step {
  readonly node: GraphNode;
  /** Undefined where an input is left out. */
  readonly inputs: readonly (Traced | undefined)[];
  /** Version of its operator set. */
  readonly opset: number;
  /** What is known of the outputs of a graph within the node, by what is known of its inputs. */
  readonly within: (graph: Graph, inputs?: readonly Traced[]) => Traced[];
  /** Returns a size that nobody knows. */
  readonly open: () => Size;
}

type Rule = (step: Step) => Traced | readonly Traced[];

export interface Family {
  /** As the docs call it. */
  readonly name: string;
  /** When its rows stay apart. */
  readonly apart: string;
  readonly operators: readonly string[];
  readonly rule: Rule;
}

function inputAt({ inputs }: Step, index: number): Traced {
  return inputs[index] ?? unknown(`it has no input ${index}`);
}

function givenOf({ inputs }: Step): Traced[] {
  return inputs.filter((input) => input !== undefined);
}

/** Numbers that are given as an attribute, or since a later version as an input; undefined if they are left out. */
function numbersOf(step: Step, attribute: string, input: number): number[] | undefined {
  const given = step.inputs[input];
  if (given === undefined) return step.node.ints(attribute);
  return constantsOf(given) ?? unknown(`its ${attribute} are not constant`);
}

/** Axes, counted from the front. */
function axesOf(step: Step, rank: number, input = 1): number[] | undefined {
  return numbersOf(step, 'axes', input)?.map((axis) => axisOf(axis, rank));
}

function replaced(shape: readonly Size[], axis: number, size: Size): Size[] {
  return shape.map((one, index) => (index === axis ? size : one));
}

// Element by element

const ARITHMETIC: Readonly<Record<string, (...values: number[]) => number>> = {
  Add: (a = 0, b = 0) => a + b,
  Sub: (a = 0, b = 0) => a - b,
  Mul: (a = 0, b = 0) => a * b,
  Div: (a = 0, b = 0) => a / b,
  Mod: (a = 0, b = 1) => ((a % b) + b) % b,
  Min: Math.min,
  Max: Math.max,
  Neg: (a = 0) => -a,
  Abs: Math.abs,
  Floor: Math.floor,
  Ceil: Math.ceil,
  Round: Math.round,
  Sqrt: Math.sqrt,
  Pow: (a = 0, b = 1) => a ** b,
  Reciprocal: (a = 1) => 1 / a,
  Identity: (a = 0) => a,
  Equal: (a, b) => Number(a === b),
  Less: (a = 0, b = 0) => Number(a < b),
  LessOrEqual: (a = 0, b = 0) => Number(a <= b),
  Greater: (a = 0, b = 0) => Number(a > b),
  GreaterOrEqual: (a = 0, b = 0) => Number(a >= b),
  Not: (a) => Number(a === 0),
  And: (a, b) => Number(a !== 0 && b !== 0),
  Or: (a, b) => Number(a !== 0 || b !== 0),
  Where: (condition, a = 0, b = 0) => (condition === 0 ? b : a),
};

const elementwise: Rule = (step) => {
  const inputs = givenOf(step);
  const [first, , third] = inputs;
  // Indexes below 0 are wrapped; a place has none.
  if (step.node.operator === 'Where' && first?.isNever && third?.place) return third;
  const { shape, ...met } = meetBroadcast(inputs);
  const isReal = inputs.some((input) => input.isReal);
  return { ...met, shape, isReal, entries: entriesOf(step, inputs, shape, isReal), ...placeOf(step, inputs) };
};

function entriesOf({ node }: Step, inputs: readonly Traced[], shape: readonly Size[], isReal: boolean) {
  const count = fewOf(shape);
  const calculate = ARITHMETIC[node.operator];
  const isAligned = inputs.every(({ entries }) => entries?.length === 1 || entries?.length === count);
  if (calculate === undefined || count === undefined || !isAligned) return undefined;
  return Array.from({ length: count }, (_, index) => {
    const given = inputs.map(({ entries = [] }) => (entries.length === 1 ? entries[0] : entries[index]) ?? ONE);
    const result = sizes(calculate, ...given);
    return node.operator === 'Div' && !isReal ? sizes(Math.trunc, result) : result;
  });
}

/** Sums and products of constants, and of places in the batch: exporters compute indexes of them. */
function placeOf(
  { node: { operator } }: Step,
  inputs: readonly Traced[],
): Pick<Traced, 'bounds' | 'place' | 'isNever'> {
  const [first, second] = inputs;
  if (first === undefined) return {};
  if (operator === 'Identity') return { bounds: first.bounds, place: first.place };
  const [place, other] = first.place === undefined ? [second?.place, first.bounds] : [first.place, second?.bounds];
  if (operator === 'Less' && place !== undefined && place === first.place) {
    return { isNever: place.offset[0] >= 0 && other !== undefined && other[1] <= 0 };
  }
  if (other === undefined || !(operator === 'Add' || operator === 'Mul')) return {};
  const [calculate, isSum] = operator === 'Add' ? [ARITHMETIC.Add, true] : [ARITHMETIC.Mul, false];
  if (calculate === undefined || other[0] < 0) return {};
  const combined = ([least, most]: readonly [number, number]) =>
    [calculate(least, other[0]), calculate(most, other[1])] as const;
  if (place !== undefined) {
    if (!isSum && other[0] !== other[1]) return {};
    return { place: { step: isSum ? place.step : place.step * other[0], offset: combined(place.offset) } };
  }
  return first.bounds && second?.bounds && first.bounds[0] >= 0
    ? { bounds: combined(first.bounds === other ? second.bounds : first.bounds) }
    : {};
}

/** Stop words are left out. */
const normalisedText: Rule = (step) => {
  const data = inputAt(step, 0);
  if (step.node.has('stopwords') && data.kind !== 'same') mixes('its rows decide the shape of its output');
  return plain(data);
};

const cast: Rule = (step) => {
  const [data] = givenOf(step) as [Traced];
  const like = step.inputs[1];
  const isReal = like === undefined ? REAL_TYPES.has(step.node.int('to', 1)) : like.isReal === true;
  const isCut = !isReal && data.isReal;
  return { ...data, isReal, entries: isCut ? data.entries?.map((entry) => sizes(Math.trunc, entry)) : data.entries };
};

/** The first input decides; others, such as scales, are the same for all rows. */
const withFixed: Rule = (step) => {
  const [data, ...others] = givenOf(step) as [Traced, ...Traced[]];
  if (others.some((other) => other.kind !== 'same')) return elementwise(step);
  const axis = axisOf(step.node.int('axis', 1), shapeOf(data).length);
  const perAxis = others.find(({ shape }) => shape === undefined || shape.length > 0);
  if (perAxis !== undefined && hasRows(data) && axis === data.axis) refuseOwnRows([perAxis], 0, 1);
  return { ...plain(data), shape: shapeOf(data) };
};

/** What is computed from a tensor, place for place. */
function plain({ kind, axis, series, byLength, shape }: Traced): Traced {
  return { kind, axis, series, byLength, shape };
}

// Axes

/** A family that works along some axes: the rows' is none of them. */
function along(axesOfStep: (step: Step, rank: number) => readonly number[], outputs = 1): Rule {
  return (step) => {
    const data = inputAt(step, 0);
    const axes = axesOfStep(step, shapeOf(data).length);
    refuseAlong(step, data, axes);
    return new Array<Traced>(outputs).fill(plain(data));
  };
}

function refuseAlong({ node }: Step, data: Traced, axes: readonly number[]): void {
  if (hasRows(data) && axes.includes(data.axis)) mixes(`it works along axis ${data.axis}, the rows`);
  if (node.operator === 'LayerNormalization' && hasRows(data)) return;
}

/** Before version 13 an axis and all behind it are one. */
const softmaxAxes = ({ node, opset }: Step, rank: number): number[] => {
  const axis = axisOf(node.int('axis', opset < 13 ? 1 : -1), rank);
  return opset < 13 ? fromAxis(axis, rank) : [axis];
};

function fromAxis(axis: number, rank: number): number[] {
  return Array.from({ length: rank - axis }, (_, index) => axis + index);
}

const oneAxis =
  (otherwise: number) =>
  ({ node }: Step, rank: number): number[] => [axisOf(node.int('axis', otherwise), rank)];

const normalised: Rule = (step) => {
  const data = inputAt(step, 0);
  const rank = shapeOf(data).length;
  refuseAlong(step, data, fromAxis(axisOf(step.node.int('axis', -1), rank), rank));
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
  const { node, inputs } = step;
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
  const total = node.operator === 'ReduceProd' && rank === 1 && data.entries ? [productOf(data.entries)] : undefined;
  if (total !== undefined && inputs.length > 0) return { ...same(shape, total), isReal: data.isReal };
  return { ...plain(data), axis: data.axis < 0 ? -1 : data.axis - before, shape };
};

const topK: Rule = (step) => {
  const data = inputAt(step, 0);
  const axis = axisOf(step.node.int('axis', -1), shapeOf(data).length);
  refuseAlong(step, data, [axis]);
  const k = step.inputs[1] === undefined ? constantSize(step.node.int('k', 1)) : step.inputs[1].entries?.[0];
  if (k !== undefined && variesWithRows(k)) mixes('the number of rows decides how many it takes');
  const shape = replaced(shapeOf(data), axis, k ?? step.open());
  return [0, 1].map(() => ({ ...plain(data), shape }));
};

const cumulative: Rule = (step) => {
  const data = inputAt(step, 0);
  const [axis] = constantsOf(inputAt(step, 1)) ?? unknown('its axis is not constant');
  if (data.kind === 'equal' && axisOf(axis ?? 0, shapeOf(data).length) === data.axis)
    return { ...plain(data), kind: 'places' };
  refuseAlong(step, data, [axisOf(axis ?? 0, shapeOf(data).length)]);
  return plain(data);
};

// Products

const matMul: Rule = (step) => {
  const [a, b] = step.node.operator.startsWith('QLinear')
    ? [inputAt(step, 0), inputAt(step, 3)]
    : [inputAt(step, 0), inputAt(step, 1)];
  if (step.node.int('transBatchA', 0) === 1 || step.node.int('transBatchB', 0) === 1)
    unknown('its batches are transposed');
  return productOfMatrices(
    transposed(a, step.node.int('transA', 0) === 1),
    transposed(b, step.node.int('transB', 0) === 1),
  );
};

function transposed(matrix: Traced, is: boolean): Traced {
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
  // A matrix of its own for each row would have as many as there are rows.
  if (met.axis >= 0 && met.axis < rank - 2) refuseOwnRows([left, right], met.axis, rank);
  const whole = [...leading, sizeAt(left, rankA - 2), sizeAt(right, rankB - 1)];
  const isDropped = (index: number): boolean =>
    (index === rank - 2 && shapeOf(a).length === 1) || (index === rank - 1 && shapeOf(b).length === 1);
  const dropped = met.axis === rank - 1 && shapeOf(a).length === 1 ? 1 : 0;
  return { ...met, axis: met.axis - dropped, shape: whole.filter((_, index) => !isDropped(index)) };
}

/** A vector as a matrix of one row or one column. */
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
  const product = matMul(step) as Traced;
  const addend = step.inputs[2];
  if (addend === undefined || !step.node.operator.includes('emm') || step.node.operator === 'QGemm') return product;
  const { shape, ...met } = meetBroadcast([product, addend]);
  return { ...met, shape };
};

/** Statically quantised, with scales between its matrices. */
const quantisedGemm: Rule = (step) =>
  productOfMatrices(
    transposed(inputAt(step, 0), step.node.int('transA', 0) === 1),
    transposed(inputAt(step, 3), step.node.int('transB', 0) === 1),
  );

const packedWeights: Rule = (step) => {
  const data = inputAt(step, 0);
  const rank = shapeOf(data).length;
  if (hasRows(data) && data.axis === rank - 1) mixes('it sums over the rows');
  refuseRowsIn(step, 1);
  return { ...plain(data), shape: replaced(shapeOf(data), rank - 1, constantSize(step.node.int('N', 1))) };
};

/** Weights are the same for all rows. */
function refuseRowsIn({ inputs }: Step, from: number): void {
  if (inputs.slice(from).some((input) => input !== undefined && input.kind !== 'same'))
    unknown('its weights depend on the batch');
}

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

// Images

/** Rows are on axis 0, and everything else is per row. */
const rowsFirst =
  (shapeOfResult: (step: Step, data: Traced) => readonly Size[] | undefined, outputs = 1): Rule =>
  (step) => {
    const data = inputAt(step, 0);
    if (hasRows(data) && data.axis !== 0) mixes(`it takes axis 0 for the rows, and they are on axis ${data.axis}`);
    const others = givenOf(step).slice(1);
    for (const other of others) {
      if (hasRows(other) && hasRows(data) && other.axis !== 0) unknown('its other inputs have rows on another axis');
      if (other.kind === 'count' && hasRows(data)) mixes('the number of rows enters the data');
      if (other.kind === 'places') mixes("a row's place in the batch enters the data");
      if (other.kind === 'rows' && data.kind !== 'rows') unknown('its weights depend on rows');
    }
    const shape = shapeOfResult(step, data);
    return new Array<Traced>(outputs).fill({ ...plain(data), shape });
  };

/** Rows on axis 0 of images, weights that are the same for all. */
const image =
  (shapeOfResult: (step: Step, data: Traced) => readonly Size[], weightsFrom = 1): Rule =>
  (step) => {
    if (hasRows(inputAt(step, 0))) refuseRowsIn(step, weightsFrom);
    const [made] = rowsFirst(shapeOfResult)(step) as [Traced];
    // Indexes of a pool count through all rows.
    return [made, { ...made, kind: hasRows(made) ? 'places' : made.kind }];
  };

interface Window {
  readonly kernel: readonly number[];
  readonly isTransposed?: boolean;
}

function slid(step: Step, spatial: readonly Size[], { kernel, isTransposed = false }: Window): Size[] {
  const { node } = step;
  const strides = node.ints('strides') ?? [];
  const dilations = node.ints('dilations') ?? [];
  const pads = node.ints('pads') ?? [];
  const more = node.ints('output_padding') ?? [];
  const given = node.ints('output_shape');
  const automatic = node.text('auto_pad', 'NOTSET');
  const round = node.int('ceil_mode', 0) === 1 ? Math.ceil : Math.floor;
  return spatial.map((size, axis) => {
    const stride = strides[axis] ?? 1;
    const reach = ((kernel[axis] ?? 1) - 1) * (dilations[axis] ?? 1) + 1;
    const padding = (pads[axis] ?? 0) + (pads[axis + spatial.length] ?? 0);
    const isSame = automatic.startsWith('SAME');
    if (isTransposed && given !== undefined) return constantSize(given[axis] ?? 1);
    if (isTransposed)
      return sizes((one) => (isSame ? one * stride : stride * (one - 1) + (more[axis] ?? 0) + reach - padding), size);
    return sizes((one) => (isSame ? Math.ceil(one / stride) : round((one + padding - reach) / stride) + 1), size);
  });
}

const convolved = (step: Step, data: Traced): Size[] => {
  const weights = inputAt(step, step.node.operator === 'QLinearConv' ? 3 : 1);
  const [rows = ONE, , ...spatial] = shapeOf(data);
  const [maps = ONE, group = ONE, ...kernel] = shapeOf(weights);
  const isTransposed = step.node.operator.startsWith('ConvTranspose');
  const channels = isTransposed ? sizes((one) => one * step.node.int('group', 1), group) : maps;
  const window = step.node.ints('kernel_shape') ?? kernel.map((size) => constantOf(size) ?? 1);
  return [rows, channels, ...slid(step, spatial, { kernel: window, isTransposed })];
};

const pooled = (step: Step, data: Traced): Size[] => {
  const [rows = ONE, channels = ONE, ...spatial] = shapeOf(data);
  return [rows, channels, ...slid(step, spatial, { kernel: step.node.ints('kernel_shape') ?? [] })];
};

const pooledWhole = (_: Step, data: Traced): Size[] => shapeOf(data).map((size, axis) => (axis < 2 ? size : ONE));

const resized: Rule = (step) => {
  const { node, inputs, opset, open } = step;
  const data = inputAt(step, 0);
  const shape = shapeOf(data);
  const isOld = node.operator === 'Upsample' || opset < 11;
  const axes = node.ints('axes')?.map((axis) => axisOf(axis, shape.length)) ?? fromAxis(0, shape.length);
  const scales = inputs[isOld ? 1 : 2] ?? undefined;
  const given = inputs[3];
  const byScale = scales?.entries?.length === axes.length ? scales.entries : node.floats('scales')?.map(constantSize);
  const result = shape.map((size, axis): Size => {
    const at = axes.indexOf(axis);
    if (at < 0) return size;
    if (given !== undefined) return given.entries?.[at] ?? open();
    const scale = byScale?.[at];
    return scale === undefined ? open() : sizes((one, by) => Math.floor(one * by), size, scale);
  });
  const wanted = result[data.axis];
  if (hasRows(data) && (wanted === undefined || !isEqual(wanted, sizeAt(data, data.axis))))
    mixes('it resizes the rows');
  return { ...plain(data), shape: result };
};

const blocks: Rule = (step) => {
  const by = step.node.int('blocksize', 1);
  const isToSpace = step.node.operator === 'DepthToSpace';
  return rowsFirst((_, data) => {
    const [rows = ONE, channels = ONE, height = ONE, width = ONE] = shapeOf(data);
    const scaled = (size: Size, factor: number): Size => sizes((one) => one * factor, size);
    const [depth, space] = isToSpace ? [1 / by ** 2, by] : [by ** 2, 1 / by];
    return [rows, scaled(channels, depth), scaled(height, space), scaled(width, space)];
  })(step);
};

const batchNormalised: Rule = (step) => {
  const { node, opset } = step;
  const data = inputAt(step, 0);
  const isTraining =
    node.int('training_mode', 0) === 1 || (opset < 14 && node.outputs.filter((name) => name !== '').length > 1);
  if (isTraining && hasRows(data)) mixes('it has training_mode=1: it normalises by the whole batch');
  if (hasRows(data) && data.axis === 1) mixes('it takes axis 1 for channels, and the rows are there');
  if (hasRows(data)) refuseRowsIn(step, 1);
  return plain(data);
};

// Shapes

const permute: Rule = (step) => {
  const data = inputAt(step, 0);
  const rank = shapeOf(data).length;
  return permuted(data, step.node.ints('perm') ?? fromAxis(0, rank).reverse());
};

function entriesPermuted({ entries, shape = [] }: Traced, order: readonly number[]): readonly Size[] | undefined {
  if (entries === undefined || order.every((axis, index) => axis === index)) return entries;
  const [rows, columns] = shape.map(constantOf);
  if (shape.length !== 2 || rows === undefined || columns === undefined) return undefined;
  return Array.from(
    { length: entries.length },
    (_, at) => entries[(at % rows) * columns + Math.floor(at / rows)] as Size,
  );
}

function permuted(data: Traced, order: readonly number[]): Traced {
  const { place, isReal, bounds } = data;
  return {
    ...plain(data),
    place,
    bounds,
    isReal,
    entries: entriesPermuted(data, order),
    axis: hasRows(data) ? order.indexOf(data.axis) : -1,
    shape: order.map((axis) => sizeAt(data, axis)),
  };
}

const reshape: Rule = (step) => {
  const data = inputAt(step, 0);
  const given = step.inputs[1]?.entries ?? step.node.ints('shape')?.map(constantSize);
  if (given === undefined) unknown('its new shape is not followed');
  const shape = shapeOf(data);
  const copied =
    step.node.int('allowzero', 0) === 1
      ? given
      : given.map((size, axis) => (constantOf(size) === 0 ? (shape[axis] ?? size) : size));
  const open = copied.findIndex((size) => constantOf(size) === -1);
  const rest = productOf(copied.filter((_, axis) => axis !== open));
  const filled =
    open < 0
      ? copied
      : replaced(
          copied,
          open,
          sizes((all, others) => all / others, productOf(shape), rest),
        );
  if (!isEqual(productOf(filled), productOf(shape)))
    unknown('it runs at fewer sizes than the open axes of the inputs may have');
  return reshaped(data, filled);
};

/** Rows stay on the axis where as much is before them as was, if it holds all of them. */
function reshaped(data: Traced, shape: readonly Size[]): Traced {
  if (!hasRows(data)) return { ...data, shape };
  const before = productOf([...shapeOf(data).slice(0, data.axis), seriesOf(data)]);
  for (const [axis, size] of shape.entries()) {
    const series = quotient(before, productOf(shape.slice(0, axis)));
    if (!series.every((count) => count >= 1 && Number.isInteger(count)) || !isMultipleOfRows(size)) continue;
    if (!quotient(quotient(size, series), ROWS).every(Number.isInteger)) continue;
    // A row keeps its places as long as each row is one element of its axis.
    const place = isEqual(size, sizeAt(data, data.axis)) ? data.place : undefined;
    const isAsWide = isEqual(shape.at(-1) ?? ONE, shapeOf(data).at(-1) ?? ONE);
    if (data.padding !== undefined && !isAsWide) mixes('its rows decide how wide its input is');
    return { ...plain(data), axis, series, shape, place, isNever: data.isNever, padding: data.padding };
  }
  return mixes('its new shape does not keep rows apart');
}

function quotient(size: Size, by: Size): Size {
  return sizes((a, b) => a / b, size, by);
}

const flatten: Rule = (step) => {
  const data = inputAt(step, 0);
  const shape = shapeOf(data);
  const axis = axisOf(step.node.int('axis', 1), shape.length);
  return reshaped(data, [productOf(shape.slice(0, axis)), productOf(shape.slice(axis))]);
};

const squeeze: Rule = (step) => {
  const data = inputAt(step, 0);
  const shape = shapeOf(data);
  const axes = axesOf(step, shape.length) ?? shape.flatMap((size, axis) => (constantOf(size) === 1 ? [axis] : []));
  if (hasRows(data) && axes.includes(data.axis)) mixes('it removes the axis of the rows');
  return {
    ...data,
    axis: data.axis - axes.filter((axis) => axis < data.axis).length,
    shape: shape.filter((_, axis) => !axes.includes(axis)),
    isTuple: false,
  };
};

const unsqueeze: Rule = (step) => {
  const data = inputAt(step, 0);
  const given = numbersOf(step, 'axes', 1) ?? [];
  const rank = shapeOf(data).length + given.length;
  const axes = given.map((axis) => axisOf(axis, rank));
  const left = fromAxis(0, rank).filter((axis) => !axes.includes(axis));
  const shape = fromAxis(0, rank).map((axis) => (axes.includes(axis) ? ONE : sizeAt(data, left.indexOf(axis))));
  return {
    ...data,
    axis: hasRows(data) ? (left[data.axis] ?? -1) : -1,
    shape,
  };
};

const expand: Rule = (step) => {
  const data = inputAt(step, 0);
  const wanted = inputAt(step, 1).entries ?? unknown('its new shape is not followed');
  return spread(data, broadcast([shapeOf(data), wanted]));
};

/** Repeats a tensor up to a shape: what has no rows has equal ones then. */
function spread(data: Traced, shape: readonly Size[]): Traced {
  const own = hasRows(data) ? data.axis + shape.length - shapeOf(data).length : -1;
  const axes = shape.flatMap((size, axis) => (variesWithRows(size) ? [axis] : []));
  const other = axes.find((axis) => axis !== own);
  if (other === undefined)
    return {
      ...plain(data),
      axis: own,
      shape,
      entries: entriesSpread(data, shape),
      isReal: data.isReal,
      place: data.place,
      bounds: data.bounds,
    };
  if (own >= 0 || axes.length > 1) mixes('it repeats rows by the number of rows');
  if (!isMultipleOfRows(shape[other] as Size))
    unknown('a size is computed from the number of rows in a way that is not followed');
  return { kind: data.kind === 'count' ? 'places' : 'equal', axis: other, byLength: data.byLength, shape };
}

function entriesSpread({ entries }: Traced, shape: readonly Size[]): readonly Size[] | undefined {
  const count = fewOf(shape);
  if (entries === undefined || count === undefined) return undefined;
  if (entries.length === count) return entries;
  return entries.length === 1 ? new Array<Size>(count).fill(entries[0] as Size) : undefined;
}

const tile: Rule = (step) => {
  const data = inputAt(step, 0);
  const repeats = inputAt(step, 1).entries ?? unknown('how often it repeats is not followed');
  const shape = shapeOf(data).map((size, axis) => sizes((a, b) => a * b, size, repeats[axis] ?? ONE));
  const again = repeats[data.axis] ?? ONE;
  return {
    ...spread({ ...data, shape: shapeOf(data) }, shape),
    ...(hasRows(data) && { series: productOf([again, seriesOf(data)]) }),
  };
};

const filled: Rule = (step) => {
  const shape = inputAt(step, 0).entries ?? unknown('its shape is not followed');
  const constant = step.node.tensor('value');
  const value = step.node.has('value') ? constant?.values?.[0] : 0;
  const few = fewOf(shape);
  const entries = few === undefined || value === undefined ? undefined : new Array<Size>(few).fill(constantSize(value));
  const filledWith = spread({ ...same([]), isReal: constant?.isReal ?? true }, shape);
  return {
    ...filledWith,
    ...(filledWith.kind === 'same' && { ...same(shape, entries), isReal: constant?.isReal ?? true }),
  };
};

const shapeRule: Rule = ({ node, inputs: [data] }) => {
  const shape = shapeOf(data as Traced);
  const end = node.int('end') ?? shape.length;
  const entries = shape.slice(axisOf(node.int('start', 0), shape.length), axisOf(end, shape.length));
  return same([constantSize(entries.length)], entries);
};

const sizeRule: Rule = (step) => same([], [productOf(shapeOf(inputAt(step, 0)))]);

const isOne = (size: Size): boolean => constantOf(size) === 1;

const range: Rule = (step) => {
  const [start, limit, delta] = [0, 1, 2].map((index) => inputAt(step, index).entries?.[0]);
  const isFixed = givenOf(step).every(({ kind }) => kind === 'same');
  if (start === undefined || limit === undefined || delta === undefined) {
    if (isFixed) return same([step.open()]);
    return unknown('its limits are not followed');
  }
  const count = sizes((from, to, by) => Math.max(0, Math.ceil((to - from) / by)), start, limit, delta);
  const byLength = inputAt(step, 0).byLength === true || inputAt(step, 2).byLength === true;
  if (isFixed) {
    const fixed = constantOf(count);
    const entries =
      fewOf([count]) === undefined || fixed === undefined
        ? undefined
        : Array.from({ length: fixed }, (_, index) => sizes((from, by) => from + index * by, start, delta));
    const bounds = isOne(delta) && constantOf(start) === 0 && fixed ? ([0, fixed - 1] as const) : undefined;
    return { ...same([count], entries), bounds, byLength };
  }
  if (!isMultipleOfRows(count)) unknown('a size is computed from the number of rows in a way that is not followed');
  const isCounted = constantOf(start) === 0 && isOne(delta) && isEqual(count, ROWS);
  return { kind: 'places', axis: 0, shape: [count], place: isCounted ? { step: 1, offset: [0, 0] } : undefined };
};

const slice: Rule = (step) => {
  const data = inputAt(step, 0);
  const shape = shapeOf(data);
  const given = (name: string, input: number): readonly Size[] | undefined => {
    const traced = step.inputs[input];
    if (traced === undefined) return step.node.ints(name)?.map(constantSize);
    return traced.entries;
  };
  const starts = given('starts', 1);
  const ends = given('ends', 2);
  const axes = numbersOf(step, 'axes', 3)?.map((axis) => axisOf(axis, shape.length)) ?? fromAxis(0, shape.length);
  const steps = given('steps', 4);
  const result = [...shape];
  for (const [index, axis] of axes.entries()) {
    const size = sizeAt(data, axis);
    const [start, end, by = ONE] = [starts?.[index], ends?.[index], steps?.[index]];
    const isFollowed = start !== undefined && end !== undefined;
    const taken = isFollowed ? sizes(takenBy, size, start, end, by) : step.open();
    const isWhole = isFollowed && isEqual(taken, size) && constantOf(by) === 1;
    if (hasRows(data) && axis === data.axis && !isWhole) return takenRows(data, shape, axis, taken);
    result[axis] = isWhole ? size : taken;
  }
  const [start, end, by] = [starts, ends, steps].map((list) => constantOf(list?.[0] ?? ONE));
  const isFront = axes.length === 1 && axes[0] === 0 && starts !== undefined && ends !== undefined;
  const entries = isFront ? slicedEntries(data, start, end, steps === undefined ? 1 : by) : undefined;
  return { ...(entries ? same(result, entries) : plain(data)), isReal: data.isReal, shape: result };
};

function takenBy(size: number, start: number, end: number, by: number): number {
  const clamp = (value: number): number =>
    Math.max(by < 0 ? -1 : 0, Math.min(size - (by < 0 ? 1 : 0), value < 0 ? value + size : value));
  return Math.max(0, Math.ceil((clamp(end) - clamp(start)) / by));
}

/** Entries of a slice along the first axis: some of them, or all from the last on. */
function slicedEntries(
  { entries, shape = [] }: Traced,
  start: number | undefined,
  end: number | undefined,
  by: number | undefined,
): Size[] | undefined {
  const width = constantOf(productOf(shape.slice(1)));
  if (entries === undefined || width === undefined || start === undefined || end === undefined) return undefined;
  const blocks = Array.from({ length: entries.length / width }, (_, at) => entries.slice(at * width, (at + 1) * width));
  if (by === 1) return blocks.slice(start, end).flat();
  return by === -1 && start === -1 && end < -blocks.length ? blocks.toReversed().flat() : undefined;
}

/** Some rows by their places: those of equal ones are the same. */
function takenRows(data: Traced, shape: readonly Size[], axis: number, taken: Size): Traced {
  if (data.kind !== 'equal') mixes('it takes rows by their places');
  if (!variesWithRows(taken))
    return { kind: 'same', axis: -1, byLength: data.byLength, shape: replaced(shape, axis, taken) };
  return { ...plain(data), shape: replaced(shape, axis, taken) };
}

const split: Rule = (step) => {
  const { node, inputs } = step;
  const data = inputAt(step, 0);
  const axis = axisOf(node.int('axis', 0), shapeOf(data).length);
  const count = node.outputs.length;
  const given = inputs[1]?.entries ?? node.ints('split')?.map(constantSize);
  const whole = sizeAt(data, axis);
  const each = sizes((size) => Math.ceil(size / count), whole);
  return node.outputs.map((_, index) => {
    const last = sizes((size, one) => size - one * (count - 1), whole, each);
    const part = given === undefined ? (index === count - 1 ? last : each) : (given[index] ?? step.open());
    const from = given?.slice(0, index).map(constantOf) ?? [];
    const start =
      given === undefined ? index * (constantOf(each) ?? 0) : from.reduce<number>((sum, one) => sum + (one ?? 0), 0);
    const isSeries = isEqual(quotient(whole, part), seriesOf(data));
    if (hasRows(data) && axis === data.axis) {
      if (!isSeries) mixes('it splits the rows');
      return { ...plain(data), series: ONE, shape: replaced(shapeOf(data), axis, part) };
    }
    const isVector = shapeOf(data).length === 1;
    const entries = isVector ? data.entries?.slice(start, start + (constantOf(part) ?? 0)) : undefined;
    return {
      ...(entries ? same(undefined, entries) : plain(data)),
      isReal: data.isReal,
      shape: replaced(shapeOf(data), axis, part),
    };
  });
};

/** With scale and zero point behind each tensor, and those of the result in front. */
const quantisedConcat: Rule = (step) =>
  concat({ ...step, inputs: step.inputs.filter((_, index) => index >= 2 && index % 3 === 2) });

const concat: Rule = (step) => {
  const inputs = givenOf(step);
  const rank = shapeOf(inputs[0] as Traced).length;
  const axis = axisOf(step.node.int('axis', 0), rank);
  const shape = shapeOf(inputs[0] as Traced).map((size, at) => {
    const all = inputs.map((input) => sizeAt(input, at));
    return at === axis
      ? sizes((...values) => values.reduce((sum, one) => sum + one, 0), ...all)
      : (all.find((one) => constantOf(one) !== undefined && constantOf(one) !== 1) ?? size);
  });
  if (inputs.every(({ entries }) => entries !== undefined) && rank === 1) {
    return {
      ...same(
        shape,
        inputs.flatMap(({ entries = [] }) => entries),
      ),
      isReal: inputs.some(({ isReal }) => isReal),
    };
  }
  const leads = inputs[0] !== undefined && isOwnPlace(inputs[0]) && axis === rank - 1 && inputs[0].axis !== axis;
  const others = leads ? inputs.slice(1) : inputs;
  const met = meet(
    leads ? [{ ...(inputs[0] as Traced), kind: 'equal' }, ...others] : others,
    inputs.map((input) => input.axis),
  );
  const rowsOf = sizeAt(inputs.find(hasRows) ?? (inputs[0] as Traced), Math.max(0, met.axis));
  if (met.axis === axis) {
    const isSeries = inputs.every(
      (input) => hasRows(input) && isEqual(sizeAt(input, axis), rowsOf) && isEqual(seriesOf(input), ONE),
    );
    if (!isSeries) mixes('it joins rows of several tensors');
    return { ...met, series: constantSize(inputs.length), shape };
  }
  if (met.axis >= 0 && !others.every(hasRows)) mixes(CONSTANT_ROWS);
  return {
    ...met,
    shape: met.axis < 0 ? shape : replaced(shape, met.axis, sizeAt(inputs.find(hasRows) as Traced, met.axis)),
    isTuple: leads,
  };
};

const pad: Rule = (step) => {
  const data = inputAt(step, 0);
  const rank = shapeOf(data).length;
  const given = step.inputs[1]?.entries ?? (step.node.ints('pads') ?? step.node.ints('paddings'))?.map(constantSize);
  const axes =
    step.inputs[3] === undefined ? fromAxis(0, rank) : constantsOf(step.inputs[3])?.map((axis) => axisOf(axis, rank));
  if (given === undefined || axes === undefined) unknown('how much it pads is not followed');
  const shape = shapeOf(data).map((size, axis) => {
    const at = axes.indexOf(axis);
    if (at < 0) return size;
    return sizes((one, before, after) => one + before + after, size, given[at] ?? ONE, given[at + axes.length] ?? ONE);
  });
  const at = axes.indexOf(data.axis);
  if (hasRows(data) && at >= 0 && [given[at], given[at + axes.length]].some((size) => constantOf(size ?? ONE) !== 0))
    mixes('it adds rows');
  return { ...plain(data), shape };
};

// Look-ups

/** True if indexes of each row are of its own elements, along an axis that holds all rows. */
function isWithinRow(data: Traced, { place }: Traced): boolean {
  const size = sizeAt(data, data.axis);
  const width = (size[0] as number) / (ROWS[0] as number);
  return (
    place !== undefined &&
    isMultipleOfRows(size) &&
    place.step === width &&
    place.offset[0] >= 0 &&
    place.offset[1] < width &&
    isEqual(seriesOf(data), ONE)
  );
}

const gather: Rule = (step) => {
  const [data, indices] = [inputAt(step, 0), inputAt(step, 1)];
  const rank = shapeOf(data).length;
  const axis = axisOf(step.node.int('axis', 0), rank);
  const places = shapeOf(indices);
  const shape = [...shapeOf(data).slice(0, axis), ...places, ...shapeOf(data).slice(axis + 1)];
  const picked = constantsOf(indices);
  if (data.entries !== undefined && picked !== undefined && rank === 1) {
    const entries = picked.map((index) => data.entries?.at(index) ?? unknown('it looks up what is not there'));
    return { ...same(shape, entries), isReal: data.isReal };
  }
  if (!hasRows(data)) {
    const met = meet([data, indices], [-1, indices.axis + axis]);
    return { ...met, shape, axis: hasRows(indices) ? indices.axis + axis : -1 };
  }
  if (axis === data.axis) {
    if (isWithinRow(data, indices)) return { ...plain(data), axis: indices.axis + axis, shape };
    if (data.kind === 'equal' && !hasRows(indices)) return { kind: 'same', axis: -1, byLength: data.byLength, shape };
    mixes('it takes rows by their places');
  }
  if (hasRows(indices)) mixes('each row looks up in all rows');
  const moved = data.axis > axis ? data.axis + places.length - 1 : data.axis;
  return { ...meet([data, indices], [moved, -1]), axis: moved, shape };
};

const CONSTANT_ROWS = 'a constant number of rows meets the rows';

/** Meets tensors of one shape, none of which is broadcast. */
function meetWhole(inputs: readonly Traced[]): Met {
  const met = meet(
    inputs,
    inputs.map(({ axis }) => axis),
  );
  if (met.axis >= 0 && !inputs.every(hasRows)) mixes(CONSTANT_ROWS);
  return met;
}

const gatherElements: Rule = (step) => {
  const [data, indices] = [inputAt(step, 0), inputAt(step, 1)];
  const met = meetWhole([data, indices]);
  if (met.axis === axisOf(step.node.int('axis', 0), shapeOf(data).length)) mixes('it takes rows by their places');
  return { ...met, shape: shapeOf(indices) };
};

const gatherTuples: Rule = (step) => {
  const [data, indices] = [inputAt(step, 0), inputAt(step, 1)];
  const batchDims = step.node.int('batch_dims', 0);
  const depth =
    constantOf(sizeAt(indices, shapeOf(indices).length - 1)) ?? unknown('how deep it looks up is not followed');
  const shape = [...shapeOf(indices).slice(0, -1), ...shapeOf(data).slice(batchDims + depth)];
  if (hasRows(indices) && indices.axis === shapeOf(indices).length - 1) mixes('rows make its indexes');
  if (!hasRows(data)) return { ...meet([data, indices], [-1, indices.axis]), axis: indices.axis, shape };
  if (data.axis < batchDims) return { ...meet([data, indices], [data.axis, indices.axis]), shape };
  if (data.axis === batchDims && indices.isTuple && isEqual(seriesOf(data), ONE))
    return { ...meet([data, indices], [indices.axis, indices.axis]), axis: indices.axis, shape };
  if (data.axis >= batchDims + depth && !hasRows(indices)) {
    return { ...plain(data), axis: data.axis - batchDims - depth + shapeOf(indices).length - 1, shape };
  }
  return mixes('it takes rows by their places');
};

const scatterElements: Rule = (step) => {
  const inputs = [inputAt(step, 0), inputAt(step, 1), inputAt(step, 2)];
  const shape = shapeOf(inputAt(step, 0));
  const met = meetWhole(inputs);
  if (met.axis === axisOf(step.node.int('axis', 0), shape.length)) mixes('it writes rows by their places');
  return { ...met, shape };
};

const scatterTuples: Rule = (step) => {
  const [data, indices, updates] = [inputAt(step, 0), inputAt(step, 1), inputAt(step, 2)];
  const depth =
    constantOf(sizeAt(indices, shapeOf(indices).length - 1)) ?? unknown('how deep it writes is not followed');
  const shape = shapeOf(data);
  if (!hasRows(data)) {
    if ([data, indices, updates].some(hasRows)) mixes('rows write to what all share');
    return { ...meet([data, indices, updates], [-1, -1, -1]), shape };
  }
  const inTuples = shapeOf(indices).length - 1;
  const isOwn = data.axis === 0 && indices.isTuple === true && isEqual(seriesOf(data), ONE);
  if (!isOwn && (data.axis < depth || hasRows(indices))) mixes('it writes rows by their places');
  const at = isOwn ? indices.axis : data.axis - depth + inTuples;
  const met = meet([data, updates], [data.axis, hasRows(updates) && updates.axis === at ? data.axis : -2]);
  if (!hasRows(updates)) mixes(CONSTANT_ROWS);
  return { ...met, axis: data.axis, shape };
};

const oneHot: Rule = (step) => {
  const indices = inputAt(step, 0);
  const shape = shapeOf(indices);
  const axis = axisOf(step.node.int('axis', -1), shape.length + 1);
  const depth = step.inputs[1]?.entries?.[0] ?? step.open();
  if (
    givenOf(step)
      .slice(1)
      .some(({ kind }) => kind !== 'same')
  )
    mixes('rows decide how wide it is');
  return {
    ...plain(indices),
    axis: hasRows(indices) && indices.axis >= axis ? indices.axis + 1 : indices.axis,
    shape: [...shape.slice(0, axis), depth, ...shape.slice(axis)],
  };
};

const triangle: Rule = (step) => {
  const data = inputAt(step, 0);
  const rank = shapeOf(data).length;
  if (hasRows(data) && data.axis >= rank - 2) mixes("a row's place in the batch decides what it keeps");
  return {
    ...meet(
      givenOf(step),
      givenOf(step).map((one, index) => (index === 0 ? one.axis : -1)),
    ),
    axis: data.axis,
    shape: shapeOf(data),
  };
};

// Layers with a state

const recurrent: Rule = (step) => {
  const { node, inputs } = step;
  const data = inputAt(step, 0);
  const isRowsFirst = node.int('layout', 0) === 1;
  const axis = isRowsFirst ? 0 : 1;
  if (hasRows(data) && data.axis !== axis) mixes(`it takes axis ${1 - axis} for time, and the rows are there`);
  if (hasRows(data) && [1, 2, 3, 7].some((index) => inputs[index] !== undefined && inputs[index].kind !== 'same'))
    unknown('its weights depend on the batch');
  const isLstm = node.operator === 'LSTM';
  const states = [4, 5, ...(isLstm ? [6] : [])].flatMap((index) => inputs[index] ?? []);
  const met = meet(
    [data, ...states],
    [axis, ...states.map((state) => (shapeOf(state).length === 1 || isRowsFirst ? state.axis + axis : state.axis))].map(
      (one, index) => ([data, ...states][index] && hasRows([data, ...states][index] as Traced) ? one : -1),
    ),
  );
  if (hasRows(data) && !states.every(hasRows)) mixes(CONSTANT_ROWS);
  const [a = ONE, b = ONE] = shapeOf(data);
  const [time, rows] = isRowsFirst ? [b, a] : [a, b];
  const directions = sizeAt(inputAt(step, 1), 0);
  const hidden = constantSize(node.int('hidden_size', 1));
  const [all, last] = isRowsFirst
    ? [
        [rows, time, directions, hidden],
        [rows, directions, hidden],
      ]
    : [
        [time, directions, rows, hidden],
        [directions, rows, hidden],
      ];
  const at = (axisOfRows: number): number => (met.axis < 0 ? -1 : axisOfRows);
  return [
    { ...met, axis: at(isRowsFirst ? 0 : 2), shape: all },
    ...[1, 2].map(() => ({ ...met, axis: at(isRowsFirst ? 0 : 1), shape: last })),
  ];
};

const branch: Rule = (step) => {
  const condition = inputAt(step, 0);
  const [taken] = constantsOf(condition) ?? [];
  const graphs = [step.node.graph('then_branch'), step.node.graph('else_branch')].filter(
    (graph) => graph !== undefined,
  );
  if (taken !== undefined) return step.within(graphs[taken === 0 ? 1 : 0] as Graph);
  if (condition.kind === 'count') mixes('the number of rows decides which branch it takes');
  if (condition.kind !== 'same') unknown('rows decide which branch it takes');
  const [then = [], otherwise = []] = graphs.map((graph) => step.within(graph));
  return then.map((one, index) => either(one, otherwise[index] as Traced, step));
};

function either(one: Traced, other: Traced, { open }: Step): Traced {
  const isAlike = one.kind === other.kind && one.axis === other.axis && one.shape?.length === other.shape?.length;
  if (!isAlike) unknown('its branches treat rows differently');
  const shape = one.shape?.map((size, axis) =>
    isEqual(size, other.shape?.[axis] ?? ONE)
      ? size
      : axis === one.axis
        ? unknown('its branches treat rows differently')
        : open(),
  );
  return { ...plain(one), shape, byLength: one.byLength || other.byLength };
}

/**
 * A scan that carries nothing on. Over what all rows share, each of its steps is a graph like any other; over the rows, what
 * a step makes is made of one row alone.
 */
const scan: Rule = (step) => {
  const { node } = step;
  const body = node.graph('body') ?? unknown('it has no body');
  const given = givenOf(step);
  const states = given.length - node.int('num_scan_inputs', 1);
  const [kept, slices] = [given.slice(0, states), given.slice(states)];
  const isTurned = SCAN_DIRECTIONS.some((name) => node.ints(name)?.some((value) => value !== 0));
  const isKept = body.outputs.slice(0, states).every((name, index) => {
    const maker = body.nodes.find(({ outputs }) => outputs.includes(name));
    return name === body.inputs[index] || (maker?.operator === 'Identity' && maker.inputs[0] === body.inputs[index]);
  });
  const overRows = slices.every((slice) => hasRows(slice) && slice.axis === 0);
  if (isTurned || !isKept || !(overRows || slices.every(({ kind }) => kind === 'same')))
    unknown('what it carries on is not followed');
  const made = step.within(body, [...kept, ...slices.map((slice) => same(shapeOf(slice).slice(1)))]);
  const count = sizeAt(slices[0] as Traced, 0);
  if (overRows && [...kept, ...made].some(({ kind }) => kind !== 'same'))
    unknown('its body uses the rows of the batch');
  const { kind } = meet(
    slices,
    slices.map(({ axis }) => axis),
  );
  return [
    ...kept,
    ...made.slice(states).map((one) => ({
      ...plain(one),
      ...(overRows ? { kind, axis: 0 } : { axis: hasRows(one) ? one.axis + 1 : -1 }),
      shape: one.shape && [count, ...one.shape],
    })),
  ];
};

const SCAN_DIRECTIONS = ['scan_input_axes', 'scan_output_axes', 'scan_input_directions', 'scan_output_directions'];

const distances: Rule = (step) => {
  const [data, others] = [inputAt(step, 0), inputAt(step, 1)];
  if (hasRows(data) && (data.axis !== 0 || others.kind !== 'same')) mixes('it compares rows with rows');
  return { ...meet([data, others], [data.axis, others.axis]), shape: [sizeAt(data, 0), sizeAt(others, 0)] };
};

// Attention

/** Fused layers: each row attends to itself. What else they are given is the same for all rows, or has rows in front. */
const attention: Rule = (step) => {
  const data = inputAt(step, 0);
  if (hasRows(data) && data.axis !== 0) mixes(`it takes axis 0 for the rows, and they are on axis ${data.axis}`);
  const [rows = ONE, length = ONE, width = ONE] = shapeOf(data);
  const others = givenOf(step).slice(1);
  for (const other of others) {
    if (other.kind === 'places' || other.kind === 'count') mixes('the number of rows or their place enters the data');
    if (other.kind === 'rows' && data.kind !== 'rows') unknown('its weights depend on rows');
    if (hasRows(other) && other.axis > 1) unknown('rows are on an axis that is not followed');
  }
  const kept = { ...plain(data), byLength: [data, ...others].some((one) => one.byLength) };
  // ONNX's own operator has another layout.
  const shape = step.node.domain === '' ? undefined : [rows, length, attentionWidth(step) ?? width];
  const isPacked = step.node.operator === 'Attention' || step.node.operator === 'QAttention';
  const past = { ...kept, axis: isPacked && hasRows(data) ? 1 : data.axis, shape: undefined };
  return [{ ...kept, shape }, past, past];
};

/** Width of the values, if it is not that of the query. */
function attentionWidth({ node, inputs: [, , third] }: Step): Size | undefined {
  if (node.operator === 'MultiHeadAttention') return third?.shape?.[2];
  if (node.operator !== 'Attention' && node.operator !== 'QAttention') return undefined;
  const hidden = node.ints('qkv_hidden_sizes')?.[2];
  // The bias is one of query, key and value together.
  const bias = third?.shape?.[0];
  return hidden === undefined ? bias && sizes((one) => one / 3, bias) : constantSize(hidden);
}

const embedded: Rule = (step) => {
  const data = inputAt(step, 0);
  const others = [1, 7, 8].flatMap((index) => step.inputs[index] ?? []);
  const met = meet(
    [data, ...others],
    [data, ...others].map((one) => one.axis),
  );
  if (met.axis > 0) mixes(`it takes axis 0 for the rows, and they are on axis ${met.axis}`);
  const [rows = ONE, length = ONE] = shapeOf(data);
  const width = sizeAt(inputAt(step, 2), 1);
  return [
    { ...met, shape: [rows, length, width] },
    { ...met, shape: [rows] },
    { ...met, shape: [rows, length, width] },
  ];
};

const rotated: Rule = (step) => {
  const data = inputAt(step, 0);
  const others = givenOf(step).slice(1);
  return {
    ...meet([data, ...others], [data.axis, ...others.map((one) => one.axis)]),
    axis: data.axis,
    shape: shapeOf(data),
  };
};

// Classic models

/** Rows are on axis 0; those of other operators have one axis, or two. */
const classic =
  (widths: (step: Step, data: Traced) => readonly (Size | undefined)[]): Rule =>
  (step) => {
    const data = inputAt(step, 0);
    if (hasRows(data) && data.axis !== 0) mixes(`it takes axis 0 for the rows, and they are on axis ${data.axis}`);
    if (hasRows(data) && shapeOf(data).length === 1 && step.node.operator !== 'LabelEncoder') {
      // A vector is one row to these operators, or as many of one feature.
      mixes('it may take a vector of rows for the features of one');
    }
    const [rows = ONE] = shapeOf(data);
    return widths(step, data).map((width) => ({ ...plain(data), shape: width === undefined ? [rows] : [rows, width] }));
  };

function lengthOfList({ node }: Step, ...names: readonly string[]): Size | undefined {
  for (const name of names) {
    const count = Math.max(node.ints(name)?.length ?? 0, node.texts(name).length);
    if (count > 0) return constantSize(count);
  }
  return undefined;
}

const classesOf = (step: Step): Size =>
  lengthOfList(step, 'classlabels_strings', 'classlabels_ints', 'classlabels_int64s') ?? step.open();

const targetsOf = ({ node }: Step): Size => constantSize(node.int('n_targets') ?? node.int('targets', 1));

const extracted: Rule = (step) => {
  const [data, indices] = [inputAt(step, 0), inputAt(step, 1)];
  const shape = shapeOf(data);
  const isVector = shape.length === 1;
  const width = productOf(shapeOf(indices));
  if (!hasRows(data)) {
    // Of a vector it makes one row, of more as many as there are.
    const before = isVector ? [ONE] : shape.slice(0, -1);
    const flat = hasRows(indices) ? reshaped(indices, [...before.map(() => ONE), width]) : indices;
    return { ...meet([data, indices], [-1, flat.axis]), axis: flat.axis, shape: [...before, width] };
  }
  if (data.axis === shape.length - 1) mixes('it takes rows by their places');
  if (indices.kind !== 'same') mixes('rows decide what it takes of each');
  return { ...plain(data), shape: [...shape.slice(0, -1), width] };
};

const joined: Rule = (step) => {
  const inputs = givenOf(step);
  const met = meet(
    inputs,
    inputs.map((input) => input.axis),
  );
  if (met.axis > 0) mixes('it joins along the rows');
  const widths = inputs.map((input) => (shapeOf(input).length > 1 ? sizeAt(input, 1) : ONE));
  const [rows = ONE] = shapeOf(inputs[0] as Traced);
  return { ...met, shape: [rows, sizes((...all) => all.reduce((sum, one) => sum + one, 0), ...widths)] };
};

const encodedCategories: Rule = (step) => {
  const data = inputAt(step, 0);
  const width = lengthOfList(step, 'cats_strings', 'cats_int64s') ?? step.open();
  return { ...plain(data), shape: [...shapeOf(data), width] };
};

/** Words beyond the end of a row are those of the padding, which no vocabulary has. */
const counted: Rule = (step) => {
  const data = inputAt(step, 0);
  const shape = shapeOf(data);
  const width = step.node.ints('ngram_indexes')?.reduce((max, one) => Math.max(max, one + 1), 0);
  if (shape.length === 1 && hasRows(data)) mixes('it counts over all rows');
  if (data.padding !== undefined && step.node.texts('pool_strings').includes(data.padding))
    mixes('it counts the padding, which rows decide');
  return { ...plain(data), shape: [...shape.slice(0, -1), width === undefined ? step.open() : constantSize(width)] };
};

const tokenised: Rule = (step) => {
  const data = inputAt(step, 0);
  const padding = step.node.text('pad_value', '');
  return { ...plain(data), padding, shape: [...shapeOf(data), step.open()] };
};

// What mixes rows

const byBatch =
  (why: string): Rule =>
  (step) => {
    if (givenOf(step).every(({ kind }) => kind === 'same')) unknown('it is made of constants');
    return mixes(why);
  };

const random: Rule = () => mixes('its answers are random');

const dropout: Rule = (step) => {
  const [isTraining] = step.inputs[2] === undefined ? [0] : (constantsOf(step.inputs[2]) ?? [1]);
  if (isTraining !== 0) mixes('it drops values at random, as in training');
  const data = inputAt(step, 0);
  return [plain(data), plain(data)];
};

const words = (text: string): string[] => text.trim().split(/\s+/);

/** Operators without a prefix are of ONNX's own domains, or of ONNX Runtime's under a name that no other has. */
export const FAMILIES: readonly Family[] = [
  {
    name: 'Element by element',
    apart: 'always; the number of rows, a row number or a constant for each row must not enter',
    operators:
      words(`Abs Acos Acosh Add And Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Ceil Celu Clip
      Cos Cosh Div Elu Equal Erf Exp Floor Gelu Greater GreaterOrEqual HardSigmoid HardSwish Identity IsInf IsNaN LeakyRelu Less
      LessOrEqual Log Max Mean Min Mish Mod Mul Neg Not Or PRelu Pow Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh
      Softplus Softsign Sqrt Sub Sum Swish Tan Tanh ThresholdedRelu Where Xor BiasGelu FastGelu QuickGelu BiasAdd BiasSplitGelu
      StringConcat RegexFullMatch Binarizer Imputer Scaler CategoryMapper LabelEncoder`),
    rule: elementwise,
  },
  {
    name: 'Normalisation of text',
    apart: 'without stop words',
    operators: words('StringNormalizer'),
    rule: normalisedText,
  },
  { name: 'Casts', apart: 'always', operators: words('Cast CastLike'), rule: cast },
  {
    name: 'Quantisation with constant scales',
    apart: 'always, unless each row has a scale',
    operators:
      words(`QuantizeLinear DequantizeLinear QLinearAdd QLinearMul QLinearSigmoid QLinearLeakyRelu QLinearSoftmax
      QLinearWhere`),
    rule: withFixed,
  },
  {
    name: 'Softmax',
    apart: 'along another axis than the rows',
    operators: words('Softmax LogSoftmax Hardmax'),
    rule: along(softmaxAxes),
  },
  {
    name: 'Normalisation along an axis',
    apart: 'along another axis than the rows',
    operators: words('LpNormalization'),
    rule: along(oneAxis(-1)),
  },
  {
    name: 'Normalisation of layers',
    apart: 'if the rows are before the axes it normalises',
    operators: words(`LayerNormalization RMSNormalization SimplifiedLayerNormalization SkipLayerNormalization
      SkipSimplifiedLayerNormalization EmbedNormalization`),
    rule: normalised,
  },
  {
    name: 'Normalisation of batches',
    apart: 'outside of training mode',
    operators: words('BatchNormalization'),
    rule: batchNormalised,
  },
  {
    name: 'Normalisation of images',
    apart: 'if the rows are on axis 0',
    operators: words('InstanceNormalization GroupNormalization GroupNorm LRN'),
    rule: rowsFirst((_, data) => shapeOf(data)),
  },
  {
    name: 'Reductions',
    apart: 'over other axes than the rows',
    operators: words(`ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum
      ReduceSumSquare ArgMax ArgMin`),
    rule: reduction,
  },
  { name: 'Largest', apart: 'along another axis than the rows', operators: words('TopK'), rule: topK },
  {
    name: 'Running sums',
    apart: 'along another axis than the rows',
    operators: words('CumSum CumProd'),
    rule: cumulative,
  },
  {
    name: 'Products of matrices',
    apart: 'if neither sums over rows nor multiplies rows with rows',
    operators: words('MatMul MatMulInteger QLinearMatMul FusedMatMul Gemm FusedGemm TransposeMatMul'),
    rule: gemm,
  },
  {
    name: 'Quantised products',
    apart: 'as products of matrices',
    operators: words('QGemm MatMulIntegerToFloat'),
    rule: quantisedGemm,
  },
  {
    name: 'Packed weights',
    apart: 'if they are the same for all rows',
    operators: words('MatMulNBits MatMulBnb4'),
    rule: packedWeights,
  },
  { name: 'Einsum', apart: 'if the letter of the rows is in the result', operators: words('Einsum'), rule: einsum },
  {
    name: 'Convolutions',
    apart: 'if the rows are on axis 0 and the weights are the same for all',
    operators: words('Conv ConvInteger QLinearConv FusedConv ConvTranspose'),
    rule: image(convolved),
  },
  {
    name: 'Pools',
    apart: 'if the rows are on axis 0',
    operators: words('AveragePool MaxPool LpPool QLinearAveragePool'),
    rule: image(pooled),
  },
  {
    name: 'Pools of everything',
    apart: 'if the rows are on axis 0',
    operators: words('GlobalAveragePool GlobalMaxPool GlobalLpPool QLinearGlobalAveragePool'),
    rule: image(pooledWhole),
  },
  {
    name: 'Sampling at places of a grid',
    apart: 'if the rows are on axis 0',
    operators: words('GridSample'),
    rule: rowsFirst((step, data) => [...shapeOf(data).slice(0, 2), ...shapeOf(inputAt(step, 1)).slice(1, -1)]),
  },
  { name: 'Resizing', apart: 'unless the rows are resized', operators: words('Resize Upsample'), rule: resized },
  {
    name: 'Depth and space',
    apart: 'if the rows are on axis 0',
    operators: words('DepthToSpace SpaceToDepth'),
    rule: blocks,
  },
  { name: 'Transposition', apart: 'always', operators: words('Transpose'), rule: permute },
  { name: 'New shapes', apart: 'if rows stay the slowest part of an axis', operators: words('Reshape'), rule: reshape },
  { name: 'Flattening', apart: 'if rows stay the slowest part of an axis', operators: words('Flatten'), rule: flatten },
  { name: 'Fewer axes', apart: 'unless the axis of the rows goes', operators: words('Squeeze'), rule: squeeze },
  { name: 'More axes', apart: 'always', operators: words('Unsqueeze'), rule: unsqueeze },
  { name: 'Expansion', apart: 'unless rows are repeated', operators: words('Expand'), rule: expand },
  { name: 'Tiling', apart: 'unless rows are repeated', operators: words('Tile'), rule: tile },
  { name: 'Constants of a shape', apart: 'always', operators: words('ConstantOfShape'), rule: filled },
  {
    name: 'Shapes',
    apart: 'if the number of rows does not enter the data',
    operators: words('Shape'),
    rule: shapeRule,
  },
  { name: 'Sizes', apart: 'if the number of rows does not enter the data', operators: words('Size'), rule: sizeRule },
  { name: 'Ranges', apart: 'if row numbers do not enter the data', operators: words('Range'), rule: range },
  { name: 'Slices', apart: 'along other axes than the rows', operators: words('Slice'), rule: slice },
  { name: 'Splits', apart: 'along another axis than the rows', operators: words('Split'), rule: split },
  { name: 'Joins', apart: 'along another axis than the rows', operators: words('Concat'), rule: concat },
  {
    name: 'Quantised joins',
    apart: 'along another axis than the rows',
    operators: words('QLinearConcat'),
    rule: quantisedConcat,
  },
  { name: 'Padding', apart: 'along other axes than the rows', operators: words('Pad'), rule: pad },
  {
    name: 'Look-ups',
    apart: 'in what all rows share, or along another axis',
    operators: words('Gather'),
    rule: gather,
  },
  {
    name: 'Look-ups by element',
    apart: 'along another axis than the rows',
    operators: words('GatherElements'),
    rule: gatherElements,
  },
  {
    name: 'Look-ups by tuple',
    apart: "in what all rows share, or in each row's own",
    operators: words('GatherND'),
    rule: gatherTuples,
  },
  {
    name: 'Writes by element',
    apart: 'along another axis than the rows',
    operators: words('ScatterElements Scatter'),
    rule: scatterElements,
  },
  {
    name: 'Writes by tuple',
    apart: "into each row's own, or along other axes",
    operators: words('ScatterND'),
    rule: scatterTuples,
  },
  { name: 'One of many', apart: 'if the width is constant', operators: words('OneHot'), rule: oneHot },
  { name: 'Triangles', apart: 'if rows are not on the last two axes', operators: words('Trilu'), rule: triangle },
  {
    name: 'Recurrent layers',
    apart: 'if the rows are not on the axis of time',
    operators: words('LSTM GRU RNN'),
    rule: recurrent,
  },
  { name: 'Scans', apart: 'if they carry nothing on', operators: words('Scan'), rule: scan },
  { name: 'Distances', apart: 'from what all rows share', operators: words('CDist'), rule: distances },
  { name: 'Branches', apart: 'if rows do not decide which is taken', operators: words('If'), rule: branch },
  {
    name: 'Fused attention',
    apart: 'if the rows are on axis 0',
    operators: words('Attention QAttention MultiHeadAttention GroupQueryAttention DecoderMaskedMultiHeadAttention'),
    rule: attention,
  },
  {
    name: 'Fused embedding',
    apart: 'if the rows are on axis 0',
    operators: words('EmbedLayerNormalization QEmbedLayerNormalization'),
    rule: embedded,
  },
  { name: 'Rotary positions', apart: 'always', operators: words('RotaryEmbedding'), rule: rotated },
  {
    name: 'Trees, linear models and support vectors',
    apart: 'if the rows are on axis 0',
    operators: words('TreeEnsembleClassifier LinearClassifier SVMClassifier'),
    rule: classic((step) => [undefined, classesOf(step)]),
  },
  {
    name: 'Their regressors',
    apart: 'if the rows are on axis 0',
    operators: words('TreeEnsembleRegressor TreeEnsemble LinearRegressor SVMRegressor'),
    rule: classic((step) => [targetsOf(step)]),
  },
  {
    name: 'Normaliser',
    apart: 'if the rows are on axis 0',
    operators: words('Normalizer'),
    rule: classic((_, data) => [sizeAt(data, 1)]),
  },
  { name: 'Maps of classes', apart: 'always', operators: words('ZipMap'), rule: classic(() => [undefined]) },
  {
    name: 'Features',
    apart: 'along another axis than the rows',
    operators: words('ArrayFeatureExtractor'),
    rule: extracted,
  },
  { name: 'Feature vectors', apart: 'if the rows are on axis 0', operators: words('FeatureVectorizer'), rule: joined },
  { name: 'Categories', apart: 'always', operators: words('OneHotEncoder'), rule: encodedCategories },
  {
    name: 'Words',
    apart: 'if what counts them passes over the padding',
    operators: words('Tokenizer'),
    rule: tokenised,
  },
  {
    name: 'Counts of words',
    apart: 'if the padding is none of its words',
    operators: words('TfIdfVectorizer'),
    rule: counted,
  },
  {
    name: 'Dynamic quantisation',
    apart: 'never',
    operators: words('DynamicQuantizeLinear DynamicQuantizeMatMul DynamicQuantizeLSTM'),
    rule: byBatch('it scales by the whole batch'),
  },
  {
    name: 'Normalisation over rows',
    apart: 'never',
    operators: words('MeanVarianceNormalization'),
    rule: along(({ node }, rank) => (node.ints('axes') ?? [0, 2, 3]).map((axis) => axisOf(axis, rank))),
  },
  {
    name: 'Shapes that values decide',
    apart: 'never',
    operators: words('NonZero Compress Unique NonMaxSuppression StringSplit'),
    rule: byBatch('its rows decide the shape of its output'),
  },
  {
    name: 'Random numbers',
    apart: 'never',
    operators: words('RandomNormal RandomNormalLike RandomUniform RandomUniformLike Bernoulli Multinomial'),
    rule: random,
  },
  { name: 'Dropout', apart: 'outside of training mode', operators: words('Dropout BiasDropout'), rule: dropout },
];

const RULES: ReadonlyMap<string, Rule> = new Map(
  FAMILIES.flatMap(({ operators, rule }) => operators.map((operator) => [operator, rule] as const)),
);

/** Domains whose operators are those of the table; any others are custom. */
const DOMAINS = new Set(['', 'ai.onnx.ml', 'com.microsoft', 'com.ms.internal.nhwc', 'ai.onnx.preview']);

/** Operators that take sizes, places or padding, and look at how these depend on the batch. Any other input is data. */
const TAKES_SIZES = new Set(
  words(`Concat Reshape Flatten Squeeze Unsqueeze Expand Tile ConstantOfShape Range Slice Split Pad Gather GatherND
    ScatterND OneHot Resize Upsample TopK Trilu GatherElements`),
);

const TAKES_PADDING = new Set(words('TfIdfVectorizer Reshape Flatten'));

/** What rows decide of the batch may not enter the data, by whatever input. */
export function refuseByBatch({ operator }: GraphNode, inputs: readonly Traced[], outputs: readonly Traced[]): void {
  if (!TAKES_PADDING.has(operator) && inputs.some(({ padding }) => padding !== undefined))
    mixes('its rows decide how wide its input is');
  const isRows = outputs.some(({ kind }) => kind === 'rows');
  if (isRows && !TAKES_SIZES.has(operator) && inputs.some(({ kind }) => kind === 'count'))
    mixes('the number of rows enters the data');
}

export function ruleOf({ domain, operator }: GraphNode): Rule | undefined {
  return DOMAINS.has(domain) ? RULES.get(operator) : undefined;
}

export type { Met };
