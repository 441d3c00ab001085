import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import type { Body } from '../../../../lambda/core/microBatch.ts';
import type { Reply } from '../../../../lambda/core/replies.ts';
import type { Tensor } from '../../../../lambda/core/tensor.ts';
import { encodeData } from '../../../../lambda/core/values.ts';
import { echoModel, enoughTime, repositoryOf, scoreModels, scoringDependencies } from '../../../helpers/scoring.ts';
import { bitsOf, dataOf, EVERY_DATATYPE } from '../arbitraries.ts';

const { limits, observer } = scoringDependencies();

async function replyTo(model: ReturnType<typeof echoModel>, body: Body): Promise<Reply | undefined> {
  const replies: Reply[] = [];
  const sink = async (some: readonly Reply[]): Promise<void> => void replies.push(...some);
  await scoreModels(repositoryOf(model), limits)([{ key: 'm', body }], enoughTime(), sink, { observer });
  return replies[0];
}

describe('a request of tensors', () => {
  it.each(EVERY_DATATYPE)('of %s is answered with the same bits', async (datatype) => {
    const model = echoModel(datatype, [2]);
    await fc.assert(
      fc.asyncProperty(dataOf(datatype, 6), async (data) => {
        const input: Tensor = { name: 'in', datatype, shape: [3, 2], data };
        const reply = await replyTo(model, { inputs: [input], reply: 'tensors' });
        expect(reply).toMatchObject({ text: '', failures: [], outputs: [{ name: 'out', datatype, shape: [3, 2] }] });
        expect(reply && 'outputs' in reply && bitsOf(reply.outputs?.[0]?.data ?? [])).toBe(bitsOf(data));
      }),
      { numRuns: 30 },
    );
  });

  it('is answered like one of JSON, if it asks for JSON', async () => {
    const model = echoModel('INT64', [2]);
    const input: Tensor = { name: 'in', datatype: 'INT64', shape: [1, 2], data: BigInt64Array.of(1n, 2n ** 62n) };
    const { data, ...rest } = input;
    const json = `{"inputs":[${JSON.stringify(rest).slice(0, -1)},"data":[${encodeData('INT64', data)}]}]}`;
    expect(await replyTo(model, { inputs: [input], reply: 'json' })).toEqual(await replyTo(model, json));
  });

  const floats = { name: 'in', datatype: 'FP32', shape: [2, 2], data: new Float32Array(4) } as const;
  it.each<[string, Tensor, string, RegExp]>([
    ['another name', { ...floats, name: 'x' }, 'UNKNOWN_INPUT', /inputs\[0\]\.name: expected 'in'/],
    ['another datatype', { ...floats, datatype: 'FP64' }, 'INVALID_DATATYPE', /expected "FP32"/],
    ['another shape', { ...floats, shape: [1, 4] }, 'INVALID_SHAPE', /expected \[rows, 2\]/],
    ['too few elements', { ...floats, data: new Float32Array(3) }, 'INVALID_SHAPE', /expected 4 elements .* got 3/],
    ['another array', { ...floats, data: new Float64Array(4) }, 'INVALID_DATA', /got Float64Array/],
  ])('is refused with %s', async (_, input, code, message) => {
    const reply = await replyTo(echoModel('FP32', [2]), { inputs: [input], reply: 'tensors' });
    expect(reply).toMatchObject({ failures: [{ code, message: expect.stringMatching(message) }] });
  });

  it('is refused if a string has a character that ONNX Runtime does not carry', async () => {
    const input: Tensor = { name: 'in', datatype: 'BYTES', shape: [2], data: ['a', 'b\0'] };
    const reply = await replyTo(echoModel('BYTES'), { inputs: [input], reply: 'tensors' });
    expect(reply).toMatchObject({ failures: [{ code: 'INVALID_DATA', message: expect.stringMatching(/data\[1\]/) }] });
  });

  it('fails if its answer is larger than allowed', async () => {
    const input: Tensor = { name: 'in', datatype: 'FP32', shape: [100], data: new Float32Array(100) };
    const small = { ...limits, maxAnswerCharacters: 399 };
    const replies: Reply[] = [];
    const sink = async (some: readonly Reply[]): Promise<void> => void replies.push(...some);
    const body: Body = { inputs: [input], reply: 'tensors' };
    await scoreModels(repositoryOf(echoModel('FP32')), small)([{ key: 'm', body }], enoughTime(), sink, { observer });
    expect(replies).toMatchObject([{ failures: [{ code: 'RESULT_TOO_LARGE' }] }]);
  });
});
