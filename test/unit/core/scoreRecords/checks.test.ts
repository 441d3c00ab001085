import { describe, expect, it } from '@jest/globals';
import type { Model } from '../../../../lambda/core/model.ts';
import type { Tensor } from '../../../../lambda/core/tensor.ts';
import { scoreRecords } from '../../../../lambda/hosts/records.ts';
import { enoughTime, lineRequest, standardRecords, tokensModel, tokensRequest } from '../../../helpers/scoring.ts';
import { answerTo, statuses } from './answers.ts';
import { DISTURBED_BY_LARGE, LINE, type OfRow, rowModel, SHARE_OF_LARGEST } from './mixingModels.ts';
import { again, answers, batched, depsFor, oneRowEach, upTo } from './watched.ts';

const COMPARED = { sharing: 'compared' } as const;
/** So small a share that nothing is due. */
const HARDLY = 1e-9;

describe('a request of a run that is run alone as well', () => {
  it('stops batching of its model if its answer differs: no request of the run is answered from it', async () => {
    const { model, runs } = rowModel(DISTURBED_BY_LARGE, COMPARED);
    const deps = depsFor(model, 1);
    await scoreRecords(oneRowEach(upTo(70)), again(deps), enoughTime());
    expect(deps.mismatches).toEqual([]);
    await scoreRecords(oneRowEach([5, 2000, 7]), deps, enoughTime());
    expect(answers(deps, 3)).toEqual([11, 4001, 15]);
    const difference = { output: 'y', detail: expect.stringContaining(' at element 0') };
    expect(deps.mismatches).toEqual([{ model: 'line', version: '1', messageId: expect.any(String), difference }]);
    const before = runs.length;
    await scoreRecords(oneRowEach([5, 6]), again(deps), enoughTime());
    expect([runs.slice(before), deps.mismatches.length]).toEqual([[[5], [6]], 1]);
  });

  it('keeps the runs beside its own from being answered too', async () => {
    const { model } = rowModel(SHARE_OF_LARGEST, { ...COMPARED, maxBatchRows: 10 });
    const deps = depsFor(model, 1);
    await scoreRecords(oneRowEach(upTo(40)), deps, enoughTime());
    expect([answers(deps, 40), deps.mismatches.length]).toEqual([new Array(40).fill(1), 1]);
  });

  it.each<[string, OfRow]>([
    ['where a row stands', (_, row) => row + 7],
    ['how many rows there are', (values) => values.length],
    ['having neighbours, by one of many', (values) => 2 ** 52 + (values.length > 1 ? 1 : 0)],
  ])('differs where an integer depends on %s', async (_, ofRow) => {
    const deps = depsFor(rowModel(ofRow, COMPARED, 'INT64').model, 1);
    const records = oneRowEach(upTo(9));
    for (let time = 0; time < 3; time++) await scoreRecords(records, again(deps), enoughTime());
    await scoreRecords(records, deps, enoughTime());
    expect([new Set(answers(deps, 9).map(Number)), deps.mismatches.length]).toEqual([new Set([ofRow([0], 0)]), 1]);
  });

  it('differs where padding changes it', async () => {
    const model = tokensModel(COMPARED);
    const leaking: Model = {
      ...model,
      async run(inputs) {
        const [rows = 0, length = 0] = inputs[0]?.shape ?? [];
        const { outputs, runMs } = await model.run(inputs);
        const total = { ...(outputs[0] as Tensor), data: new Float32Array(rows).fill(length) };
        return { outputs: [total, ...outputs.slice(1)], runMs };
      },
    };
    const deps = depsFor(leaking, 1);
    const records = [[1], [2, 3, 4], [5, 6, 7, 8]].map((row) => tokensRequest([row]));
    await scoreRecords(standardRecords(records), deps, enoughTime());
    expect([answers(deps, 3), deps.mismatches]).toEqual([[1, 3, 4], [expect.anything()]]);
  });

  it.each([0.01, 0.1])('takes %d of the run time at most, and is another one each time', async (share) => {
    const { model, runs } = rowModel(LINE, { ...COMPARED, runMs: 3, maxBatchRows: 10 });
    const deps = depsFor(model, share);
    for (let time = 0; time < 60; time++) await scoreRecords(oneRowEach(upTo(100)), again(deps), enoughTime());
    const runMs = 3 * deps.reports.length;
    const checkMs = deps.checksMs.reduce((sum, ms) => sum + ms, 0);
    expect(checkMs).toBeLessThanOrEqual(share * runMs + 3);
    expect(checkMs).toBeGreaterThan(0.7 * share * runMs);
    expect(new Set(runs.filter(({ length }) => length === 1).flat()).size).toBeGreaterThan(4);
  });

  it.each([
    ['at a share of 0', 'compared', 0],
    ['of a model that is trusted', 'trusted', 0.5],
  ] as const)('is none %s, whatever it answers', async (_, sharing, share) => {
    const { model, runs } = rowModel((values, row) => (values.length > 1 ? Number.NaN : LINE(values, row)), {
      sharing,
    });
    const deps = depsFor(model, share);
    await scoreRecords(standardRecords([lineRequest([1]), lineRequest([2, 4])]), deps, enoughTime());
    expect([runs, deps.checksMs]).toEqual([[[1, 2, 4]], []]);
  });
});

