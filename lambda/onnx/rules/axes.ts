import {
  axisOf,
  constantSize,
  constantsOf,
  hasRows,
  meet,
  mixes,
  ONE,
  refuseOwnRows,
  shapeOf,
  unknown,
  variesWithRows,
} from '../traced.ts';
import {
  axesOf,
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

/* Rules of operators that work along axes. */

/** Returns the rule of a family that works along some axes, none of which may be that of the rows. */
export function along(axesOfStep: (step: Step, rank: number) => readonly number[]): Rule {
  return (step) => {
    const data = inputAt(step, 0);
    refuseAlong(data, axesOfStep(step, shapeOf(data).length));
    return plain(data);
  };
}

/** Returns the axes of a softmax. Before version 13 it works along an axis and all axes after it. */
export const softmaxAxes = ({ node, opset }: Step, rank: number): number[] => {
  // ONNX Runtime's operator for quantised values has the version as an attribute.
  const version = node.int('opset', opset);
  const axis = axisOf(node.int('axis', version < 13 ? 1 : -1), rank);
  return version < 13 ? fromAxis(axis, rank) : [axis];
};

export const oneAxis = ({ node }: Step, rank: number): number[] => [axisOf(node.int('axis', -1), rank)];

export const normalised: Rule = (step) => {
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

export const reduction: Rule = (step) => {
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

export const topK: Rule = (step) => {
  const data = inputAt(step, 0);
  const axis = axisOf(step.node.int('axis', -1), shapeOf(data).length);
  refuseAlong(data, [axis]);
  const k = step.inputs[1] === undefined ? constantSize(step.node.int('k', 1)) : followSizes(step, 1)?.[0];
  if (k !== undefined && variesWithRows(k)) mixes('the number of rows decides how many it takes');
  const shape = withSizeAt(shapeOf(data), axis, k ?? step.open());
  return [0, 1].map(() => ({ ...plain(data), shape }));
};

export const cumulative: Rule = (step) => {
  const data = inputAt(step, 0);
  const [given = 0] = constantsOf(inputAt(step, 1)) ?? unknown('its axis is not constant');
  const axis = axisOf(given, shapeOf(data).length);
  if (data.kind === 'equal' && axis === data.axis) return { ...plain(data), kind: 'places' };
  refuseAlong(data, [axis]);
  return plain(data);
};
