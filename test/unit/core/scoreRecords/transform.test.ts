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

  it('that is not async may fill the same array and the same object for each request', async () => {
    const [data, result] = [new Float32Array(1), { reading: 0 }];
    const fill = (value: unknown): TransformInput[] => {
      data[0] = Number(value);
      return [{ name: 'x', datatype: 'FP32', shape: [1, 1], data }];
    };
    const encode = ({ y }: TransformOutputs) => Object.assign(result, { reading: y?.data[0] });
    const ways: Transform[] = [
      { decode: ({ celsius }) => fill(celsius), encode },
      {
        decodeBatch: (bodies) => {
          if (bodies.length > 1) throw new Error('one at a time');
          return bodies.map(({ celsius }) => fill(celsius));
        },
        encodeBatch: (all) => {
          if (all.length > 1) throw new Error('one at a time');
          return all.map(encode);
        },
      },
    ];
    for (const transform of ways) {
      const { answers } = await score(transform, [{ celsius: 1 }, { celsius: 2 }, { celsius: 3 }]);
      expect(answers.map((answer) => answer.result)).toEqual([{ reading: 3 }, { reading: 5 }, { reading: 7 }]);
    }
  });

  const thrower = () => {
    throw new Error('nobody may read it');
  };
  const UNREADABLE: readonly (readonly [string, () => unknown])[] = [
    ['message', () => Object.defineProperty(new Error(), 'message', { get: thrower })],
    ['name', () => Object.defineProperty(new Error(), 'name', { get: thrower })],
    ['mark', () => Object.defineProperty(new Error(), 'retryable', { get: thrower })],
    ['class', () => new Proxy({}, { getPrototypeOf: thrower, has: thrower })],
  ];
  it.each(UNREADABLE)('fails its request alone by an error whose %s throws when it is read', async (_, make) => {
    const BAD = 6;
    const failIf = (isBad: boolean) => {
      if (isBad) throw make();
    };
    const inputs = (celsius: unknown): TransformInput[] => [
      { name: 'x', datatype: 'FP32', shape: [1, 1], data: [Number(celsius)] },
    ];
    const isBadOutput = ({ y }: TransformOutputs) => y?.data[0] === 2 * BAD + 1;
    const decode: Transform['decode'] = ({ celsius }) => inputs(celsius);
    const ways: Transform[] = [
      {
        decode: ({ celsius }) => {
          failIf(celsius === BAD);
          return inputs(celsius);
        },
      },
      {
        decodeBatch: (bodies) => {
          failIf(bodies.some(({ celsius }) => celsius === BAD));
          return bodies.map(({ celsius }) => inputs(celsius));
        },
      },
      { decodeBatch: (bodies) => bodies.map(({ celsius }) => (celsius === BAD ? make() : inputs(celsius)) as Error) },
      {
        decode,
        encode: (outputs) => {
          failIf(isBadOutput(outputs));
          return 'well';
        },
      },
      {
        decode,
        encodeBatch: (all) => {
          failIf(all.some(isBadOutput));
          return all.map(() => 'well');
        },
      },
    ];
    for (const transform of ways) {
      const { answers, deps } = await score(transform, [{ celsius: 1 }, { celsius: BAD }, { celsius: 3 }]);
      expect(answers.map(({ code }) => code)).toEqual([undefined, 'TRANSFORM_FAILED', undefined]);
      expect(deps.problems).toEqual([]);
    }
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
