import { describe, expect, it } from '@jest/globals';
import type { Model } from '../../../../lambda/core/model.ts';
import { scoreRecords } from '../../../../lambda/hosts/records.ts';
import { enoughTime } from '../../../helpers/scoring.ts';
import { statuses } from './answers.ts';
import { DISTURBED_BY_LARGE, LINE, type OfRow, rowModel, SHARE_OF_LARGEST } from './mixingModels.ts';
import { again, answers, depsFor, oneRowEach, upTo } from './watched.ts';

const PROVED = { independence: 'proved' } as const;

describe('later micro-batches', () => {
  it('are checked too: what differs then stops batching, and is not written', async () => {
    const { model, runs } = rowModel(DISTURBED_BY_LARGE, PROVED);
    const deps = depsFor(model, 1);
    await scoreRecords(oneRowEach(upTo(70)), again(deps), enoughTime());
    expect(deps.mismatches).toEqual([]);
    await scoreRecords(oneRowEach([5, 2000, 7]), deps, enoughTime());
    expect(answers(deps, 3)).toEqual([11, 4001, 15]);
    expect(deps.mismatches).toHaveLength(1);
    const before = runs.length;
    await scoreRecords(oneRowEach([5, 6]), again(deps), enoughTime());
    expect(runs.slice(before)).toEqual([[5], [6]]);
  });

  it.each([0.01, 0.1])('have %d of the run time for their checks', async (share) => {
    const { model, runs } = rowModel(LINE, { ...PROVED, runMs: 3, maxBatchRows: 10 });
    const deps = depsFor(model, share);
    await scoreRecords(oneRowEach(upTo(100)), again(deps), enoughTime());
    const [early, earlyChecks] = [deps.reports.length, deps.checksMs.length];
    for (let time = 0; time < 50; time++) {
      await scoreRecords(oneRowEach(upTo(100)), again(deps), enoughTime());
    }
    const runMs = 3 * (deps.reports.length - early);
    const checkMs = deps.checksMs.slice(earlyChecks).reduce((sum, ms) => sum + ms, 0);
    expect(checkMs).toBeLessThanOrEqual(share * runMs);
    expect(checkMs).toBeGreaterThan(0.7 * share * runMs);
    expect(new Set(runs.filter(({ length }) => length === 1).flat()).size).toBeGreaterThan(4);
  });

  it.each([
    ['a share of 0', 'proved', 0],
    ['a model that is trusted', 'trusted', 0.5],
  ] as const)('are not checked with %s, nor is the first one', async (_, independence, share) => {
    const { model, runs } = rowModel(SHARE_OF_LARGEST, { independence });
    const deps = depsFor(model, share);
    await scoreRecords(oneRowEach([1, 2, 4]), deps, enoughTime());
    expect(runs).toEqual([[1, 2, 4]]);
    expect([answers(deps, 3), deps.checksMs]).toEqual([[0.25, 0.5, 1], []]);
  });
});

describe('a small difference between a request alone and among others', () => {
  const almostOne = Math.fround(1 - 2 ** -24);
  const found = async (ofRow: OfRow) => {
    const deps = depsFor(rowModel(ofRow, PROVED).model);
    await scoreRecords(oneRowEach([0.25, almostOne, 0.5]), deps, enoughTime());
    return {
      differing: deps.mismatches.map(({ maxRows }) => maxRows),
      second: Math.fround(Number(answers(deps, 3)[1])),
    };
  };

  it('is rounding where the answer to inputs that are rounded differs as much', async () => {
    const steps: OfRow = (values, row) =>
      Math.floor(200 * (values[row] as number) * (values.length > 1 ? 1 + 2 ** -22 : 1)) / 200;
    expect(await found(steps)).toEqual({ differing: [], second: 1 });
  });

  it('is the number of rows elsewhere: then no more share a run than were seen to change nothing', async () => {
    const counted: OfRow = (values, row) => (values[row] as number) + (values.length > 1 ? 0.005 : 0);
    expect(await found(counted)).toEqual({ differing: [1], second: almostOne });
  });

  it("is the neighbours' doing where copies of the request get another answer in such a run", async () => {
    const mixed: OfRow = (values, row) => (values[row] as number) + 0.001 * Math.min(...values);
    expect(await found(mixed)).toEqual({ differing: [1], second: Math.fround(almostOne * 1.001) });
  });
});

describe('a check', () => {
  const TEN_A_RUN = {
    runMs: 10,
    measured: [
      { rows: 1, length: 1, ms: 10 },
      { rows: 4, length: 1, ms: 10 },
    ],
  };

  it.each([
    [79, 0],
    [81, 2],
  ])('takes an eighth of the time left at most: with %d ms left, %d runs of 10 ms', async (leftMs, checks) => {
    const { model, runs } = rowModel(LINE, { ...PROVED, ...TEN_A_RUN });
    const deps = depsFor(model, 0.01, { limits: { deadlineMarginMs: 1 } });
    const time = { ...enoughTime(), remainingMs: () => leftMs };
    expect(statuses(await scoreRecords(oneRowEach([1, 2, 3, 4]), deps, time))).toEqual(new Array(4).fill('answered'));
    expect(runs.length).toBe(1 + checks);
  });

  it('leaves the margin before the deadline alone', async () => {
    const { model, runs } = rowModel(LINE, { ...PROVED, ...TEN_A_RUN });
    const deps = depsFor(model, 0.01, { limits: { deadlineMarginMs: 500 } });
    const score = (leftMs: number) =>
      scoreRecords(oneRowEach([1, 2, 3, 4]), again(deps), {
        ...enoughTime(),
        remainingMs: () => leftMs,
      });
    await score(999);
    expect(runs).toHaveLength(1);
    await score(1000);
    expect(runs).toHaveLength(1 + 1 + 4);
  });

  it('that fails is no fault of its record, and says nothing', async () => {
    const { model } = rowModel(LINE, PROVED);
    const picky: Model = {
      ...model,
      async run(inputs) {
        if (inputs[0]?.shape[0] === 1) throw new Error('expected two rows or more');
        return model.run(inputs);
      },
    };
    const deps = depsFor(picky);
    await scoreRecords(oneRowEach([1, 2, 3]), deps, enoughTime());
    expect([answers(deps, 3), deps.mismatches, deps.problems]).toEqual([[3, 5, 7], [], []]);
  });
});
