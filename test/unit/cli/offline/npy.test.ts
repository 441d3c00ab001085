import { describe, expect, it } from '@jest/globals';
import { DATATYPES, type Datatype } from '../../../../lambda/core/tensor.ts';
import { echoModel, sumModel } from '../../../helpers/scoring.ts';
import { npyFile, scoreData } from './scoreData.ts';

const npy = { format: 'npy' } as const;

function bytesOf(datatype: Datatype, values: readonly number[]): Uint8Array {
  const info = DATATYPES[datatype];
  if (info.kind === 'string') throw new Error('expected numbers');
  const array = info.kind === 'bigint' ? info.array.from(values.map(BigInt)) : info.array.from(values);
  return new Uint8Array(array.buffer);
}

async function dataOf(...args: Parameters<typeof scoreData>): Promise<unknown[]> {
  const { results } = await scoreData(...args);
  return results.map(({ code, outputs }) => code ?? (outputs as { data: unknown[] }[])[0]?.data);
}

const TYPES: readonly (readonly [string, Datatype])[] = [
  ['|b1', 'BOOL'],
  ['|u1', 'UINT8'],
  ['<u2', 'UINT16'],
  ['<u4', 'UINT32'],
  ['<u8', 'UINT64'],
  ['|i1', 'INT8'],
  ['<i2', 'INT16'],
  ['<i4', 'INT32'],
  ['<i8', 'INT64'],
  ['<f2', 'FP16'],
  ['<f4', 'FP32'],
  ['<f8', 'FP64'],
];

describe('an array of NumPy', () => {
  it.each(TYPES)('of %s is scored row by row, numbered from 0', async (descr, datatype) => {
    const file = npyFile(descr, [3, 2], bytesOf(datatype, [0, 1, 1, 1, 1, 0]));
    const { results } = await scoreData(echoModel(datatype, [2]), file, npy);
    const values = [
      [0, 1],
      [1, 1],
      [1, 0],
    ].map((row) => (datatype === 'BOOL' ? row.map(Boolean) : row));
    expect(results.map(({ message_id, outputs }) => [message_id, (outputs as { data: unknown }[])[0]?.data])).toEqual(
      values.map((row, index) => [`${index}`, row]),
    );
  });

  it('of booleans is 0 and 1 for an input of numbers; one of numbers is no booleans', async () => {
    const file = npyFile('|b1', [2, 2], bytesOf('BOOL', [0, 1, 1, 1]));
    expect(await dataOf(echoModel('FP32', [2]), file, npy)).toEqual([
      [0, 1],
      [1, 1],
    ]);
    const numbers = npyFile('<f4', [1, 2], bytesOf('FP32', [0, 1]));
    await expect(dataOf(echoModel('BOOL', [2]), numbers, npy)).rejects.toThrow(
      /expected an array for BOOL, got one of FP32/,
    );
  });

  it.each([1, 2, 3])('may be of version %i of the format', async (version) => {
    const file = npyFile('<f4', [2], bytesOf('FP32', [1.5, -2]), version);
    expect(await dataOf(echoModel('FP32', [1]), file, { ...npy, bytes: file.length })).toEqual([[1.5], [-2]]);
  });

  it('is passed on as numbers where its type is another than that of the input, and what does not fit is refused', async () => {
    const doubles = npyFile('<f8', [4], bytesOf('FP64', [0.1, Number.NaN, 1e300, Number.NEGATIVE_INFINITY]));
    expect(await dataOf(echoModel('FP32', []), doubles, npy)).toEqual([[0.1], ['NaN'], 'INVALID_DATA', ['-Infinity']]);
    const longs = npyFile('<i8', [3], bytesOf('INT64', [-1, 255, 256]));
    expect(await dataOf(echoModel('UINT8', []), longs, npy)).toEqual(['INVALID_DATA', [255], 'INVALID_DATA']);
  });

  it('has its rows on the first axis, in the shape of the input or flat', async () => {
    const data = bytesOf('FP32', [1, 2, 3, 4, 5, 6]);
    const shaped = await scoreData(echoModel('FP32', [3, 'n']), npyFile('<f4', [1, 3, 2], data), npy);
    expect(shaped.results).toMatchObject([{ outputs: [{ shape: [1, 3, 2], data: [1, 2, 3, 4, 5, 6] }] }]);
    const flat = await scoreData(echoModel('FP32', [1, 3]), npyFile('<f4', [2, 3], data), npy);
    expect(flat.results).toMatchObject([{ outputs: [{ shape: [1, 1, 3], data: [1, 2, 3] }] }, { message_id: '1' }]);
  });

  const six = bytesOf('FP32', [1, 2, 3, 4, 5, 6]);
  const whole = npyFile('<f4', [3, 2], six);
  it.each([
    ['Python objects', npyFile('|O', [3, 2], six), /^file: expected an array of booleans, .*got Python objects/],
    ['texts', npyFile('<U3', [3, 2], six), /got texts \('<U3'\)/],
    ['fields', npyFile("[('a', '<f4')]", [3], six), /got records of several fields/],
    ['big-endian numbers', npyFile('>f4', [3, 2], six), /got big-endian ones \('>f4'\); save array\.astype\("<f4"\)/],
    ['Fortran order', npyFile('<f4', [3, 2], six, 1, 'True'), /got Fortran order; save numpy\.ascontiguousarray/],
    ['a single value', npyFile('<f4', [], six), /got a single value/],
    ['another shape', npyFile('<f4', [2, 3], six), /expected an array of \(rows, 2\), got \(2, 3\)/],
    ['a zip', Buffer.from('PK\x03\x04 and more of it'), /got a zip, such as numpy.savez writes/],
    ['no rows', npyFile('<f4', [0, 2], new Uint8Array()), /^file: expected rows to score, got none; check what wrote/],
    ['half a header', whole.subarray(0, 20), /^file: expected a header of a npy file, got fewer bytes/],
    [
      'more after the array',
      Buffer.concat([whole, whole]),
      /^file: expected one array of 3 rows, got more after it; save/,
    ],
    ['too few rows', whole.subarray(0, -1), /^file: expected 3 rows of a npy file, got fewer bytes/],
  ])('is refused: %s', async (_, file, message) => {
    await expect(scoreData(echoModel('FP32', [2]), file, npy)).rejects.toThrow(message);
  });

  it('is refused by the size of its file before anything is scored', async () => {
    const model = echoModel('FP32', [2]);
    const [less, more] = [whole.subarray(0, -1), Buffer.concat([whole, whole])];
    await expect(scoreData(model, less, { ...npy, bytes: less.length })).rejects.toThrow(
      /got 151; the file was cut short/,
    );
    await expect(scoreData(model, more, { ...npy, bytes: more.length })).rejects.toThrow(
      /save one array, alone in its file/,
    );
  });

  it('is for a model with one input, of numbers, and has no columns', async () => {
    await expect(scoreData(sumModel(), whole, npy)).rejects.toThrow(
      /expected a model with one input for an array, got left, right, bias/,
    );
    await expect(scoreData(echoModel('BYTES', [2]), whole, npy)).rejects.toThrow(
      /expected texts, got an array of numbers/,
    );
    const spec = { inputs: { in: ['a'] } };
    await expect(scoreData(echoModel('FP32', [2]), whole, { ...npy, spec })).rejects.toThrow(
      /^--inputs: expected a file with columns/,
    );
  });
});
