import { describe, expect, it } from '@jest/globals';
import type { Model } from '../../../../lambda/core/model.ts';
import type { Tensor } from '../../../../lambda/core/tensor.ts';
import { scoreRecords } from '../../../../lambda/hosts/records.ts';
import { enoughTime, messageIdOf, standardRecords, tokensModel, tokensRequest } from '../../../helpers/scoring.ts';
import { statuses } from './answers.ts';
import { LINE, type OfRow, rowModel, SHARE_OF_LARGEST } from './mixingModels.ts';
import { again, answers, batched, depsFor, oneRowEach, upTo } from './watched.ts';

const PROVED = { independence: 'proved' } as const;

describe('the first micro-batch of a model', () => {
  it('is answered with what each row gets alone, where rows depend on each other', async () => {
    const { model, runs } = rowModel(SHARE_OF_LARGEST, PROVED);
    const deps = depsFor(model);
    const records = oneRowEach(upTo(20));
    expect(statuses(await scoreRecords(records, deps, enoughTime()))).toEqual(new Array(20).fill('answered'));
    expect(answers(deps, 20)).toEqual(new Array(20).fill(1));
    expect(deps.mismatches).toEqual([
      {
        model: 'line',
        version: '1',
        messageId: expect.stringMatching(new RegExp(`^${messageIdOf(0).slice(0, -12)}`)),
        difference: { output: 'y', datatype: 'FP32', share: expect.any(Number), detail: expect.any(String) },
        wasBatched: true,
        maxRows: 1,
      },
    ]);
    const before = runs.length;
    await scoreRecords(records, again(deps), enoughTime());
    expect(batched(runs.slice(before))).toEqual([]);
    expect(deps.mismatches).toHaveLength(1);
  });

  it('is answered from its one run where rows are independent, 64 different requests run again', async () => {
    const { model, runs } = rowModel(LINE, { ...PROVED, runMs: 1 });
    const deps = depsFor(model);
    await scoreRecords(oneRowEach(upTo(100)), deps, enoughTime());
    expect(answers(deps, 100)).toEqual(upTo(100).map((value) => 2 * value + 1));
    expect(runs.map(({ length }) => length)).toEqual([100, ...new Array(64).fill(1)]);
    expect(new Set(runs.slice(1).flat()).size).toBe(64);
    expect(deps.reports.map(({ rows }) => rows)).toEqual([100]);
    expect([deps.checksMs, deps.mismatches]).toEqual([[64], []]);
  });

  it('counts different requests: copies of one are run again once, and prove no more', async () => {
    const { model, runs } = rowModel(LINE, PROVED);
    const deps = depsFor(model);
    for (let time = 0; time < 3; time++) await scoreRecords(oneRowEach([5, 5, 5]), again(deps), enoughTime());
    expect(runs).toEqual([[5, 5, 5], [5], [5, 5, 5], [5], [5, 5, 5], [5]]);
  });

  it('has four times its own time again for checks at most, and one request at least', async () => {
    const { model, runs } = rowModel(LINE, { ...PROVED, runMs: 300, measured: [{ rows: 1, length: 1, ms: 500 }] });
    const own: Model = { ...model, run: async (inputs) => ({ ...(await model.run(inputs)), runMs: 500 }) };
    await scoreRecords(oneRowEach(upTo(30)), depsFor(own), enoughTime());
    expect(runs.map(({ length }) => length)).toEqual([30, 1, 1, 1, 1]);
  });

  it('with one row says nothing: the next one with more is checked', async () => {
    const { model } = rowModel(SHARE_OF_LARGEST, PROVED);
    const deps = depsFor(model);
    await scoreRecords(oneRowEach([7]), deps, enoughTime());
    await scoreRecords(oneRowEach([7]), deps, enoughTime());
    expect(deps.checksMs).toEqual([]);
    const next = again(deps);
    await scoreRecords(oneRowEach([1, 2]), next, enoughTime());
    expect([answers(next, 2), next.mismatches.length]).toEqual([[1, 1], 1]);
  });

  it('does not let the one that runs beside it be answered from a batch either', async () => {
    const { model } = rowModel(SHARE_OF_LARGEST, { ...PROVED, maxBatchRows: 10 });
    const deps = depsFor(model);
    await scoreRecords(oneRowEach(upTo(40)), deps, enoughTime());
    expect([answers(deps, 40), deps.mismatches.length]).toEqual([new Array(40).fill(1), 1]);
  });

  it.each<[string, OfRow]>([
    ['on where a row stands', (_, row) => row],
    ['on how many rows there are', (values) => values.length],
    ['on being the last of several', (values, row) => (row > 0 && row === values.length - 1 ? 9 : 0)],
  ])('is not answered where integers depend %s', async (_, ofRow) => {
    const { model } = rowModel(ofRow, PROVED, 'INT64');
    const deps = depsFor(model);
    await scoreRecords(oneRowEach(upTo(9)), deps, enoughTime());
    expect(answers(deps, 9)).toEqual(new Array(9).fill(ofRow([0], 0)));
    expect(deps.mismatches).toHaveLength(1);
  });

  it('is not answered where padding changes a row', async () => {
    const model = tokensModel(PROVED);
    const leaking: Model = {
      ...model,
      async run(inputs) {
        const [rows = 0, length = 0] = inputs[0]?.shape ?? [];
        const { outputs, runMs } = await model.run(inputs);
        const total = { ...(outputs[0] as Tensor), data: new Float32Array(rows).fill(length) };
        return { outputs: [total, ...outputs.slice(1)], runMs };
      },
    };
    const deps = depsFor(leaking);
    await scoreRecords(
      standardRecords([[1], [2, 3, 4], [5, 6, 7, 8]].map((row) => tokensRequest([row]))),
      deps,
      enoughTime(),
    );
    expect(answers(deps, 3)).toEqual([1, 3, 4]);
    expect(deps.mismatches).toMatchObject([{ difference: { output: 'total' } }]);
  });

  it('is not answered where the number of rows turns one label of many: later runs have as many as turn none', async () => {
    const { model, runs } = rowModel(
      (values, row) => (values[row] === 5 && values.length > 3 ? 1 : 0),
      PROVED,
      'INT64',
    );
    const deps = depsFor(model);
    await scoreRecords(oneRowEach(upTo(16)), deps, enoughTime());
    expect(answers(deps, 16)).toEqual(new Array(16).fill(0));
    expect(deps.mismatches).toMatchObject([{ wasBatched: true, maxRows: 2 }]);
    const before = runs.length;
    const next = again(deps);
    await scoreRecords(oneRowEach(upTo(16)), next, enoughTime());
    expect(answers(next, 16)).toEqual(new Array(16).fill(0));
    expect(Math.max(...runs.slice(before).map(({ length }) => length))).toBe(2);
  });

  it('is checked another time where there is no time to tell rounding from neighbours, and not answered as it is', async () => {
    const { model } = rowModel(SHARE_OF_LARGEST, PROVED);
    const failing: Model = {
      ...model,
      async run(inputs) {
        const values = Array.from(inputs[0]?.data as Float32Array);
        if (values.length > 1 && new Set(values).size === 1) throw new Error('no copies');
        return model.run(inputs);
      },
    };
    const deps = depsFor(failing);
    await scoreRecords(oneRowEach([1, 2, 3]), deps, enoughTime());
    expect([answers(deps, 3), deps.mismatches]).toEqual([[1, 1, 1], []]);
  });
});
