import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { type Failure, isFailure } from '../../../../lambda/core/failure.ts';
import { allocate, type Datatype, type TensorData } from '../../../../lambda/core/tensor.ts';
import { decodeData } from '../../../../lambda/core/values.ts';
import { EVERY_DATATYPE } from '../arbitraries.ts';

/** Decodes the JSON text of one element, as the body's parser would. */
function decodeElement(datatype: Datatype, json: string): TensorData | Failure {
  return decodeData(JSON.parse(`[${json}]`), datatype, [1], 'data');
}

const INTEGERS = EVERY_DATATYPE.filter((name) => /INT/.test(name));

describe('what every datatype can hold', () => {
  it.each<[Datatype, json: string, value: unknown]>([
    ['BOOL', 'true', 1],
    ['BOOL', 'false', 0],
    ['FP16', '65504', 65_504],
    ['FP16', '1e-40', 0],
    ['FP32', '3.4028234663852886e38', 3.4028234663852886e38],
    ['FP32', '0.1', 0.10000000149011612],
    ['FP64', '1.7976931348623157e308', Number.MAX_VALUE],
    ['FP64', '5e-324', Number.MIN_VALUE],
    ['BYTES', '""', ''],
    ['BYTES', '"\\u0001\\uffff\\ud83d\\ude86"', '\u0001\uffff🚆'],
  ])('%s accepts %s', (datatype, json, value) => {
    const data = decodeElement(datatype, json);
    if (isFailure(data)) throw new Error(data.message);
    expect(data[0]).toBe(value);
  });

  it.each(INTEGERS)('%s accepts the integers of its range and no others', (datatype) => {
    const bits = BigInt(datatype.replace(/\D/g, ''));
    const isSigned = datatype.startsWith('I');
    const [min, max] = isSigned ? [-(2n ** (bits - 1n)), 2n ** (bits - 1n) - 1n] : [0n, 2n ** bits - 1n];
    // 64 bits beyond what a JSON number holds exactly are strings.
    const json = (value: bigint) => (bits === 64n && value > 2n ** 53n - 1n ? `"${value}"` : `${value}`);
    const spelled = (value: bigint) => (bits === 64n && value < -(2n ** 53n - 1n) ? `"${value}"` : json(value));
    fc.assert(
      fc.property(fc.oneof(fc.constantFrom(min, max, 0n), fc.bigInt({ min: min, max: max })), (value) => {
        const data = decodeElement(datatype, spelled(value));
        if (isFailure(data)) throw new Error(data.message);
        expect(BigInt(data[0] as number | bigint)).toBe(value);
      }),
    );
    for (const value of [min - 1n, max + 1n]) {
      expect(decodeElement(datatype, spelled(value))).toMatchObject({ code: 'INVALID_DATA' });
    }
  });

  it.each<[Datatype]>([['FP16'], ['FP32'], ['FP64']])('%s accepts NaN, the infinities and -0', (datatype) => {
    const decoded = decodeData(JSON.parse('["NaN","Infinity","-Infinity",-0]'), datatype, [4], 'data');
    if (isFailure(decoded)) throw new Error(decoded.message);
    expect(Array.from(decoded as Float32Array)).toEqual([Number.NaN, Number.POSITIVE_INFINITY, -1 / 0, -0]);
    expect(Object.is(decoded[3], -0)).toBe(true);
  });
});

