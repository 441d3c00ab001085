import { REAL_TYPES } from '../graph.ts';
import {
  axisOf,
  fewOf,
  hasRows,
  meetBroadcast,
  mixes,
  ONE,
  refuseOwnRows,
  type Size,
  shapeOf,
  sizes,
  type Traced,
} from '../traced.ts';
import { givenOf, inputAt, plain, type Rule, type Step } from './step.ts';

/*
 * Operators that work element by element.
 */

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

export const elementwise: Rule = (step) => {
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
export const normalisedText: Rule = (step) => {
  const data = inputAt(step, 0);
  if (step.node.has('stopwords') && data.kind !== 'same') mixes('its rows decide the shape of its output');
  return plain(data);
};

export const cast: Rule = (step) => {
  const [data] = givenOf(step) as [Traced];
  const like = step.inputs[1];
  const isReal = like === undefined ? REAL_TYPES.has(step.node.int('to', 1)) : like.isReal === true;
  const isCut = !isReal && data.isReal;
  return { ...data, isReal, entries: isCut ? data.entries?.map((entry) => sizes(Math.trunc, entry)) : data.entries };
};

/** The first input decides; others, such as scales, are the same for all rows. */
export const withFixed: Rule = (step) => {
  const [data, ...others] = givenOf(step) as [Traced, ...Traced[]];
  if (others.some((other) => other.kind !== 'same')) return elementwise(step);
  const axis = axisOf(step.node.int('axis', 1), shapeOf(data).length);
  const perAxis = others.find(({ shape }) => shape === undefined || shape.length > 0);
  if (perAxis !== undefined && hasRows(data) && axis === data.axis) refuseOwnRows([perAxis], 0, 1);
  return { ...plain(data), shape: shapeOf(data) };
};
