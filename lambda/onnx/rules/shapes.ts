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
  meet,
  mixes,
  ONE,
  productOf,
  ROWS,
  type Size,
  same,
  seriesOf,
  shapeOf,
  sizeAt,
  sizes,
  type Traced,
  unknown,
  variesWithRows,
} from '../traced.ts';
import {
  axesOf,
  CONSTANT_ROWS,
  type Family,
  family,
  followSizes,
  fromAxis,
  givenOf,
  inputAt,
  numbersOf,
  plain,
  quotient,
  type Rule,
  refuseOthers,
  rowsFirst,
  withSizeAt,
} from './step.ts';

/* Rules of operators that change shapes or compute with them. */

const permute: Rule = (step) => {
  const data = inputAt(step, 0);
  const rank = shapeOf(data).length;
  return permuted(data, step.node.ints('perm') ?? fromAxis(0, rank).reverse());
};

function permuteEntries({ entries, shape = [] }: Traced, order: readonly number[]): readonly Size[] | undefined {
  if (entries === undefined || order.every((axis, index) => axis === index)) return entries;
  const [rows, columns] = shape.map(constantOf);
  if (shape.length !== 2 || rows === undefined || columns === undefined) return undefined;
  return Array.from(
    { length: entries.length },
    (_, at) => entries[(at % rows) * columns + Math.floor(at / rows)] as Size,
  );
}

export function permuted(data: Traced, order: readonly number[]): Traced {
  const { place, isReal, bounds } = data;
  return {
    ...plain(data),
    place,
    bounds,
    isReal,
    entries: permuteEntries(data, order),
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
  const filled = withSizeAt(copied, open, quotient(productOf(shape), rest));
  if (!isEqual(productOf(filled), productOf(shape)))
    unknown('it runs at fewer sizes than the open axes of the inputs may have');
  return reshaped(data, filled);
};

/** Reshapes a tensor. Rows stay on an axis that holds all of them and has the same number of elements before it. */
export function reshaped(data: Traced, shape: readonly Size[]): Traced {
  if (!hasRows(data)) return { ...data, shape };
  const before = productOf([...shapeOf(data).slice(0, data.axis), seriesOf(data)]);
  for (const [axis, size] of shape.entries()) {
    const series = quotient(before, productOf(shape.slice(0, axis)));
    const rest = quotient(quotient(size, series), ROWS);
    if (!isMultipleOfRows(size) || ![...series, ...rest].every((count) => count >= 1 && Number.isInteger(count)))
      continue;
    // A row keeps its place if each row is one element of its axis.
    const place = isEqual(size, sizeAt(data, data.axis)) ? data.place : undefined;
    const isAsWide = isEqual(shape.at(-1) ?? ONE, shapeOf(data).at(-1) ?? ONE);
    if (data.padding !== undefined && !isAsWide) mixes('its rows decide how wide its input is');
    return { ...plain(data), axis, series, shape, place, padding: data.padding };
  }
  return mixes('its new shape does not keep rows apart');
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
  const given = axesOf(step, shape.length);
  if (given === undefined && hasRows(data)) unknown('it removes the rows too if there is one');
  const axes = given ?? shape.flatMap((size, axis) => (constantOf(size) === 1 ? [axis] : []));
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
    isTuple: data.isTuple === true && !axes.includes(rank - 1),
  };
};

const expand: Rule = (step) => {
  const data = inputAt(step, 0);
  const wanted = inputAt(step, 1).entries ?? unknown('its new shape is not followed');
  return spread(data, broadcast([shapeOf(data), wanted]));
};

/** Expands a tensor to a shape. A tensor without rows gets equal ones. */
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
  // If several rows are repeated together, each row gets all of them in order.
  const series = constantOf(shapeOf(data)[other - shape.length + shapeOf(data).length] ?? ONE) === 1 ? undefined : ONE;
  return { kind: data.kind === 'count' ? 'places' : 'equal', axis: other, series, byLength: data.byLength, shape };
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
  if (hasRows(data) && !isOne(repeats[data.axis] ?? ONE)) mixes('it repeats rows');
  return spread(data, shape);
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
  const [start, end] = [node.int('start', 0), node.int('end', shape.length)];
  const entries = shape.slice(start, end);
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
    const last = sizes((size) => size - 1, count);
    const bounds = isOne(delta) && constantOf(start) === 0 ? ([start, last] as const) : undefined;
    return { ...same([count], entries), bounds, byLength };
  }
  if (!isMultipleOfRows(count)) unknown('a size is computed from the number of rows in a way that is not followed');
  const isCounted = constantOf(start) === 0 && isOne(delta) && isEqual(count, ROWS);
  return {
    kind: 'places',
    axis: 0,
    shape: [count],
    place: isCounted ? { step: ONE, offset: [start, start] } : undefined,
  };
};

