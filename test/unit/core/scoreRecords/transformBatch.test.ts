import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { runInNewContext } from 'node:vm';
import { describe, expect, it } from '@jest/globals';
import type {
  BatchHook,
  Transform,
  TransformBody,
  TransformContext,
  TransformInput,
  TransformOutputs,
} from '../../../../lambda/core/model.ts';
import { loadTransform } from '../../../../lambda/onnx/loadTransform.ts';
import { modelsDirectory } from '../../../helpers/openModels.ts';
import { enoughTime, lineModel, lineRequest } from '../../../helpers/scoring.ts';
import { scoreWith, statuses } from './answers.ts';

type DecodeBatch = BatchHook<TransformBody, readonly TransformInput[]>;
type EncodeBatch = BatchHook<TransformOutputs, unknown>;

const inputsOf = (value: unknown): TransformInput[] => [
  { name: 'x', datatype: 'FP32', shape: [1, 1], data: [Number(value)] },
];
const own = (value: unknown, more = {}) => ({ model_name: 'own', value, ...more });
const plain = (value: number) => lineRequest([value], { model_name: 'line' });

type Options = NonNullable<Parameters<typeof scoreWith>[2]> & { readonly maxBatchRows?: number };

/** Scores bodies with the models `line` and `own`, which has the transform. */
function score(transform: Transform, bodies: readonly unknown[], { maxBatchRows = 512, ...options }: Options = {}) {
  return scoreWith([lineModel(), lineModel({ name: 'own', transform, maxBatchRows })], bodies, options);
}

/** What became of each request: `y = 2x + 1`, or what was said of it. */
function told(answers: readonly Record<string, unknown>[]): unknown[] {
  return answers.map(({ outputs, error }) => (outputs as { data: number[] }[] | undefined)?.[0]?.data[0] ?? error);
}

const fileOf = (name: string) => [
  'software.amazon.payloadoffloading.PayloadS3Pointer',
  { s3BucketName: 'payloads', s3Key: name },
];

