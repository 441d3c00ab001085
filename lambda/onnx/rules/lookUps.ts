import {
  axisOf,
  constantOf,
  constantsOf,
  hasRows,
  isEqual,
  isMultipleOfRows,
  isRowByRow,
  type Met,
  meet,
  mixes,
  ONE,
  ROWS,
  type Size,
  same,
  seriesOf,
  shapeOf,
  sizeAt,
  sizes,
  type Traced,
  unknown,
} from '../traced.ts';
import { CONSTANT_ROWS, type Family, family, givenOf, inputAt, plain, quotient, type Rule } from './step.ts';

/* Rules of operators that read or write by index. */

/** Returns true if the indexes of each row refer to its own elements, on an axis that holds all rows. */
function isWithinRow(data: Traced, { place }: Traced): boolean {
  const size = sizeAt(data, data.axis);
  if (place === undefined || !isMultipleOfRows(size) || !isEqual(seriesOf(data), ONE)) return false;
  const width = quotient(size, ROWS);
  const [least, most] = place.offset;
  const after = sizes((one) => one + 1, most);
  const [from, to, end] = [least, after, width].map(constantOf);
  // Sizes that differ in the imagined batches may be in another order in others.
  const isBelowEnd = to !== undefined && end !== undefined ? to <= end : isEqual(after, width);
  return isEqual(place.step, width) && from !== undefined && from >= 0 && isBelowEnd;
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
    mixes('it takes rows by their places');
  }
  if (hasRows(indices)) mixes('each row looks up in all rows');
  const moved = data.axis > axis ? data.axis + places.length - 1 : data.axis;
  return { ...meet([data, indices], [moved, -1]), axis: moved, shape };
};

/** Combines tensors of one shape, without broadcasting. */
function meetWhole(inputs: readonly Traced[]): Met {
  const met = meet(inputs);
  if (met.axis < 0) return met;
  if (!inputs.every(hasRows)) mixes(CONSTANT_ROWS);
  const [size, ...others] = inputs.map((input) => sizeAt(input, met.axis)) as [Size, ...Size[]];
  if (!others.every((other) => isEqual(other, size))) mixes('its inputs have rows in another order');
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
  if (data.axis < batchDims) return { ...meet([data, indices]), shape };
  if (data.axis === batchDims && indices.isTuple && isRowByRow(data) && isRowByRow(indices))
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

/** Rule of writes by tuple. */
const writtenTuples: Rule = (step) => {
  const inputs = givenOf(step);
  if (inputs.some(hasRows)) unknown('it writes by indexes');
  return { ...meet(inputs), shape: shapeOf(inputAt(step, 0)) };
};

const oneHot: Rule = (step) => {
  const indices = inputAt(step, 0);
  const shape = shapeOf(indices);
  const axis = axisOf(step.node.int('axis', -1), shape.length + 1);
  const depth = step.inputs[1]?.entries?.[0] ?? step.open();
  const [, ...others] = givenOf(step);
  if (others.some(({ kind }) => kind !== 'same')) mixes('rows decide how wide it is');
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
  return { ...meet(givenOf(step)), shape: shapeOf(data) };
};

export const LOOK_UPS: readonly Family[] = [
  family(gather, "in what all rows share, in each row's own, or along another axis", 'Gather', [0, 1]),
  family(gatherElements, 'along another axis than the rows', 'GatherElements', [0, 1]),
  family(gatherTuples, "in what all rows share, or in each row's own", 'GatherND', [0, 1]),
  family(scatterElements, 'along another axis than the rows', 'ScatterElements Scatter', 'all'),
  family(writtenTuples, 'into constants', 'ScatterND', 'all'),
  family(oneHot, 'if the width is constant', 'OneHot', [0, 1]),
  family(triangle, 'if rows are not on the last two axes', 'Trilu'),
];
