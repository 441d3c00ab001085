import { isUtf8 } from 'node:buffer';
import type { DecodedArray, ParquetParsers, SchemaElement, SchemaTree } from 'hyparquet';
import { convert, DEFAULT_PARSERS } from 'hyparquet/src/convert.js';
import { exactly, isExact } from './rowRequests.ts';

/**
 * Converts Parquet values to those of requests and results: numbers, booleans and texts. Decimals become digits; dates,
 * times and timestamps become ISO 8601; bytes that are not UTF-8 stay bytes.
 *
 * @param path from the root of the schema to the leaf
 * @param spend called with the assumed memory of JSON, which is parsed
 */
export function convertValues(
  values: DecodedArray,
  path: readonly SchemaTree[],
  spend: (bytes: number) => void,
): DecodedArray {
  const element = path.at(-1)?.element;
  if (element?.type === undefined) throw new Error('a column without a type');
  const read = readerOf(element);
  if (read !== undefined) return Array.from(values as ArrayLike<unknown>, read);
  const bits = narrowBitsOf(element);
  if (bits !== undefined && values instanceof Int32Array) return values.map(cutTo(...bits));
  return convert(values, {
    pathInSchema: [],
    element: withOlderName(element),
    type: element.type,
    codec: 'UNCOMPRESSED',
    schemaPath: [...path],
    parsers: { ...parsersOf(element), stringFromBytes: sharingTexts(), jsonFromBytes: (bytes) => jsonOf(bytes, spend) },
  });
}

export function parsersOf(element: SchemaElement): ParquetParsers {
  return { ...DEFAULT_PARSERS, stringFromBytes: textOrBytes, ...momentParsers(isUtc(element)) };
}

/** Returns a converter for values that hyparquet rounds or refuses, or undefined for others. */
function readerOf({ converted_type: converted, logical_type: logical, scale = 0 }: SchemaElement) {
  if (converted === 'DECIMAL' || logical?.type === 'DECIMAL') {
    const decimals = logical?.type === 'DECIMAL' ? logical.scale : scale;
    return (value: unknown) => decimalText(value, decimals);
  }
  if (logical?.type === 'TIME') return timeReader(logical.unit);
  if (converted === 'TIME_MILLIS') return timeReader('MILLIS');
  if (converted === 'TIME_MICROS') return timeReader('MICROS');
  const areBytes = BYTES.has(converted ?? '') || BYTES.has(logical?.type ?? '');
  return areBytes ? (value: unknown) => value : undefined;
}

/** Returns the bits of integers of 8 or 16, and true if they have a sign. */
function narrowBitsOf({
  converted_type: converted,
  logical_type: logical,
}: SchemaElement): [number, boolean] | undefined {
  if (logical?.type === 'INTEGER' && logical.bitWidth < 32) return [logical.bitWidth, logical.isSigned];
  const [, unsigned, bits] = /^(U?)INT_(8|16)$/.exec(converted ?? '') ?? [];
  return bits === undefined ? undefined : [Number(bits), unsigned === ''];
}

/** Returns a function that cuts 32 stored bits off, as PyArrow does. */
function cutTo(bits: number, isSigned: boolean) {
  const rest = 32 - bits;
  return isSigned ? (value: number) => (value << rest) >> rest : (value: number) => (value << rest) >>> rest;
}

/** Types whose values stay bytes. Their contents can be nested without limit. */
const BYTES: ReadonlySet<string> = new Set(['BSON', 'INTERVAL', 'GEOMETRY', 'GEOGRAPHY']);

/** Adds the older name of a date, the only one that hyparquet knows. */
function withOlderName(element: SchemaElement): SchemaElement {
  return element.logical_type?.type === 'DATE' ? { ...element, converted_type: 'DATE' } : element;
}

/** Maximum number of decimal places, or bytes, of a number that is written out. */
const MAX_PLACES = 100;

/** Formats an unscaled integer with `places` digits after the point. */
function decimalText(value: unknown, places: number): unknown {
  if (value instanceof Uint8Array && value.length > MAX_PLACES) return value;
  const unscaled = value instanceof Uint8Array ? wholeOf(value) : BigInt(value as number | bigint);
  if (!(Math.abs(places) <= MAX_PLACES)) return `${unscaled}e${-places}`;
  if (places <= 0) return String(unscaled * 10n ** BigInt(-places));
  const digits = String(unscaled < 0n ? -unscaled : unscaled).padStart(places + 1, '0');
  return `${unscaled < 0n ? '-' : ''}${digits.slice(0, -places)}.${digits.slice(-places)}`;
}