describe('decodeBatch', () => {
  it('is called once for all requests of a call, packed or in S3, and holds up no other model', async () => {
    const calls: number[] = [];
    const decodeBatch: DecodeBatch = async (bodies) => {
      calls.push(bodies.length);
      return bodies.map(({ value }) => inputsOf(value));
    };
    const packed = Array.from({ length: 700 }, (_, value) => own(value, { inputs: [] }));
    const singles = Array.from({ length: 400 }, (_, value) => (value % 2 === 0 ? own(value) : plain(value)));
    const payloads = new Map([
      ['requests/a', JSON.stringify(own(5))],
      ['requests/b', JSON.stringify(packed)],
    ]);
    const bodies = [...singles, packed, fileOf('requests/a'), fileOf('requests/b')];
    const { answers, deps, reports } = await score({ decodeBatch }, bodies, { payloads });
    expect(calls).toEqual([200 + 700 + 1 + 700]);
    const line = (count: number) => Array.from({ length: count }, (_, value) => 2 * value + 1);
    expect(told(answers)).toEqual([...line(400), ...line(700), 11, ...line(700)]);
    expect(deps.reports[0]).toMatchObject({ model: 'line', requests: 200 });
    expect(reports).toMatchObject([{ model: 'own', hook: 'decodeBatch', requests: 1_601 }]);
    expect(reports[0]).not.toHaveProperty('split');
  });

  it('fails a request alone by an Error in its place, or by what is no input', async () => {
    const given = [inputsOf(1), new Error('expected a customer'), inputsOf(2), undefined, inputsOf('x')];
    const decodeBatch = (() => given) as unknown as DecodeBatch;
    const { answers, reports } = await score(
      { decodeBatch },
      [0, 1, 2, 3, 4].map((value) => own(value, { id: `${value}` })),
    );
    expect(told(answers)).toEqual([
      3,
      'expected a customer',
      5,
      expect.stringContaining('got nothing'),
      expect.stringContaining('NaN'),
    ]);
    expect(answers[1]).toMatchObject({ id: '1', code: 'TRANSFORM_FAILED' });
    expect(reports).toHaveLength(1);
  });

  const BAD = 77;
  const wayward = (goWrong: (bodies: readonly TransformBody[]) => unknown): DecodeBatch =>
    ((bodies: TransformBody[]) => {
      if (bodies.some(({ value }) => value === BAD)) return goWrong(bodies);
      return bodies.map(({ value }) => inputsOf(value));
    }) as unknown as DecodeBatch;
  it.each<[string, (bodies: readonly TransformBody[]) => unknown, string, string]>([
    [
      'throws',
      () => {
        throw new TypeError('secret of a body');
      },
      'secret of a body',
      'it threw TypeError',
    ],
    ['rejects', () => Promise.reject(new Error('no such customer')), 'no such customer', 'it threw Error'],
    [
      'gives fewer',
      (bodies) => bodies.slice(1).map(() => inputsOf(9)),
      'to return 1 result, got 0',
      'to return 100 results, got 99',
    ],
    [
      'gives more',
      (bodies) => [...bodies, 1].map(() => inputsOf(9)),
      'to return 1 result, got 2',
      'to return 100 results, got 101',
    ],
    ['gives no list', () => ({}), 'to return 1 result, got an object', 'to return 100 results, got an object'],
    ['gives nothing', () => undefined, 'got nothing', 'to return 100 results, got nothing'],
  ])('that %s for one request in a hundred is called again for each alone', async (_, goWrong, error, split) => {
    const decodeBatch = wayward(goWrong);
    const { answers, reports, outcomes } = await score(
      { decodeBatch },
      Array.from({ length: 100 }, (__, value) => own(value)),
    );
    const expected: unknown[] = Array.from({ length: 100 }, (__, value) => 2 * value + 1);
    expected[BAD] = expect.stringContaining(error);
    expect(told(answers)).toEqual(expected);
    expect(new Set(statuses(outcomes))).toEqual(new Set(['answered']));
    expect(reports).toMatchObject([{ requests: 100, split: expect.stringContaining(split) }]);
    expect(reports[0]?.split).not.toContain('secret');
  });

  it('that never settles for one of them, or loses an error, costs the others nothing but time', async () => {
    const path = join(await modelsDirectory({}), 'transform.mjs');
    const code = `export const decodeBatch = async (bodies) => {
      if (bodies.some(({ value }) => value === 2)) await new Promise(() => {});
      if (bodies.some(({ value }) => value === 3)) { Promise.reject(new Error('nobody waits')); await new Promise(() => {}); }
      return bodies.map(({ value }) => [{ name: 'x', datatype: 'FP32', shape: [1, 1], data: [value] }]);
    };`;
    await writeFile(path, code);
    const { answers } = await score(
      await loadTransform(path, () => {}, 40),
      [1, 2, 3, 4].map((value) => own(value)),
    );
    expect(told(answers)).toEqual([3, expect.stringContaining('to settle within 40 ms'), 'nobody waits', 9]);
  });

  it('that gives promises, one of which never settles, costs the others nothing but time', async () => {
    const path = join(await modelsDirectory({}), 'transform.mjs');
    const code = `export const decodeBatch = (bodies) => bodies.map(async ({ value }) => {
      if (value === 2) await new Promise(() => {});
      return [{ name: 'x', datatype: 'FP32', shape: [1, 1], data: [value] }];
    });`;
    await writeFile(path, code);
    const { answers } = await score(
      await loadTransform(path, () => {}, 40),
      [1, 2, 3].map((value) => own(value)),
    );
    expect(told(answers)).toEqual([3, expect.stringContaining('to settle within 40 ms'), 7]);
  });

  it('may change and keep what it is given: a call after it sees none of that', async () => {
    const decodeBatch = ((bodies: { value: { of?: number[] } }[]) => {
      const values = bodies.map(({ value }) => value.of?.pop());
      for (const body of bodies.splice(0)) body.value = {};
      if (values.includes(BAD)) throw new Error('bad');
      return values.map(inputsOf);
    }) as unknown as DecodeBatch;
    const { answers } = await score(
      { decodeBatch },
      [1, BAD, 3].map((value) => own({ of: [0, value] })),
    );
    expect(told(answers)).toEqual([3, 'bad', 7]);
  });

  it('is not called for a body that cannot be copied, which fails alone', async () => {
    const calls: number[] = [];
    const decodeBatch: DecodeBatch = (bodies) => {
      calls.push(bodies.length);
      return bodies.map(({ value }) => inputsOf(value));
    };
    const deep = JSON.stringify(own(2, { deep: '…' })).replace('"…"', `${'['.repeat(5_000)}${']'.repeat(5_000)}`);
    const { answers } = await score({ decodeBatch }, [own(1), deep, own(3)]);
    expect(told(answers)).toEqual([3, expect.stringContaining('at most 100 levels'), 7]);
    expect(calls).toEqual([2]);
  });

  it('may give one array to several requests, which then run together and alone', async () => {
    const shared = { name: 'x', datatype: 'FP32', shape: [1, 1], data: Float32Array.of(4) } as const;
    const decodeBatch: DecodeBatch = (bodies) => bodies.map(() => [shared]);
    for (const maxBatchRows of [512, 1]) {
      const { answers } = await score(
        { decodeBatch },
        [1, 2, 3].map((value) => own(value)),
        { maxBatchRows },
      );
      expect(told(answers)).toEqual([9, 9, 9]);
    }
  });

  it('has a share of the time left, a signal that says when it is over, and a place for what lives as long as the process', async () => {
    const contexts: TransformContext[] = [];
    const clients: number[] = [];
    const decodeBatch: DecodeBatch = async (bodies, context) => {
      contexts.push(context);
      clients.push(context.once('client', () => clients.length));
      expect(() =>
        context.once('broken', () => {
          throw new Error('no client');
        }),
      ).toThrow('no client');
      await expect(context.once('later', () => Promise.reject(new Error('not yet')))).rejects.toThrow('not yet');
      expect(await context.once('later', async () => 'made')).toBe('made');
      await expect(context.once('foreign', () => runInNewContext('Promise.reject()'))).rejects.toBeUndefined();
      expect(await context.once('foreign', async () => 'made')).toBe('made');
      return bodies.map(({ value }) => inputsOf(value));
    };
    const transform = { decodeBatch };
    await score(transform, [own(1), own(2)]);
    await score(transform, [own(3)], { time: { ...enoughTime(), remainingMs: () => 4_000 } });
    expect(clients).toEqual([0, 0]);
    expect(contexts.map(({ signal }) => signal.aborted)).toEqual([false, false]);
    expect(contexts[0]?.remainingMs()).toBeLessThanOrEqual(5_000);
    expect(contexts[1]?.remainingMs()).toBeLessThanOrEqual(2_000);
  });

  it('hands back what it had too little time for, and answers the others', async () => {
    const signals: AbortSignal[] = [];
    const decodeBatch: DecodeBatch = async (bodies, { signal }) => {
      if (!bodies.some(({ value }) => value === BAD)) return bodies.map(({ value }) => inputsOf(value));
      signals.push(signal);
      return new Promise((_, reject) => signal.addEventListener('abort', () => reject(new Error('given up'))));
    };
    const time = { ...enoughTime(), remainingMs: () => 1_200 };
    const { answers, outcomes } = await score({ decodeBatch }, [own(1), own(BAD), own(3)], { time });
    expect(told(answers)).toEqual([3, 7]);
    expect(outcomes[1]).toMatchObject({ status: 'retry', failure: { code: 'DEADLINE' } });
    expect(signals.map(({ aborted }) => aborted)).toEqual([true, true]);
  });

  it.each(['threw', 'gave'])(
    'that %s an error which it calls retryable hands back, and is not called again',
    async (how) => {
      const later = Object.assign(new RangeError('secret of a body'), { retryable: true });
      let calls = 0;
      const decodeBatch: DecodeBatch = (bodies) => {
        calls += 1;
        if (how === 'threw') throw later;
        return bodies.map(({ value }) => (value === BAD ? later : inputsOf(value)));
      };
      const { answers, outcomes } = await score({ decodeBatch }, [own(BAD), plain(2), own(3)]);
      expect(told(answers)).toEqual(how === 'threw' ? [5] : [5, 7]);
      const message = "transform of model 'own': expected an answer, got RangeError, which it calls retryable";
      const outage = { of: "transform of model 'own'", kind: 'busy' };
      expect(outcomes[0]).toMatchObject({
        status: 'retry',
        failure: { code: 'TRANSFORM_UNAVAILABLE', message, outage },
      });
      expect(calls).toBe(1);
    },
  );

  it('is left at the deadline, and called for nobody after it', async () => {
    const over = new AbortController();
    let calls = 0;
    const decodeBatch: DecodeBatch = (bodies) => {
      calls += 1;
      if (bodies.length > 1) throw new Error('bad');
      over.abort();
      return new Promise(() => {});
    };
    const { outcomes } = await score({ decodeBatch }, [own(1), own(2)], {
      time: { ...enoughTime(), signal: over.signal },
    });
    expect(statuses(outcomes)).toEqual(['DEADLINE', 'DEADLINE']);
    expect(calls).toBe(2);
  });
});