describe('what a datatype cannot hold', () => {
  it.each<[Datatype, json: string, got: string]>([
    ['BOOL', '2', '2'],
    ['BOOL', '"true"', '"true"'],
    ['INT64', '"1.0"', '"1.0"'],
    ['INT32', '"1"', '"1"'],
    ['UINT64', '18446744073709551615', '18446744073709552000'],
    ['INT64', '9007199254740993', '9007199254740992'],
    ['INT64', '"0x10"', '"0x10"'],
    ['INT64', '" 1"', '" 1"'],
    ['INT64', '1e400', 'Infinity'],
    ['FP16', '65520', '65520'],
    ['FP32', '3.5e38', '3.5e+38'],
    ['FP64', '1e400', 'Infinity'],
    ['FP32', '"1"', '"1"'],
    ['FP32', '"nan"', '"nan"'],
    ['BYTES', '1', '1'],
    ['BYTES', '"a\\u0000b"', '"a\\u0000b"'],
    ['BYTES', '"\\ud800"', '"\\ud800"'],
  ])('%s refuses %s', (datatype, json, got) => {
    expect(decodeElement(datatype, json)).toEqual({
      failed: true,
      code: 'INVALID_DATA',
      message: expect.stringMatching(/^data\[0\]: expected /),
    });
    expect((decodeElement(datatype, json) as Failure).message).toContain(`, got ${got}; `);
  });

  it.each(INTEGERS)('%s refuses fractions and non-finite numbers', (datatype) => {
    for (const json of ['0.5', '"NaN"', '"Infinity"', '"-Infinity"']) {
      expect(decodeElement(datatype, json)).toMatchObject({ code: 'INVALID_DATA' });
    }
  });

  it.each([
    ['BYTES', 'null', 'write "" for an empty text'],
    ['FP32', 'null', 'write "NaN" for a missing number'],
    ['INT32', 'null', 'fix that element'],
    ['FP32', '"1.5"', 'write 1.5'],
    ['FP32', '"nan"', 'write "NaN"'],
    ['INT32', '"7"', 'write 7'],
    ['INT32', '"7.5"', 'fix that element'],
    ['INT8', '300', 'fix that element'],
    ['BOOL', '"True"', 'write true'],
    ['BYTES', '7', 'write "7"'],
    ['BYTES', '{"a":1}', 'fix that element'],
  ] as const)('%s says what to write for %s', (datatype, json, cure) => {
    expect((decodeElement(datatype, json) as Failure).message).toMatch(new RegExp(`, got .*; ${cure}`));
  });

  it.each(EVERY_DATATYPE.filter((name) => name !== 'BYTES'))(
    '%s has booleans as 0 and 1, as CSV and plain objects have them',
    (datatype) => {
      const [off, on] = ['false', 'true'].map((json) => decodeElement(datatype, json) as TensorData);
      expect([Number(off?.[0]), Number(on?.[0])]).toEqual([0, 1]);
      expect(['0', '1'].map((json) => decodeElement(datatype, json))).toEqual([off, on]);
    },
  );

  it.each(EVERY_DATATYPE)('%s refuses null, arrays and objects', (datatype) => {
    for (const json of ['null', '[]', '[1]', '{}']) {
      expect(decodeElement(datatype, json)).toMatchObject({ code: 'INVALID_DATA' });
    }
  });
});

describe('a typed array from a transform', () => {
  it.each(EVERY_DATATYPE.filter((name) => name !== 'BYTES'))(
    'is taken as %s, and no other than its own',
    (datatype) => {
      const own = allocate(datatype, 2);
      expect(decodeData(own, datatype, [2], 'data')).toEqual(own);
      expect(decodeData(own, datatype, [3], 'data')).toMatchObject({ code: 'INVALID_SHAPE' });
      const other = datatype === 'FP64' ? new Float32Array(2) : new Float64Array(2);
      expect(decodeData(other, datatype, [2], 'data')).toMatchObject({ code: 'INVALID_DATA' });
    },
  );

  it('is refused for BYTES, and so is a view of no elements', () => {
    expect(decodeData(new Uint8Array(2), 'BYTES', [2], 'data')).toMatchObject({ code: 'INVALID_DATA' });
    expect(decodeData(new DataView(new ArrayBuffer(2)), 'UINT8', [2], 'data')).toMatchObject({ code: 'INVALID_DATA' });
  });

  it('holds 0 and 1 alone for BOOL', () => {
    expect(decodeData(Uint8Array.of(1, 2), 'BOOL', [2], 'data')).toMatchObject({ code: 'INVALID_DATA' });
  });
});