const slice: Rule = (step) => {
  const data = inputAt(step, 0);
  const shape = shapeOf(data);
  const given = (name: string, input: number): readonly Size[] | undefined =>
    step.inputs[input] === undefined ? step.node.ints(name)?.map(constantSize) : followSizes(step, input);
  const starts = given('starts', 1);
  const ends = given('ends', 2);
  const axes = numbersOf(step, 'axes', 3)?.map((axis) => axisOf(axis, shape.length)) ?? fromAxis(0, shape.length);
  const steps = given('steps', 4);
  const result = [...shape];
  for (const [index, axis] of axes.entries()) {
    const size = sizeAt(data, axis);
    const [start, end, by] = [starts?.[index], ends?.[index], step.inputs[4] === undefined ? ONE : steps?.[index]];
    const isFollowed = start !== undefined && end !== undefined && by !== undefined;
    const taken = isFollowed ? sizes(takenBy, size, start, end, by) : step.open();
    const isWhole = isFollowed && isEqual(taken, size) && constantOf(by) === 1;
    if (hasRows(data) && axis === data.axis && !isWhole) mixes('it takes rows by their places');
    if (!isWhole && [start, end, by].some((one) => one !== undefined && variesWithRows(one)))
      mixes('the number of rows decides what it takes');
    result[axis] = isWhole ? size : taken;
  }
  const [start, end] = [starts, ends].map((list) => constantOf(list?.[0] ?? ONE));
  const by = step.inputs[4] === undefined ? 1 : constantsOf(step.inputs[4])?.[0];
  const isFront = axes.length === 1 && axes[0] === 0 && starts !== undefined && ends !== undefined;
  const entries = isFront ? slicedEntries(data, start, end, by) : undefined;
  return { ...(entries ? same(result, entries) : plain(data)), isReal: data.isReal, shape: result };
};

function takenBy(size: number, start: number, end: number, by: number): number {
  const clamp = (value: number): number =>
    Math.max(by < 0 ? -1 : 0, Math.min(size - (by < 0 ? 1 : 0), value < 0 ? value + size : value));
  return Math.max(0, Math.ceil((clamp(end) - clamp(start)) / by));
}

/** Returns the entries of a slice along the first axis: some, or all from the last on. */
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

const split: Rule = (step) => {
  const { node, inputs } = step;
  const data = inputAt(step, 0);
  const axis = axisOf(node.int('axis', 0), shapeOf(data).length);
  const count = node.outputs.length;
  const given = inputs[1] === undefined ? node.ints('split')?.map(constantSize) : (followSizes(step, 1) ?? []);
  const whole = sizeAt(data, axis);
  const each = sizes((size) => Math.ceil(size / count), whole);
  return node.outputs.map((_, index) => {
    const last = sizes((size, one) => size - one * (count - 1), whole, each);
    const part = given === undefined ? (index === count - 1 ? last : each) : (given[index] ?? step.open());
    const start =
      given === undefined
        ? index * (constantOf(each) ?? Number.NaN)
        : given.slice(0, index).reduce((sum, one) => sum + (constantOf(one) ?? Number.NaN), 0);
    if (hasRows(data) && axis === data.axis) {
      if (!isEqual(quotient(whole, part), seriesOf(data))) mixes('it splits the rows');
      return { ...plain(data), series: ONE, shape: withSizeAt(shapeOf(data), axis, part) };
    }
    const isVector = shapeOf(data).length === 1 && !Number.isNaN(start);
    const entries = isVector ? data.entries?.slice(start, start + (constantOf(part) ?? 0)) : undefined;
    return {
      ...(entries ? same(undefined, entries) : plain(data)),
      isReal: data.isReal,
      shape: withSizeAt(shapeOf(data), axis, part),
    };
  });
};

/** Rule of a quantised concatenation: scale and zero point of the result come first, then each tensor with its own. */
const quantisedConcat: Rule = (step) => {
  const joined = [...step.inputs.keys()].filter((index) => index >= 2 && index % 3 === 2);
  refuseOthers(step, joined);
  return joinedAlong(
    step.node.int('axis', 0),
    joined.map((index) => inputAt(step, index)),
  );
};

