import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { createEncoder, encodeError, idInAnswer } from '../../../../lambda/core/encode.ts';
import { failure, isFailure } from '../../../../lambda/core/failure.ts';
import type { ScoringRequest } from '../../../../lambda/core/microBatch.ts';
import type { Datatype, Tensor, TensorData } from '../../../../lambda/core/tensor.ts';
import { decodeData } from '../../../../lambda/core/values.ts';
import { echoModel, lineModel, sumModel } from '../../../helpers/scoring.ts';
import { bitsOf, dataOf, EVERY_DATATYPE } from '../arbitraries.ts';
import { zeros } from '../requests.ts';

/** The result under `m1` as JSON text, which without a transform is there at once. */
function encodeNow(request: ScoringRequest, outputs: readonly Tensor[], messageId = 'm1'): string {
  const text = createEncoder(outputs).encode(messageId, request, 0);
  if (typeof text !== 'string') throw new Error('expected the text at once');
  return text;
}

/** The JSON text of a result with one output, `out` of `[elements]`. */
function encode(datatype: Datatype, data: TensorData): string {
  const request = zeros(echoModel(datatype), data.length);
  return encodeNow(request, [{ name: 'out', datatype, shape: [data.length], data }]);
}

describe('createEncoder', () => {
  it('answers with the message ID, the id, the model and its outputs', () => {
    const request = { ...zeros(lineModel({ version: '3' }), 2), id: 'order-42' };
    const text = encodeNow(request, [{ name: 'y', datatype: 'FP32', shape: [2, 1], data: Float32Array.of(0.5, -3) }]);
    expect(text).toBe(
      '{"message_id":"m1","id":"order-42","model_name":"line","model_version":"3",' +
        '"outputs":[{"name":"y","datatype":"FP32","shape":[2,1],"data":[0.5,-3]}]}',
    );
  });

  it('leaves out an id that was not sent, and keeps one that was sent empty', () => {
    const request = zeros(echoModel('BOOL'), 1);
    const output = { name: 'out', datatype: 'BOOL', shape: [1], data: Uint8Array.of(1) } as const;
    expect(JSON.parse(encodeNow(request, [output]))).not.toHaveProperty('id');
    expect(JSON.parse(encodeNow({ ...request, id: '' }, [output]))).toHaveProperty('id', '');
  });

  it.each<[Datatype, TensorData, json: string]>([
    ['BOOL', Uint8Array.of(0, 1), '[false,true]'],
    ['UINT8', Uint8Array.of(0, 255), '[0,255]'],
    [
      'INT64',
      BigInt64Array.of(9_007_199_254_740_991n, -9_007_199_254_740_991n),
      '[9007199254740991,-9007199254740991]',
    ],
    ['INT64', BigInt64Array.of(9_007_199_254_740_992n, -(2n ** 63n)), '["9007199254740992","-9223372036854775808"]'],
    ['UINT64', BigUint64Array.of(2n ** 64n - 1n), '["18446744073709551615"]'],
    ['FP32', Float32Array.of(0.1, 1e-45, 3.4028234663852886e38), '[0.1,1.401298464324817e-45,3.4028234663852886e+38]'],
    [
      'FP64',
      Float64Array.of(-0, Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY),
      '[-0,"NaN","Infinity","-Infinity"]',
    ],
    ['FP16', Float16Array.of(1, -0), '[1,-0]'],
    ['BYTES', ['"', '\n', '\u0000', '\ud800', 'ü'], '["\\"","\\n","\\u0000","\\ud800","ü"]'],
  ])('writes %s as JSON that loses nothing', (datatype, data, json) => {
    expect(encode(datatype, data)).toContain(`"data":${json}}`);
  });

  it('escapes names that are no plain text', () => {
    const model = echoModel('BOOL', [], { name: 'a"b' });
    const output = { name: 'o"\n', datatype: 'BOOL', shape: [1], data: Uint8Array.of(1) } as const;
    const text = encodeNow({ ...zeros(model, 1), id: '\u2028"' }, [output], 'm"1');
    expect(JSON.parse(text)).toEqual({
      message_id: 'm"1',
      id: '\u2028"',
      model_name: 'a"b',
      model_version: '1',
      outputs: [{ name: 'o"\n', datatype: 'BOOL', shape: [1], data: [true] }],
    });
  });

  it.each(EVERY_DATATYPE)('%s is read back as the very same bits', (datatype) => {
    const anyData = fc.integer({ min: 1, max: 8 }).chain((length) => dataOf(datatype, length));
    fc.assert(
      fc.property(anyData, (data) => {
        const [output] = JSON.parse(encode(datatype, data)).outputs;
        const decoded = decodeData(output.data, output.datatype, output.shape, 'data');
        if (isFailure(decoded)) throw new Error(decoded.message);
        expect(bitsOf(decoded)).toBe(bitsOf(data));
      }),
    );
  });
});

