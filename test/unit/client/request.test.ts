import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { RequestError } from '../../../client/clientErrors.ts';
import { type Encoding, encodeRequest, type InputTensor, type ScoreRequest } from '../../../client/encodeRequest.ts';
import { decodeBody } from '../../../lambda/core/body.ts';
import { isPacked, isRefused, type ScoringRequest } from '../../../lambda/core/microBatch.ts';
import { type Datatype, decodeAll, isBase64Data, type TensorData } from '../../../lambda/core/tensor.ts';
import { echoModel, repositoryOf, UNHINDERED } from '../../helpers/scoring.ts';
import { bitsOf, dataOf, EVERY_DATATYPE } from '../core/arbitraries.ts';

const ENCODINGS: readonly Encoding[] = ['binary', 'json'];

/** The request as a deployment whose model has one input `in` decodes it. */
async function decodedBy(datatype: Datatype, axes: readonly string[], body: string): Promise<ScoringRequest> {
  const models = repositoryOf(echoModel(datatype, axes));
  const request = await decodeBody(
    body,
    0,
    { models, limits: { maxRequestRows: 10_000, maxRequestsPerMessage: 10_000 } },
    UNHINDERED,
  );
  if (isPacked(request)) throw new Error('expected one request');
  if (isRefused(request)) throw new Error(request.failure.message);
  return request;
}

/** What arrives of input `in`. */
async function arrivalOf(request: ScoreRequest, encoding: Encoding, datatype: Datatype, axes: string[] = []) {
  const { inputs } = await decodedBy(datatype, axes, encodeRequest(request, encoding));
  const [input] = inputs;
  if (input === undefined) throw new Error('expected one input');
  const { shape, data } = input;
  return { shape, data: isBase64Data(data) ? decodeAll(data, datatype, shape) : data };
}

function inputOf(datatype: Datatype, data: TensorData): InputTensor {
  return { data, shape: [data.length], datatype };
}

describe.each(ENCODINGS)('a request in %s', (encoding) => {
  it.each(EVERY_DATATYPE)('brings every element of %s bit for bit', async (datatype) => {
    const anyData = fc.integer({ min: 1, max: 12 }).chain((length) => dataOf(datatype, length));
    const sendable = anyData.map((data) =>
      Array.isArray(data) && encoding === 'binary' ? data.map((text) => text.toWellFormed()) : data,
    );
    await fc.assert(
      fc.asyncProperty(sendable, async (data) => {
        const arrived = await arrivalOf({ inputs: { in: inputOf(datatype, data) } }, encoding, datatype);
        expect(bitsOf(arrived.data)).toBe(bitsOf(data));
        expect(arrived.shape).toEqual([data.length]);
      }),
    );
  });

  it('brings a nested array with the shape of its nesting', async () => {
    const input = {
      data: [
        [1, 2, 3],
        [4, 5, 6],
      ],
      datatype: 'FP32',
    } as const;
    await expect(arrivalOf({ inputs: { in: input } }, encoding, 'FP32', ['width'])).resolves.toEqual({
      shape: [2, 3],
      data: Float32Array.of(1, 2, 3, 4, 5, 6),
    });
  });

  it('brings a tensor that is empty within its rows', async () => {
    const empty = { data: Float32Array.of(), shape: [2, 0] };
    for (const input of [empty, { data: [], shape: [2, 0], datatype: 'FP32' } as const]) {
      await expect(arrivalOf({ inputs: { in: input } }, encoding, 'FP32', ['width'])).resolves.toEqual(empty);
    }
  });

  it('brings a flat array with the shape that is given', async () => {
    const input = { data: [1, 2, 3, 4], shape: [2, 2], datatype: 'INT8' } as const;
    await expect(arrivalOf({ inputs: { in: input } }, encoding, 'INT8', ['width'])).resolves.toEqual({
      shape: [2, 2],
      data: Int8Array.of(1, 2, 3, 4),
    });
  });

  it('brings what JSON numbers cannot hold', async () => {
    const floats = { data: [Number.NaN, Number.POSITIVE_INFINITY, -0], datatype: 'FP64' } as const;
    await expect(arrivalOf({ inputs: { in: floats } }, encoding, 'FP64')).resolves.toMatchObject({
      data: Float64Array.of(Number.NaN, Number.POSITIVE_INFINITY, -0),
    });
    const integers = { data: [2n ** 63n - 1n, -(2n ** 63n)], datatype: 'INT64' } as const;
    await expect(arrivalOf({ inputs: { in: integers } }, encoding, 'INT64')).resolves.toMatchObject({
      data: BigInt64Array.of(2n ** 63n - 1n, -(2n ** 63n)),
    });
  });

  it('carries id, model, version and outputs, and no key that was not given', async () => {
    const inputs = { in: { data: Float32Array.of(1), shape: [1] } };
    const request = { id: 'order-42', model: 'echo', version: '1', inputs, outputs: ['out'] };
    await expect(decodedBy('FP32', [], encodeRequest(request, encoding))).resolves.toMatchObject({
      id: 'order-42',
      model: { name: 'echo', version: '1' },
      outputs: [0],
      reply: encoding,
    });
    const keys = Object.keys(JSON.parse(encodeRequest({ inputs }, encoding)));
    expect(keys).toEqual(encoding === 'binary' ? ['inputs', 'raw_input_contents'] : ['inputs']);
  });

  it('holds only characters that SQS takes', () => {
    const id = '\uFFFE\uFFFF\u0000\uD800';
    const text = encodeRequest({ id, inputs: { in: { data: ['a'] } } }, encoding);
    for (const character of id) expect(text).not.toContain(character);
    expect(JSON.parse(text).id).toBe(id);
  });
});

