import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { formatFloat32 } from '../../../../lambda/core/floatText.ts';

const format = (value: number): string => formatFloat32(Float32Array.of(value), 0, 1);

function fromBits(bits: number): number {
  return new Float32Array(Uint32Array.of(bits).buffer)[0] as number;
}

const MAX = 0x7f7f_ffff;
/** Any, and those around the smallest that is written the fast way. */
const anyFinite = fc
  .tuple(fc.oneof(fc.integer({ min: 0, max: MAX }), fc.integer({ min: 0x2690_0000, max: 0x2a00_0000 })), fc.boolean())
  .map(([bits, negative]) => (negative ? -fromBits(bits) : fromBits(bits)));
/** As weights and scores are: what the fast path is for. */
const anyMiddling = fc
  .tuple(fc.integer({ min: 0x2980_0000, max: 0x4f80_0000 }), fc.boolean())
  .map(([bits, negative]) => (negative ? -fromBits(bits) : fromBits(bits)));
const anyShort = fc
  .tuple(fc.integer({ min: 1, max: 99_999 }), fc.integer({ min: -15, max: 12 }))
  .map(([digits, exponent]) => Math.fround(Number(`${digits}e${exponent}`)));

/** Every power of two, its neighbours and theirs: there the next float32 is half as far on one side. */
const AROUND_POWERS_OF_TWO = Array.from({ length: 254 }, (_, exponent) => (exponent + 1) << 23).flatMap((bits) =>
  [-2, -1, 0, 1, 2].map((step) => fromBits(bits + step)),
);
const AROUND_POWERS_OF_TEN = Array.from({ length: 83 }, (_, index) => {
  const bits = new Uint32Array(Float32Array.of(Number(`1e${index - 44}`)).buffer)[0] as number;
  return [-1, 0, 1].map((step) => fromBits(Math.max(0, bits + step)));
}).flat();
const BOUNDARIES = [
  ...AROUND_POWERS_OF_TWO,
  ...AROUND_POWERS_OF_TEN,
  ...[0, 1, 2, 0x7f_ffff, 0x80_0000, 0x80_0001, MAX, MAX - 1].map(fromBits),
  ...[2 ** 24 - 1, 2 ** 24, 2 ** 24 + 2, 2 ** 31 - 128, 2 ** 31, 2 ** 31 + 256, 4_194_304.5, 8_388_607.5],
  ...[0.1, 0.3, 1 / 3, 0.5, 1.5, 123.456, 1e-13, 9.9e-14, 1e-6, 9.999_999e-7, 1e-7, 1.234_567e-7].map(Math.fround),
];

function always(values: fc.Arbitrary<number>, promise: (value: number) => void): void {
  for (const value of BOUNDARIES) for (const signed of [value, -value]) promise(signed);
  fc.assert(fc.property(values, promise), { numRuns: 10_000 });
}

/** The nearest float32 to a decimal, told without going through a double. */
function readStraight(text: string): number {
  const [, sign = '', whole = '', fraction = '', power = '0'] =
    /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]\d+))?$/.exec(text) ?? [];
  const scale = Number(power) - fraction.length;
  const digits = BigInt(whole + fraction);
  const [top, bottom] = scale < 0 ? [digits, 10n ** BigInt(-scale)] : [digits * 10n ** BigInt(scale), 1n];
  // Distances in units of 2^-149, the smallest float32, of which every other one is a multiple.
  const bits = new Uint32Array(Float32Array.of(Math.abs(Number(text))).buffer)[0] as number;
  const distance = (candidate: number): bigint => {
    const mantissa = BigInt(candidate & 0x7f_ffff);
    const biased = candidate >>> 23;
    const exact = biased === 0 ? mantissa : (mantissa + 2n ** 23n) << BigInt(biased - 1);
    const difference = exact * bottom - top * 2n ** 149n;
    return difference < 0n ? -difference : difference;
  };
  const candidates = [bits - 1, bits, bits + 1].filter((one) => one >= 0 && one <= MAX);
  const nearest = candidates.toSorted((a, b) => (distance(a) > distance(b) ? 1 : -1))[0] as number;
  return sign === '-' ? -fromBits(nearest) : fromBits(nearest);
}

function digitsOf(text: string): number {
  return text.replace(/e.*/, '').replace(/[-.]/g, '').replace(/^0+/, '').length;
}

/** The fewest significant digits of the nearest decimal that reads back as the same float32. */
function fewestDigits(value: number): number {
  for (let digits = 1; ; digits++) if (Math.fround(Number(value.toPrecision(digits))) === value) return digits;
}

describe('a float32 in JSON', () => {
  it('reads back as the same 32 bits', () => {
    always(anyFinite, (value) => expect(Math.fround(JSON.parse(format(value)) as number)).toBe(value));
  });

  it('reads back as the same 32 bits for whoever parses straight to 32 bits', () => {
    always(anyMiddling, (value) => {
      expect(readStraight(format(value))).toBe(value);
    });
  });

  it('is written as JavaScript spells that number', () => {
    always(anyMiddling, (value) => {
      if (value !== 0) expect(JSON.stringify(JSON.parse(format(value)))).toBe(format(value));
    });
  });

  it('has no more digits than it needs', () => {
    always(fc.oneof(anyMiddling, anyShort), (value) => {
      const inFastPath = Math.abs(value) >= 1e-13 && Math.abs(value) < 2 ** 31;
      if (inFastPath && !Number.isInteger(value)) {
        expect([value, digitsOf(format(value))]).toEqual([value, fewestDigits(value)]);
      }
    });
  });

  it.each([
    [0, '0'],
    [-0, '-0'],
    [1 / 3, '0.33333334'],
    [2_147_483_648, '2147483648'],
    [0.000_000_123, '1.23e-7'],
    [-1.5e-10, '-1.5e-10'],
    [Number.NaN, '"NaN"'],
    [Number.POSITIVE_INFINITY, '"Infinity"'],
    [Number.NEGATIVE_INFINITY, '"-Infinity"'],
  ])('of %d is %s', (value, text) => {
    expect(format(value)).toBe(text);
  });
});

describe('float32 values in JSON', () => {
  it('are those asked for, comma-separated', () => {
    const data = Float32Array.of(1, 2.5, -3, 4);
    expect([formatFloat32(data, 0, 4), formatFloat32(data, 1, 3), formatFloat32(data, 2, 2)]).toEqual([
      '1,2.5,-3,4',
      '2.5,-3',
      '',
    ]);
  });

  it.each([
    ['short', (index: number) => index],
    ['as long as any', (index: number) => -fromBits(0x0080_0000 + index)],
  ])('are as many as were given, also where they are more than fit together: %s ones', (_, valueAt) => {
    const data = Float32Array.from({ length: 9_000 }, (__, index) => valueAt(index));
    expect(Float32Array.from(JSON.parse(`[${formatFloat32(data, 0, data.length)}]`))).toEqual(data);
    const part = JSON.parse(`[${formatFloat32(data, 100, 8_000)}]`) as number[];
    expect(Float32Array.from(part)).toEqual(data.subarray(100, 8_000));
  });
});
