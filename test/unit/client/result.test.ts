import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { ScoringError } from '../../../client/clientErrors.ts';
import { decodeResult, type ScoringResult, type SingleResult } from '../../../client/readResult.ts';
import { createEncoder, encodeError } from '../../../lambda/core/encode.ts';
import { failure } from '../../../lambda/core/failure.ts';
import type { ReplyForm } from '../../../lambda/core/microBatch.ts';
import type { Tensor } from '../../../lambda/core/tensor.ts';
import { echoModel, lineModel } from '../../helpers/scoring.ts';
import { bitsOf, dataOf, EVERY_DATATYPE } from '../core/arbitraries.ts';
import { requestOf, zeros } from '../core/requests.ts';

const ROW: Tensor = { name: 'y', datatype: 'FP32', shape: [1, 1], data: Float32Array.of(3) };

/** The result that a deployment writes for these outputs. */
async function written(outputs: readonly Tensor[], reply: ReplyForm, id?: string): Promise<ScoringResult> {
  const model = lineModel();
  const request = { ...zeros(model, 1), id, reply, outputs: outputs.map((_, i) => i) };
  const text = await createEncoder(outputs).encode('m-1', request, 0);
  if (typeof text !== 'string') throw new Error('expected a text');
  return decodeResult('m-1', JSON.parse(text));
}

describe.each(['binary', 'json'] as const)('outputs in %s', (reply) => {
  it.each(EVERY_DATATYPE)('are read back as the very same bits of %s', async (datatype) => {
    const anyData = fc.integer({ min: 1, max: 12 }).chain((length) => dataOf(datatype, length));
    const writable = anyData.map((data) =>
      Array.isArray(data) && reply === 'binary' ? data.map((text) => text.toWellFormed()) : data,
    );
    await fc.assert(
      fc.asyncProperty(writable, async (data) => {
        const result = await written([{ name: 'out', datatype, shape: [1, data.length], data }], reply);
        if (!('outputs' in result)) throw new Error('expected outputs');
        const { out } = result.outputs;
        expect(out).toMatchObject({ datatype, shape: [1, data.length] });
        expect(bitsOf(out?.data ?? [])).toBe(bitsOf(data));
      }),
    );
  });

  it('are given by name, with what the request and the model are called', async () => {
    const other: Tensor = { name: '__proto__', datatype: 'BYTES', shape: [1], data: ['three'] };
    const result = await written([ROW, other], reply, 'order-42');
    expect(result).toMatchObject({ messageId: 'm-1', id: 'order-42', model: 'line', version: '1' });
    expect('outputs' in result && Object.entries(result.outputs)).toEqual([
      ['y', { datatype: 'FP32', shape: [1, 1], data: Float32Array.of(3) }],
      ['__proto__', { datatype: 'BYTES', shape: [1], data: ['three'] }],
    ]);
  });
});

describe('a result of another form', () => {
  it('of predictions is carried through', async () => {
    await expect(written([ROW], 'predictions')).resolves.toEqual({
      messageId: 'm-1',
      id: undefined,
      model: 'line',
      version: '1',
      predictions: [[3]],
    });
  });

  it('of a transform is carried through, null as well', async () => {
    const model = echoModel('FP32', [], { transform: { encode: () => null } });
    const text = await createEncoder([ROW]).encode('m-1', requestOf(model, []), 0);
    expect(decodeResult('m-1', JSON.parse(String(text)))).toMatchObject({ model: 'echo', result: null });
  });

  it('of an error is a ScoringError with its code, message ID and id', () => {
    const text = encodeError('m-1', 'order-42', failure('INVALID_SHAPE', 'expected [rows, 64]'));
    const { error } = decodeResult('m-1', JSON.parse(text)) as Extract<SingleResult, { error: ScoringError }>;
    expect(error).toBeInstanceOf(ScoringError);
    expect(error).toMatchObject({
      code: 'INVALID_SHAPE',
      message: 'expected [rows, 64]',
      messageId: 'm-1',
      id: 'order-42',
      retryable: false,
    });
  });

  it('of a packed message holds the results of its requests in order', () => {
    const document = [
      { message_id: 'm-1', id: 'a', predictions: [1] },
      { message_id: 'm-1', id: 'b', code: 'INVALID_DATA', error: 'expected a number' },
    ];
    expect(decodeResult('m-1', document)).toMatchObject({
      messageId: 'm-1',
      results: [
        { id: 'a', predictions: [1] },
        { id: 'b', error: { code: 'INVALID_DATA', id: 'b' } },
      ],
    });
  });
});

describe('what is no result', () => {
  const output = { name: 'y', datatype: 'FP32', shape: [1, 1] };
  it.each([
    ['a number', 7],
    ['an object of other keys', { message_id: 'm-1' }],
    ['outputs without data', { outputs: [output] }],
    ['too few elements', { outputs: [{ ...output, data: [] }] }],
    ['an unknown datatype', { outputs: [{ ...output, datatype: 'FP8', data: [1] }] }],
    ['too few raw contents', { outputs: [output], raw_output_contents: [] }],
    ['raw contents of another size', { outputs: [output], raw_output_contents: ['AAAA'] }],
  ])('fails alone: %s', (_, document) => {
    expect(decodeResult('m-1', document)).toMatchObject({
      messageId: 'm-1',
      error: { code: 'INVALID_RESULT', messageId: 'm-1' },
    });
  });
});