describe('the datatype of an input that names none', () => {
  const shape = [1];
  it.each([
    ['UINT8', { data: Uint8Array.of(1), shape }],
    ['UINT8', { data: Buffer.of(1), shape }],
    ['UINT16', { data: Uint16Array.of(1), shape }],
    ['UINT32', { data: Uint32Array.of(1), shape }],
    ['UINT64', { data: BigUint64Array.of(1n), shape }],
    ['INT8', { data: Int8Array.of(1), shape }],
    ['INT16', { data: Int16Array.of(1), shape }],
    ['INT32', { data: Int32Array.of(1), shape }],
    ['INT64', { data: BigInt64Array.of(1n), shape }],
    ['FP16', { data: Float16Array.of(1), shape }],
    ['FP32', { data: Float32Array.of(1), shape }],
    ['FP64', { data: Float64Array.of(1), shape }],
    ['BYTES', { data: ['one'] }],
    ['BOOL', { data: [true] }],
  ] satisfies [string, InputTensor][])('is %s for what it holds', (datatype, input) => {
    expect(JSON.parse(encodeRequest({ inputs: { in: input } }, 'binary')).inputs).toEqual([
      { name: 'in', datatype, shape },
    ]);
  });

  it('can be overridden where the typed array is the same', async () => {
    const input = { data: Uint8Array.of(1, 0), shape: [2], datatype: 'BOOL' } as const;
    await expect(arrivalOf({ inputs: { in: input } }, 'binary', 'BOOL')).resolves.toMatchObject({
      data: Uint8Array.of(1, 0),
    });
  });
});