describe('an answer with a NaN to numbers', () => {
  const nanBeside: OfRow = (values, row) =>
    values.some((value) => value > 1000) && values.length > 1 ? Number.NaN : LINE(values, row);
  const root: OfRow = (values, row) => Math.sqrt(values[row] as number);

  it('is compared at once: what turns a run into NaN stops batching before that is written', async () => {
    const deps = depsFor(rowModel(nanBeside, COMPARED).model, HARDLY);
    await scoreRecords(oneRowEach(upTo(70)), again(deps), enoughTime());
    await scoreRecords(oneRowEach([5, 6, 2000, 7]), deps, enoughTime());
    expect([answers(deps, 4), deps.mismatches.length]).toEqual([[11, 13, 4001, 15], 1]);
  });

  it('is written where the request alone has it too, and not compared any more after 64 times', async () => {
    const { model, runs } = rowModel(root, COMPARED);
    const deps = depsFor(model, HARDLY);
    for (let time = 0; time < 20; time++) await scoreRecords(oneRowEach([4, -1, -2]), again(deps), enoughTime());
    await scoreRecords(oneRowEach([4, -1, 9]), deps, enoughTime());
    expect([answers(deps, 3), deps.mismatches, batched(runs).length]).toEqual([[2, 'NaN', 3], [], 21]);
    const alone = runs.length - 21;
    expect(alone).toBeGreaterThanOrEqual(40);
    expect(alone).toBeLessThanOrEqual(66);
  });

  it('is compared for eight requests of a run at most', async () => {
    const { model, runs } = rowModel(root, COMPARED);
    await scoreRecords(oneRowEach(new Array(50).fill(-1)), depsFor(model, HARDLY), enoughTime());
    expect(runs.map(({ length }) => length).toSorted((a, b) => b - a)).toEqual([50, ...new Array(8).fill(1)]);
  });

  it('is compared for numbers in base64, too', async () => {
    const { model } = rowModel(root, { ...COMPARED, maxBatchRows: 6000 });
    const deps = depsFor(model, HARDLY);
    const sent = [-1, -4].map((value) => {
      const raw_input_contents = [Buffer.from(new Float32Array(3000).fill(value).buffer).toString('base64')];
      return { inputs: [{ name: 'x', datatype: 'FP32', shape: [3000, 1] }], raw_input_contents };
    });
    await scoreRecords(standardRecords(sent), deps, enoughTime());
    expect([deps.problems, deps.mismatches, deps.reports.length, deps.checksMs.length]).toEqual([[], [], 1, 2]);
  });

  it('is not odd where the request itself has a NaN', async () => {
    const { model, runs } = rowModel(LINE, COMPARED);
    const deps = depsFor(model, HARDLY);
    await scoreRecords(oneRowEach([1]), again(deps), enoughTime());
    const sent = { inputs: [{ name: 'x', datatype: 'FP32', shape: [1, 1], data: ['NaN'] }] };
    await scoreRecords(standardRecords([lineRequest([1]), sent]), deps, enoughTime());
    expect([answers(deps, 2), runs.length]).toEqual([[3, 'NaN'], 2]);
  });
});