/** Converts two's complement, big-endian. */
function wholeOf(bytes: Uint8Array): bigint {
  const hex = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('hex');
  return BigInt.asIntN(8 * bytes.length, BigInt(`0x0${hex}`));
}

/** Digits of a fraction of a second for each unit. */
const DIGITS = { MILLIS: 3, MICROS: 6, NANOS: 9 } as const;
const SECONDS_A_DAY = 86_400n;

/** Returns a converter to `13:22:09` and `13:22:09.000123`. A time outside of a day stays a number. */
function timeReader(unit: keyof typeof DIGITS) {
  const digits = DIGITS[unit];
  const ticks = 10n ** BigInt(digits);
  return (value: unknown): unknown => {
    const time = BigInt(value as number | bigint);
    if (time < 0n || time > SECONDS_A_DAY * ticks) return value;
    const seconds = Number(time / ticks);
    const clock = [seconds / 3600, (seconds / 60) % 60, seconds % 60].map((part) =>
      String(Math.floor(part)).padStart(2, '0'),
    );
    return withFraction(clock.join(':'), String(time % ticks).padStart(digits, '0'));
  };
}

function withFraction(time: string, fraction: string): string {
  return `${time}.${fraction}`.replace(/\.?0+$/, '');
}

/** Returns true if the timestamps of a column are UTC. Otherwise they have no zone. Meaningless for other columns. */
function isUtc({ type, logical_type: logical }: SchemaElement): boolean {
  return type !== 'INT96' && !(logical?.type === 'TIMESTAMP' && !logical.isAdjustedToUTC);
}

/** Memory that a byte of JSON can take: a list without values has two bytes and a comma. */
const PARSED_BYTES = 16;

/** Parses JSON, with all digits. Returns the text if it is invalid, or too deep to be written again. */
function jsonOf(bytes: Uint8Array, spend: (bytes: number) => void): unknown {
  const text = textOrBytes(bytes);
  spend(PARSED_BYTES * bytes.length);
  try {
    const value: unknown = JSON.parse(String(text));
    JSON.stringify(value);
    return isExact(value) ? value : exactly(String(text));
  } catch {
    return text;
  }
}

/** Returns a reader of texts: rows that share the bytes share the text. */
function sharingTexts(): ParquetParsers['stringFromBytes'] {
  let [last, text]: [Uint8Array | undefined, string | Uint8Array] = [undefined, ''];
  return (bytes: Uint8Array) => {
    if (bytes !== last) [last, text] = [bytes, textOrBytes(bytes)];
    return text;
  };
}

function textOrBytes(bytes: Uint8Array): string | Uint8Array {
  return isUtf8(bytes) ? Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString() : bytes;
}

type MomentParsers = Pick<
  ParquetParsers,
  'dateFromDays' | 'timestampFromMilliseconds' | 'timestampFromMicroseconds' | 'timestampFromNanoseconds'
>;

/**
 * Returns parsers of dates and timestamps in ISO 8601, `2026-11-22` and `2026-11-22T13:22:09.000123Z`, with as many
 * digits as needed. A date outside of the calendar stays a number.
 *
 * @param isUtc true if timestamps are UTC; those without a zone have no `Z`
 */
function momentParsers(isUtc: boolean): MomentParsers {
  const end = isUtc ? 'Z' : '';
  return {
    dateFromDays: (days) => isoOf(BigInt(days) * SECONDS_A_DAY)?.slice(0, -'T00:00:00'.length) ?? days,
    timestampFromMilliseconds: (ms) => momentText(BigInt(ms), DIGITS.MILLIS, end),
    timestampFromMicroseconds: (us) => momentText(BigInt(us), DIGITS.MICROS, end),
    timestampFromNanoseconds: (ns) => momentText(BigInt(ns), DIGITS.NANOS, end),
  };
}

/** @param digits digits of the fraction of a second */
function momentText(time: bigint, digits: number, end: string): string | bigint {
  const ticks = 10n ** BigInt(digits);
  const rest = ((time % ticks) + ticks) % ticks;
  const iso = isoOf((time - rest) / ticks);
  return iso === undefined ? time : withFraction(iso, String(rest).padStart(digits, '0')) + end;
}

/** Formats to the second, without a zone. */
function isoOf(seconds: bigint): string | undefined {
  const date = new Date(Number(seconds) * 1000);
  return Number.isNaN(date.getTime()) ? undefined : date.toISOString().slice(0, -'.000Z'.length);
}
