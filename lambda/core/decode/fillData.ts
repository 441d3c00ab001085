import { type BigIntArray, DATATYPES, type Datatype, type NumericArray, type TensorData } from '../tensor/datatype.ts';

/** Converts all of `values` into `target`. Returns the index of the first that does not fit, or -1. */
export function fillData(target: TensorData, values: readonly unknown[], datatype: Datatype): number {
  const info = DATATYPES[datatype];
  switch (info.kind) {
    case 'float':
      return fillFloats(target as NumericArray, values);
    case 'integer':
      return fillIntegers(target as NumericArray, values, info.min, info.max);
    case 'bigint':
      return fillBigInts(target as BigIntArray, values, info.min, info.max);
    case 'boolean':
      return fillBooleans(target as NumericArray, values);
    case 'string':
      return fillStrings(target as string[], values);
  }
}

const NON_FINITE = new Map<unknown, number>([
  ['NaN', Number.NaN],
  ['Infinity', Number.POSITIVE_INFINITY],
  ['-Infinity', Number.NEGATIVE_INFINITY],
]);

/** A number too large for the datatype would be stored as an infinity: it is refused, never rounded to one. */
function fillFloats(target: NumericArray, values: readonly unknown[]): number {
  for (let i = 0; i < values.length; i++) {
    const value = values[i];
    if (typeof value === 'number') {
      target[i] = value;
      if (!Number.isFinite(target[i])) return i;
    } else {
      const nonFinite = NON_FINITE.get(value);
      if (nonFinite === undefined) return i;
      target[i] = nonFinite;
    }
  }
  return -1;
}

function fillIntegers(target: NumericArray, values: readonly unknown[], min: number, max: number): number {
  for (let i = 0; i < values.length; i++) {
    const value = values[i];
    if (typeof value !== 'number' || !Number.isInteger(value) || value < min || value > max) return i;
    target[i] = value;
  }
  return -1;
}

const DECIMAL = /^-?\d{1,20}$/;

/** JSON numbers beyond ±2^53 were rounded by the parser already, so they are refused: decimal strings carry those. */
function fillBigInts(target: BigIntArray, values: readonly unknown[], min: bigint, max: bigint): number {
  for (let i = 0; i < values.length; i++) {
    const value = values[i];
    const exact = Number.isSafeInteger(value) || (typeof value === 'string' && DECIMAL.test(value));
    if (!exact) return i;
    const big = BigInt(value as number | string);
    if (big < min || big > max) return i;
    target[i] = big;
  }
  return -1;
}

function fillBooleans(target: NumericArray, values: readonly unknown[]): number {
  for (let i = 0; i < values.length; i++) {
    const value = values[i];
    if (typeof value !== 'boolean') return i;
    target[i] = value ? 1 : 0;
  }
  return -1;
}

function fillStrings(target: string[], values: readonly unknown[]): number {
  for (let i = 0; i < values.length; i++) {
    const value = values[i];
    if (typeof value !== 'string' || !isCarried(value)) return i;
    target[i] = value;
  }
  return -1;
}

/** ONNX Runtime for Node would cut a string at U+0000, and write half a surrogate pair as U+FFFD. */
export function isCarried(text: string): boolean {
  return !text.includes('\0') && text.isWellFormed();
}