describe('a request that was cut into several runs', () => {
  const ofFour = (runMs: number) => {
    const measured = [1, 4, 16].map((rows) => ({ rows, length: 1, ms: runMs }));
    return { ...COMPARED, maxBatchRows: 4, runMs, measured };
  };

  it('is compared whole, and answered with the run of all its rows if that differs', async () => {
    const { model, runs } = rowModel(SHARE_OF_LARGEST, ofFour(1));
    const deps = depsFor(model, 1);
    const nine = [...upTo(8), 10];
    await scoreRecords(standardRecords([lineRequest(nine)]), deps, enoughTime());
    const shares = nine.map((value) => Math.fround(value / 10));
    expect((answerTo(deps.writer, 0) as number[]).map(Math.fround)).toEqual(shares);
    expect(runs.toSorted((a, b) => a.length - b.length)).toEqual([[10], [1, 2, 3, 4], [5, 6, 7, 8], nine]);
    expect(deps.mismatches).toHaveLength(1);
    const before = runs.length;
    await scoreRecords(standardRecords([lineRequest(nine)]), again(deps), enoughTime());
    expect(runs.slice(before)).toEqual([nine]);
  });

  it('is answered with its runs if they agree, for no more than the share', async () => {
    const { model, runs } = rowModel(LINE, ofFour(3));
    const deps = depsFor(model, 0.1);
    for (let time = 0; time < 20; time++)
      await scoreRecords(standardRecords([lineRequest(upTo(9))]), again(deps), enoughTime());
    const whole = runs.filter(({ length }) => length === 9).length;
    expect([deps.mismatches, deps.checksMs.length]).toEqual([[], whole]);
    expect(whole).toBeGreaterThan(3);
    expect(whole).toBeLessThanOrEqual(7);
  });

  it('is not compared if it was cut because its elements do not fit into one run', async () => {
    const { model, runs } = rowModel(LINE, ofFour(1));
    const deps = depsFor(model, 1, { limits: { maxBatchElements: 8 } });
    await scoreRecords(standardRecords([lineRequest(upTo(9))]), deps, enoughTime());
    expect([runs.map(({ length }) => length), deps.checksMs]).toEqual([[4, 4, 1], []]);
  });
});

describe('a comparison', () => {
  const TEN_A_RUN = { ...COMPARED, runMs: 10, measured: [1, 4].map((rows) => ({ rows, length: 1, ms: 10 })) };

  it.each([
    ['takes an eighth of the time left at most', 1, 79, 81],
    ['leaves the margin before the deadline alone', 500, 999, 1000],
  ])('%s', async (_, deadlineMarginMs, tooLittleMs, enoughMs) => {
    const { model, runs } = rowModel(LINE, TEN_A_RUN);
    const deps = depsFor(model, 1, { limits: { deadlineMarginMs } });
    const score = (leftMs: number) =>
      scoreRecords(oneRowEach([1, 2, 3, 4]), again(deps), { ...enoughTime(), remainingMs: () => leftMs });
    expect(statuses(await score(tooLittleMs))).toEqual(new Array(4).fill('answered'));
    expect(runs).toHaveLength(1);
    await score(enoughMs);
    expect(runs).toHaveLength(1 + 2);
  });

  it('that fails is no fault of its record, and says nothing', async () => {
    const { model } = rowModel(LINE, COMPARED);
    const picky: Model = {
      ...model,
      async run(inputs) {
        if (inputs[0]?.shape[0] === 1) throw new Error('expected two rows or more');
        return model.run(inputs);
      },
    };
    const deps = depsFor(picky, 1);
    await scoreRecords(oneRowEach([1, 2, 3]), deps, enoughTime());
    expect([answers(deps, 3), deps.mismatches, deps.problems]).toEqual([[3, 5, 7], [], []]);
  });
});
