import { describe, expect, it } from '@jest/globals';
import type { Transform, TransformInput, TransformOutputs } from '../../../../lambda/core/model.ts';
import { lineModel, lineRequest, messageIdOf } from '../../../helpers/scoring.ts';
import { scoreWith, statuses } from './answers.ts';

/** Takes `{"celsius": […]}`. */
const FAHRENHEIT: Transform = {
  decode: ({ celsius }) => {
    if (!Array.isArray(celsius)) throw new Error('expected celsius');
    return [{ name: 'x', datatype: 'FP32', shape: [celsius.length, 1], data: celsius }];
  },
  encode: async ({ y }) => {
    if (y?.data[0] === 13) throw new Error('unlucky');
    return { readings: Array.from(y?.data ?? [], Number) };
  },
};

const score = (transform: Transform, bodies: readonly unknown[], maxBatchRows = 512) =>
  scoreWith([lineModel({ transform, maxBatchRows })], bodies);

function gives(...inputs: readonly unknown[]): Transform {
  return { decode: () => inputs as readonly TransformInput[] };
}

describe("a model's transform", () => {
  it('reads what it likes and answers as it likes, in one batch with others', async () => {
    const { answers, deps } = await score(FAHRENHEIT, [{ celsius: [1, 2], id: 'a' }, { celsius: [3] }]);
    const head = { model_name: 'line', model_version: '1' };
    expect(answers).toEqual([
      { message_id: messageIdOf(0), id: 'a', ...head, result: { readings: [3, 5] } },
      { message_id: messageIdOf(1), ...head, result: { readings: [7] } },
    ]);
    expect(deps.reports.map(({ requests }) => requests)).toEqual([2]);
  });

  it('fails the request alone for which it throws, before or after the run', async () => {
    const { answers, outcomes } = await score(FAHRENHEIT, [
      { celsius: [1] },
      { celsius: 'hot', id: 'b' },
      { celsius: [6] },
    ]);
    expect(answers).toEqual([
      expect.objectContaining({ result: { readings: [3] } }),
      { message_id: messageIdOf(1), id: 'b', code: 'TRANSFORM_FAILED', error: 'expected celsius' },
      { message_id: messageIdOf(2), code: 'TRANSFORM_FAILED', error: "the transform's encode: unlucky" },
    ]);
    expect(statuses(outcomes)).toEqual(['answered', 'answered', 'answered']);
  });

  it.each([
    ['another shape', { name: 'x', datatype: 'FP32', shape: [1, 2], data: [1, 2] }, 'got [1, 2]'],
    ['another input', { name: 'z', datatype: 'FP32', shape: [1, 1], data: [1] }, 'got "z"'],
    ['nothing', undefined, 'got nothing'],
  ])('is checked like anyone: it is its own failure when it gives %s', async (_, input, got) => {
    const { answers } = await score(gives(input), [{}]);
    expect(answers).toMatchObject([{ code: 'TRANSFORM_FAILED', error: expect.stringContaining(got) }]);
  });

  it.each([
    ['nothing', () => undefined],
    [
      'what refers to itself',
      () => {
        const loop: { self?: unknown } = {};
        loop.self = loop;
        return loop;
      },
    ],
  ])('fails the request when it answers %s', async (_, encode) => {
    const { answers } = await score({ encode }, [lineRequest([1])]);
    expect(answers).toMatchObject([{ code: 'TRANSFORM_FAILED' }]);
  });

  it('has what JSON would lose written as in every other result', async () => {
    const encode = () => ({
      p: Number.NaN,
      q: [Number.NEGATIVE_INFINITY],
      n: 2n ** 60n,
      m: 7n,
      t: Float32Array.of(0.5),
    });
    const { answers } = await score({ encode }, [lineRequest([1])]);
    const result = { p: 'NaN', q: ['-Infinity'], n: '1152921504606846976', m: 7, t: [0.5] };
    expect(answers).toMatchObject([{ result }]);
  });

  it("cannot touch its neighbours' outputs", async () => {
    const encode = (outputs: TransformOutputs) => {
      const { y } = outputs;
      if (!(y?.data instanceof Float32Array)) throw new Error('expected float32');
      const seen = Array.from(y.data);
      new Uint8Array(y.data.buffer).fill(255);
      return seen;
    };
    const { answers } = await score({ encode }, [lineRequest([1]), lineRequest([2])]);
    expect(answers).toMatchObject([{ result: [3] }, { result: [5] }]);
  });

  it('sees the whole of a request that was split, once', async () => {
    const { answers } = await score(FAHRENHEIT, [{ celsius: [1, 2, 3, 4, 5] }], 2);
    expect(answers).toMatchObject([{ result: { readings: [3, 5, 7, 9, 11] } }]);
  });
});