describe('other forms of an answer', () => {
  const sums: Tensor = { name: 'sums', datatype: 'FP32', shape: [2, 2], data: Float32Array.of(1, 2, 3, 4) };
  const total: Tensor = { name: 'total', datatype: 'FP64', shape: [2], data: Float64Array.of(3, Number.NaN) };
  const label: Tensor = { name: 'label', datatype: 'BYTES', shape: [2], data: ['a', '"'] };
  const request = zeros(sumModel(), 2, 2);

  it('hold their outputs as base64, described in the same order', () => {
    const text = encodeNow({ ...request, outputs: [2, 0], reply: 'binary' }, [sums, total, label]);
    expect(JSON.parse(text)).toEqual({
      message_id: 'm1',
      model_name: 'sum',
      model_version: '1',
      outputs: [
        { name: 'label', datatype: 'BYTES', shape: [2] },
        { name: 'sums', datatype: 'FP32', shape: [2, 2] },
      ],
      raw_output_contents: ['AQAAAGEBAAAAIg==', 'AACAPwAAAEAAAEBAAACAQA=='],
    });
  });

  it('hold a prediction per row: an object by output name where there are several', () => {
    const text = encodeNow({ ...request, reply: 'predictions' }, [sums, total, label]);
    expect(JSON.parse(text)).toEqual({
      message_id: 'm1',
      model_name: 'sum',
      model_version: '1',
      predictions: [
        { sums: [1, 2], total: 3, label: 'a' },
        { sums: [3, 4], total: 'NaN', label: '"' },
      ],
    });
  });

  it('hold the bare values where there is one output, nested as its shape says', () => {
    const model = echoModel('INT64', [2, 2]);
    const data = BigInt64Array.of(1n, 2n, 3n, 4n, 5n, 6n, 7n, 2n ** 63n - 1n);
    const text = encodeNow({ ...zeros(model, 2), reply: 'predictions' }, [
      { name: 'out', datatype: 'INT64', shape: [2, 2, 2], data },
    ]);
    expect(text).toContain('"predictions":[[[1,2],[3,4]],[[5,6],[7,"9223372036854775807"]]]');
  });
});

describe('encodeError', () => {
  it('answers with the message ID, the id, the code and the sentence', () => {
    const failed = failure('INVALID_SHAPE', `input 'image': expected [rows, 64], got "x"`);
    expect(encodeError('m1', 'order-42', failed)).toBe(
      `{"message_id":"m1","id":"order-42","code":"INVALID_SHAPE","error":"input 'image': expected [rows, 64], got \\"x\\""}`,
    );
  });
});

it('the id of an answer is what the request had, whatever it holds', () => {
  fc.assert(
    fc.property(
      fc.string({ unit: 'binary' }),
      fc.option(fc.string({ unit: 'binary' }), { nil: undefined }),
      (key, id) => {
        expect(idInAnswer(encodeError(key, id, failure('INVALID_DATA', '","id":"other"')))).toBe(id);
      },
    ),
  );
});