describe('encodeBatch', () => {
  const scoreOf = ({ y }: TransformOutputs): number => Number(y?.data[0]);

  it('is called once for all requests of a micro-batch, whole or put together, each with outputs of its own', async () => {
    const encodeBatch: EncodeBatch = async (all) => {
      const values = all.map((outputs) => Array.from(outputs.y?.data ?? [], Number));
      for (const { y } of all) if (y?.data instanceof Float32Array) new Float32Array(y.data.buffer).fill(0);
      return values.map((of) => ({ of, together: all.length }));
    };
    const body = (...values: number[]) => lineRequest(values, { model_name: 'own' });
    const { answers, reports } = await score({ encodeBatch }, [body(1), body(2), body(3, 4, 5, 6, 7)], {
      maxBatchRows: 4,
    });
    expect(answers.map(({ result }) => result)).toEqual([
      { of: [3], together: 2 },
      { of: [5], together: 2 },
      { of: [7, 9, 11, 13, 15], together: 1 },
    ]);
    expect(reports).toMatchObject([
      { hook: 'encodeBatch', requests: 2 },
      { hook: 'encodeBatch', requests: 1 },
    ]);
  });

  it('fails a request alone by an Error in its place, by what JSON cannot hold, or when it throws', async () => {
    const encodeBatch: EncodeBatch = (all) => {
      if (all.some((outputs) => scoreOf(outputs) === 9)) throw new Error('unlucky');
      if (all.some((outputs) => scoreOf(outputs) === 15)) return Promise.reject();
      return all.map((outputs) => {
        // As of a library that has a realm of its own.
        if (scoreOf(outputs) === 5) return runInNewContext("new TypeError('too uncertain')");
        if (scoreOf(outputs) === 13) return Object.assign(new Error('no store'), { retryable: true });
        return scoreOf(outputs) === 7 ? undefined : { score: scoreOf(outputs) };
      });
    };
    const bodies = [1, 2, 3, 4, 5, 7, 6].map((value) => lineRequest([value], { model_name: 'own', id: `${value}` }));
    const { answers, reports, outcomes } = await score({ encodeBatch }, bodies);
    expect(answers.map(({ result, error }) => result ?? error)).toEqual([
      { score: 3 },
      "the transform's encodeBatch: too uncertain",
      "expected a value that JSON can hold from the transform's encodeBatch, got none",
      "the transform's encodeBatch: unlucky",
      { score: 11 },
      "the transform's encodeBatch: undefined was thrown",
    ]);
    expect(reports).toMatchObject([{ requests: 7, split: 'it threw Error' }]);
    expect(statuses(outcomes).at(-1)).toBe('TRANSFORM_UNAVAILABLE');
  });
});