describe('an input that cannot be sent as it is', () => {
  it.each([
    ['too few elements', { data: Float32Array.of(1), shape: [2] }, 'expected 2 elements for shape [2], got 1'],
    ['no rows', { data: Float32Array.of(), shape: [0, 2] }, 'expected a shape [rows, …]'],
    ['no axis', { data: Float32Array.of(1), shape: [] }, 'expected a shape [rows, …]'],
    ['no elements', { data: [] }, 'expected a shape [rows, …]'],
    ['another typed array', { data: Float64Array.of(1), shape: [1], datatype: 'FP32' }, 'got Float64Array'],
    ['a byte that is no boolean', { data: Uint8Array.of(2), shape: [1], datatype: 'BOOL' }, 'expected 0 or 1 (BOOL)'],
    ['ragged nesting', { data: [[1, 2], [3]], datatype: 'FP32' }, 'expected 2 elements on axis 1'],
    ['a number out of range', { data: [256], datatype: 'UINT8' }, 'expected an integer from 0 to 255'],
    ['a lone surrogate', { data: ['\uD800'] }, 'without half surrogate pairs'],
    ['a NUL', { data: ['a\0b'] }, 'without U+0000'],
  ] satisfies [string, InputTensor, string][])('is refused: %s', (_, input, message) => {
    const encode = () => encodeRequest({ inputs: { pixels: input } }, 'binary');
    expect(encode).toThrow(RequestError);
    expect(encode).toThrow(message);
    expect(encode).toThrow("input 'pixels'");
  });

  it('is refused by its type too', () => {
    const encode = (input: InputTensor) => () => encodeRequest({ inputs: { pixels: input } }, 'binary');
    // @ts-expect-error A plain array of numbers needs a datatype.
    expect(encode({ data: [[1]] })).toThrow('expected a datatype for a plain array that starts with 1');
    // @ts-expect-error A typed array needs a shape.
    expect(encode({ data: Float32Array.of(1) })).toThrow('expected a shape for a typed array');
  });

  it('is refused when there is none', () => {
    expect(() => encodeRequest({ inputs: {} }, 'binary')).toThrow('expected at least one input');
  });
});

describe('a request', () => {
  const inputs = { in: { data: Float32Array.of(1), shape: [1] } };
  it.each([
    ['nothing', undefined, 'expected an object, got nothing'],
    ['a misspelt field', { inputs, modelName: 'sum' }, 'got "modelName"'],
    ['a field that it does not carry', { inputs, parameters: { customer: 'a' } }, 'got "parameters"'],
    ['outputs that are no list', { inputs, outputs: 'y' }, 'outputs: expected an array, got "y"'],
    ['a number for an ID', { inputs, id: 42 }, 'id: expected text, got 42'],
    ['an input that is nothing', { inputs: { in: null } }, "input 'in': expected { data, shape }"],
    ['a bare array for an input', { inputs: { in: Float32Array.of(1) } }, 'typed array, got Float32Array'],
    ['a group with a space', { inputs, group: 'a b' }, 'group: expected 1 to 128 letters'],
  ])('is refused for %s, in a sentence', (_, request, message) => {
    const encode = () => encodeRequest(request as unknown as ScoreRequest, 'binary');
    expect(encode).toThrow(RequestError);
    expect(encode).toThrow(message);
  });
});

describe('a raw body', () => {
  it('is sent unchanged when it is a text', () => {
    const body = ' { "instances" : [[1.0]] } ';
    expect(encodeRequest({ body }, 'binary')).toBe(body);
  });

  it('is refused with fields beside it, by its type too', () => {
    const encode = (request: ScoreRequest) => () => encodeRequest(request, 'binary');
    // @ts-expect-error The ID belongs into the body.
    expect(encode({ body: {}, id: 'order-42' })).toThrow(RequestError);
    // @ts-expect-error So do the model and its version.
    expect(encode({ body: {}, model: 'sum', version: '1' })).toThrow(
      'got model, version beside it; say that in the body',
    );
    // @ts-expect-error And so do the inputs.
    expect(encode({ body: '{}', inputs: { x: { data: ['a'] } } })).toThrow(
      'expected a body alone, got inputs beside it',
    );
  });

  it('is sent as JSON when it is a value', () => {
    expect(encodeRequest({ body: [{ instances: [[1]] }] }, 'binary')).toBe('[{"instances":[[1]]}]');
  });
});
