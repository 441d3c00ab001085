import { REAL_TYPES } from '../graph.ts';
import {
  axisOf,
  type Bounds,
  blur,
  boundsOf,
  constantOf,
  fewOf,
  hasRows,
  isEqual,
  isProportional,
  meetBroadcast,
  ONE,
  refuseOwnRows,
  type Size,
  shapeOf,
  sizes,
  type Traced,
} from '../traced.ts';
import { type Family, family, givenOf, inputAt, plain, type Rule, type Step } from './step.ts';

/* Rules of elementwise operators. */

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
  Sqrt: Math.sqrt,
  Pow: (a = 0, b = 1) => a ** b,
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

/** Operators whose result follows their inputs without steps. */
const SMOOTH = new Set(['Add', 'Sub', 'Mul', 'Neg', 'Sqrt', 'Pow', 'Identity']);

/** Returns true if a result that is equal in the imagined batches is equal in all batches. */
function isCertain(operator: string, given: readonly Size[]): boolean {
  if (SMOOTH.has(operator)) return true;
  const [first = ONE, second = ONE] = given;
  if (operator === 'Where') return constantOf(first) !== undefined;
  // A product is divided by one of its factors.
  if (operator === 'Div' && first.every((size, batch) => size % (second[batch] as number) === 0)) return true;
  const isBelow = (a: Size, b: Size): boolean => a.every((size) => size > 0) && (constantOf(b) ?? 1) <= 0;
  return given.length === 2 && (isProportional(first, second) || isBelow(first, second) || isBelow(second, first));
}

const elementwise: Rule = (step) => {
  const inputs = givenOf(step);
  const { shape, ...met } = meetBroadcast(inputs);
  // A power has the type of its base.
  const isReal = (step.node.operator === 'Pow' ? inputs.slice(0, 1) : inputs).some((input) => input.isReal);
  return { ...met, shape, isReal, entries: entriesOf(step, inputs, shape, isReal), ...placeOf(step, inputs) };
};

function entriesOf({ node }: Step, inputs: readonly Traced[], shape: readonly Size[], isReal: boolean) {
  const count = fewOf(shape);
  const calculate = node.int('fmod', 0) === 1 ? undefined : ARITHMETIC[node.operator];
  const isAligned = inputs.every(({ entries }) => entries?.length === 1 || entries?.length === count);
  if (calculate === undefined || count === undefined || !isAligned) return undefined;
  const isCut = !isReal && (node.operator === 'Div' || node.operator === 'Pow');
  return Array.from({ length: count }, (_, index) => {
    const given = inputs.map(({ entries = [] }) => (entries.length === 1 ? entries[0] : entries[index]) ?? ONE);
    const exact = sizes(calculate, ...given);
    const result = isCut ? sizes(Math.trunc, exact) : exact;
    const isSure = isCertain(node.operator, given) && (node.operator !== 'Pow' || isEqual(result, exact));
    return isSure ? result : blur(result, given);
  });
}

/** Follows sums and products of places in the batch, sizes and ranges. Exporters compute indexes from them. */
function placeOf({ node: { operator } }: Step, inputs: readonly Traced[]): Pick<Traced, 'bounds' | 'place'> {
  const [first, second] = inputs;
  if (first === undefined) return {};
  if (operator === 'Identity') return { bounds: first.bounds, place: first.place };
  const [ofFirst, ofSecond] = [boundsOf(first), second && boundsOf(second)];
  const [place, other] = first.place === undefined ? [second?.place, ofFirst] : [first.place, ofSecond];
  if (other === undefined) return {};
  const isProduct = operator === 'Mul';
  if (!isProduct && operator !== 'Add') return {};
  const combine = ARITHMETIC[operator] as (...values: number[]) => number;
  const combined = ([least, most]: Bounds): Bounds => [sizes(combine, least, other[0]), sizes(combine, most, other[1])];
  if (place !== undefined) {
    if (isProduct && !isEqual(...other)) return {};
    const step = isProduct ? sizes(combine, place.step, other[0]) : place.step;
    return { place: { step, offset: combined(place.offset) } };
  }
  if (ofFirst === undefined || ofSecond === undefined) return {};
  // The least product is that of the least factors, unless some are below 0.
  const isOrdered = [ofFirst, ofSecond].every((bounds) => isAtLeast0(bounds[0]) || isEqual(...bounds));
  return isProduct && !isOrdered ? {} : { bounds: combined(ofFirst === other ? ofSecond : ofFirst) };
}

/** Returns true if a size is the same in all batches, and not below 0. */
function isAtLeast0(size: Size): boolean {
  return (constantOf(size) ?? -1) >= 0;
}

/** Types that hold sizes and places exactly. */
const WIDE_TYPES = new Set([1, 6, 7, 11, 12, 13]);
const BOOLEAN = 9;

const cast: Rule = (step) => {
  const data = inputAt(step, 0);
  const to = step.node.int('to');
  const isReal = to === undefined ? step.inputs[1]?.isReal === true : REAL_TYPES.has(to);
  const isCut = !isReal && data.isReal === true;
  if (to === BOOLEAN) return { ...plain(data), isReal, entries: truthOf(data) };
  if (to === undefined || !WIDE_TYPES.has(to)) return { ...plain(data), isReal };
  if (!isCut) return { ...data, isReal };
  const { bounds, entries, place } = data;
  const isWhole = place !== undefined && [place.step, ...place.offset].flat().every(Number.isInteger);
  return {
    ...data,
    isReal,
    entries: entries?.map((entry) => blur(sizes(Math.trunc, entry), [entry])),
    bounds: bounds && [sizes(Math.trunc, bounds[0]), sizes(Math.trunc, bounds[1])],
    place: isWhole ? place : undefined,
  };
};

function truthOf({ entries }: Traced): readonly Size[] | undefined {
  return entries?.map((entry) =>
    blur(
      sizes((one) => Number(one !== 0), entry),
      [entry],
    ),
  );
}

/** Rule in which the first input decides, and others, such as scales, are the same for all rows. */
const withFixed: Rule = (step) => {
  const [data, ...others] = givenOf(step) as [Traced, ...Traced[]];
  if (others.some((other) => other.kind !== 'same')) return elementwise(step);
  const axis = axisOf(step.node.int('axis', 1), shapeOf(data).length);
  const perAxis = others.find(({ shape }) => shape === undefined || shape.length > 0);
  if (perAxis !== undefined && hasRows(data) && axis === data.axis) refuseOwnRows([perAxis], 0, 1);
  return { ...plain(data), shape: shapeOf(data) };
};

export const ELEMENTWISE: readonly Family[] = [
  family(
    elementwise,
    'always; no row count, row number or per-row constant may be an operand',
    `Abs Acos Acosh Add And Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Ceil Celu Clip
    Cos Cosh Div Elu Equal Erf Exp Floor Gelu Greater GreaterOrEqual HardSigmoid HardSwish Identity IsInf IsNaN
    LeakyRelu Less LessOrEqual Log Max Mean Min Mish Mod Mul Neg Not Or PRelu Pow Reciprocal Relu Round Selu Shrink
    Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Sub Sum Swish Tan Tanh ThresholdedRelu Where Xor BiasGelu FastGelu
    QuickGelu BiasAdd BiasSplitGelu StringConcat RegexFullMatch Binarizer CategoryMapper LabelEncoder
    QLinearAdd QLinearMul QLinearSigmoid QLinearLeakyRelu QLinearWhere`,
    'all',
  ),
  family(cast, 'always', 'Cast CastLike', 'all'),
  family(withFixed, 'always, unless each row has a scale', 'QuantizeLinear DequantizeLinear', 'all'),
];
