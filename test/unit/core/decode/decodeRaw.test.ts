import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { type ErrorCode, isFailure } from '../../../../lambda/core/failure.ts';
import {
  allocate,
  DATATYPES,
  type Datatype,
  decodeAll,
  decodeInto,
  encodeRaw,
  isBase64Data,
} from '../../../../lambda/core/tensor.ts';
import { decodeRaw } from '../../../../lambda/core/values.ts';
import { echoModel, repositoryOf } from '../../../helpers/scoring.ts';
import { bitsOf, dataOf, EVERY_DATATYPE } from '../arbitraries.ts';
import { accepted, refusal, sentence } from './refusals.ts';

function base64(...bytes: number[]): string {
  return Buffer.from(bytes).toString('base64');
}

describe.each(EVERY_DATATYPE)('%s in base64', (datatype) => {
  const anyData = fc.integer({ min: 1, max: 12 }).chain((length) => dataOf(datatype, length));
  /** Strings go as UTF-8, which has no lone surrogates. */
  const wellFormed = anyData.map((data) => (Array.isArray(data) ? data.map((text) => text.toWellFormed()) : data));

  it('is read back as the very same bits', () => {
    fc.assert(
      fc.property(wellFormed, (data) => {
        const decoded = decodeRaw(encodeRaw(data), datatype, [data.length], () => 'raw');
        if (isFailure(decoded)) throw new Error(decoded.message);
        const elements = isBase64Data(decoded) ? decodeAll(decoded, datatype, [data.length]) : decoded;
        expect(bitsOf(elements)).toBe(bitsOf(data));
      }),
    );
  });
});

describe('a piece of base64', () => {
  const numeric = EVERY_DATATYPE.filter((name) => DATATYPES[name].kind !== 'string');
  it.each(numeric)('is decoded as %s to where it belongs and nowhere else', (datatype) => {
    const anyPiece = fc
      .integer({ min: 1, max: 12 })
      .chain((length) =>
        fc.tuple(dataOf(datatype, length), fc.nat({ max: length - 1 }), fc.nat({ max: 3 }), fc.nat({ max: 3 })),
      );
    fc.assert(
      fc.property(anyPiece, fc.nat({ max: 11 }), ([data, from, before, after], wanted) => {
        const to = Math.min(data.length, from + 1 + wanted);
        const target = allocate(datatype, before + to - from + after);
        if (Array.isArray(target) || Array.isArray(data)) throw new Error('expected typed arrays');
        decodeInto(target, before, { base64: encodeRaw(data) }, from, to);

        expect(bitsOf(target.subarray(before, before + to - from))).toBe(bitsOf(data.slice(from, to)));
        expect(bitsOf(target.subarray(0, before))).toMatch(/^0*$/);
        expect(bitsOf(target.subarray(before + to - from))).toMatch(/^0*$/);
      }),
    );
  });
});

describe('base64 in any spelling', () => {
  it.each(['+/+/', '-_-_', '+/-_'])('is the same bytes: %s', (text) => {
    expect(decodeAll({ base64: text }, 'UINT8', [3])).toEqual(Uint8Array.of(0xfb, 0xff, 0xbf));
    expect(decodeRaw(text, 'UINT8', [3], () => 'raw')).toEqual(Uint8Array.of(0xfb, 0xff, 0xbf));
  });

  it.each(['AAECAw==', 'AAECAw'])('may leave its padding out: %s', (text) => {
    expect(decodeRaw(text, 'UINT8', [4], () => 'raw')).toEqual(Uint8Array.of(0, 1, 2, 3));
    expect(decodeAll({ base64: text }, 'UINT8', [4])).toEqual(Uint8Array.of(0, 1, 2, 3));
  });
});

describe('base64 of many elements', () => {
  const many = Buffer.from(Uint8Array.from({ length: 9_000 }, (_, index) => index % 251));
  it('stays as it is, to be decoded where it is stacked', () => {
    const text = many.toString('base64');
    expect(decodeRaw(text, 'UINT8', [9_000], () => 'raw')).toEqual({ base64: text });
    expect(decodeAll({ base64: text }, 'UINT8', [9_000])).toEqual(Uint8Array.from(many));
  });
});