const concat: Rule = (step) => joinedAlong(step.node.int('axis', 0), givenOf(step));

/** Joins tensors along an axis. */
export function joinedAlong(along: number, inputs: readonly Traced[]): Traced {
  const rank = shapeOf(inputs[0] as Traced).length;
  const axis = axisOf(along, rank);
  const shape = shapeOf(inputs[0] as Traced).map((size, at) => {
    const all = inputs.map((input) => sizeAt(input, at));
    return at === axis
      ? sizes((...values) => values.reduce((sum, one) => sum + one, 0), ...all)
      : (all.find((one) => constantOf(one) !== undefined && constantOf(one) !== 1) ?? size);
  });
  if (inputs.every(({ entries }) => entries !== undefined) && rank === 1) {
    const entries = inputs.flatMap((input) => input.entries as readonly Size[]);
    return { ...same(shape, entries), isReal: inputs.some(({ isReal }) => isReal) };
  }
  const leads =
    inputs[0] !== undefined &&
    isOwnPlace(inputs[0]) &&
    axis === rank - 1 &&
    inputs[0].axis !== axis &&
    isOne(sizeAt(inputs[0], axis));
  const others = leads ? inputs.slice(1) : inputs;
  const met = meet(
    leads ? [{ ...(inputs[0] as Traced), kind: 'equal' }, ...others] : others,
    inputs.map((input) => input.axis),
  );
  if (met.axis === axis) {
    const rows = sizeAt(inputs.find(hasRows) as Traced, axis);
    if (!inputs.every((one) => hasRows(one) && isEqual(sizeAt(one, axis), rows) && isEqual(seriesOf(one), ONE)))
      mixes('it joins rows of several tensors');
    return { ...met, series: constantSize(inputs.length), shape };
  }
  if (met.axis >= 0 && !others.every(hasRows)) mixes(CONSTANT_ROWS);
  return {
    ...met,
    shape: met.axis < 0 ? shape : withSizeAt(shape, met.axis, sizeAt(inputs.find(hasRows) as Traced, met.axis)),
    isTuple: leads,
  };
}

const pad: Rule = (step) => {
  const data = inputAt(step, 0);
  const rank = shapeOf(data).length;
  const given = followSizes(step, 1) ?? (step.node.ints('pads') ?? step.node.ints('paddings'))?.map(constantSize);
  const axes =
    step.inputs[3] === undefined ? fromAxis(0, rank) : constantsOf(step.inputs[3])?.map((axis) => axisOf(axis, rank));
  if (given === undefined || axes === undefined) unknown('how much it pads is not followed');
  if (step.inputs[2] !== undefined && step.inputs[2].kind !== 'same') unknown('what it pads with depends on the batch');
  if (given.some(variesWithRows)) mixes('the number of rows decides how much it pads');
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

export const SHAPES: readonly Family[] = [
  family(
    rowsFirst((step, data) => [...shapeOf(data).slice(0, 2), ...shapeOf(inputAt(step, 1)).slice(1, -1)]),
    'if the rows are on axis 0',
    'GridSample',
    [0, 1],
  ),
  family(permute, 'always', 'Transpose'),
  family(reshape, 'if rows stay the slowest part of an axis', 'Reshape', [0, 1]),
  family(flatten, 'if rows stay the slowest part of an axis', 'Flatten'),
  family(squeeze, 'unless the axis of the rows goes', 'Squeeze'),
  family(unsqueeze, 'always', 'Unsqueeze'),
  family(expand, 'unless rows are repeated', 'Expand', [0, 1]),
  family(tile, 'unless rows are repeated', 'Tile', [0, 1]),
  family(filled, 'always', 'ConstantOfShape'),
  family(shapeRule, 'if the number of rows does not enter the data', 'Shape'),
  family(sizeRule, 'if the number of rows does not enter the data', 'Size'),
  family(range, 'if row numbers do not enter the data', 'Range', 'all'),
  family(slice, 'along other axes than the rows', 'Slice', 'all'),
  family(split, 'along another axis than the rows', 'Split', [0, 1]),
  family(concat, 'along another axis than the rows', 'Concat', 'all'),
  family(quantisedConcat, 'along another axis than the rows', 'QLinearConcat', 'all'),
  family(pad, 'along other axes than the rows', 'Pad', [0, 1]),
];