describe('a string in base64', () => {
  it('keeps the byte order mark that it starts with', () => {
    expect(decodeRaw(encodeRaw(['\ufeffa']), 'BYTES', [1], () => 'raw')).toEqual(['\ufeffa']);
  });
});

describe('raw contents', () => {
  it.each<[title: string, value: unknown, datatype: Datatype, code: ErrorCode, got: string]>([
    ['no text', 1, 'UINT8', 'INVALID_DATA', '1'],
    ['not base64', 'ab c', 'UINT8', 'INVALID_DATA', '4 characters that are not'],
    ['cut off', 'AAAAA', 'UINT8', 'INVALID_DATA', '5 characters that are not'],
    ['too short', base64(1, 2, 3), 'FP32', 'INVALID_SHAPE', '3'],
    ['too long', base64(1, 2, 3, 4, 5, 6, 7, 8), 'FP32', 'INVALID_SHAPE', '8'],
    ['no truth value', base64(2), 'BOOL', 'INVALID_DATA', '2 at element 0'],
  ])('are refused when they are %s', (_, value, datatype, code, got) => {
    const failed = decodeRaw(value, datatype, [1], () => 'raw_input_contents[0]');
    if (!isFailure(failed)) throw new Error('expected a refusal');
    expect(sentence(failed)).toEqual({ code, path: 'raw_input_contents[0]', got });
  });

  it.each([
    ['end within a length', base64(1, 0), 'INVALID_DATA'],
    ['claim 4 GiB', base64(0xff, 0xff, 0xff, 0xff, 0x61), 'INVALID_DATA'],
    ['are not UTF-8', base64(1, 0, 0, 0, 0xff), 'INVALID_DATA'],
    ['are too few', base64(), 'INVALID_SHAPE'],
    ['are too many', base64(0, 0, 0, 0, 0, 0, 0, 0), 'INVALID_SHAPE'],
  ])('are refused when their strings %s', (_, text, code) => {
    expect(decodeRaw(text, 'BYTES', [1], () => 'raw')).toMatchObject({ failed: true, code });
  });
});

describe('a request with raw contents', () => {
  const models = repositoryOf(echoModel('FP32', [1]));
  const input = { name: 'in', datatype: 'FP32', shape: [1, 1] };

  it('is answered in binary, unless it says otherwise', async () => {
    const request = { inputs: [input], raw_input_contents: ['AACAPw=='] };
    expect((await accepted(request, models)).reply).toBe('binary');
    expect((await accepted({ ...request, parameters: { binary_data_output: false } }, models)).reply).toBe('json');
    const plain = { inputs: [{ ...input, data: [1] }] };
    expect((await accepted(plain, models)).reply).toBe('json');
    expect((await accepted({ ...plain, parameters: { binary_data_output: true, a: 1 } }, models)).reply).toBe('binary');
  });

  it.each([
    ['no list', [input], 'AACAPw==', 'raw_input_contents', '"AACAPw=="'],
    ['fewer than the inputs', [input], [], 'raw_input_contents', '0'],
  ])('is refused when they are %s', async (_, inputs, raw_input_contents, path, got) => {
    expect(sentence(await refusal({ inputs, raw_input_contents }, models))).toEqual({
      code: 'INVALID_REQUEST',
      path,
      got,
    });
  });

  it('is refused when bytes are missing within it: what the memory held before would stand in their place', async () => {
    const width = 16_384;
    const encoded = base64(...new Uint8Array(4 * width));
    const padded = `${encoded.slice(0, 65_534)}==${encoded.slice(65_536)}`;
    const request = { inputs: [{ ...input, shape: [1, width] }], raw_input_contents: [padded] };
    expect(await refusal(request, repositoryOf(echoModel('FP32', [width])))).toMatchObject({ code: 'INVALID_DATA' });
  });

  it('is refused when its parameters are no parameters', async () => {
    const failed = await refusal({ inputs: [input], parameters: [] }, models);
    expect(sentence(failed)).toEqual({ code: 'INVALID_REQUEST', path: 'parameters', got: 'an array of 0' });
    const wrong = await refusal({ inputs: [input], parameters: { binary_data_output: 'yes' } }, models);
    expect(sentence(wrong)).toEqual({
      code: 'INVALID_REQUEST',
      path: 'parameters.binary_data_output',
      got: '"yes"',
    });
  });
});
