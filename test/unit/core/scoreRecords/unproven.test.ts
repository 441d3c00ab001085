import { describe, expect, it } from '@jest/globals';
import type { Model } from '../../../../lambda/core/model.ts';
import { scoreRecords } from '../../../../lambda/hosts/records.ts';
import { enoughTime } from '../../../helpers/scoring.ts';
import { LINE, type OfRow, rowModel, SHARE_OF_LARGEST } from './mixingModels.ts';
import { again, answers, batched, depsFor, oneRowEach, upTo } from './watched.ts';

describe('a model of which nothing is known', () => {
  const UNPROVEN = { independence: 'unproven' } as const;

  it('is batched once 64 rows that differ got the same alone and together', async () => {
    const { model, runs } = rowModel(LINE, UNPROVEN);
    const deps = depsFor(model);
    const score = async (values: readonly number[]) => {
      const before = runs.length;
      const own = again(deps);
      await scoreRecords(oneRowEach(values), own, enoughTime());
      expect(answers(own, values.length)).toEqual(values.map((value) => 2 * value + 1));
      return runs.slice(before).map(({ length }) => length);
    };
    expect(await score(upTo(63))).toEqual([...new Array(63).fill(1), 63]);
    expect(deps.reports.map(({ rows }) => rows)).toEqual(new Array(63).fill(1));
    expect(await score([1])).toEqual([1]);
    expect(await score([1, 2])).toEqual([1, 1, 2]);
    // The first micro-batch is checked as that of any model.
    expect((await score(upTo(20)))[0]).toBe(20);
    expect(deps.mismatches).toEqual([]);
  });

  it('is not proved by one row again and again', async () => {
    const { model, runs } = rowModel(LINE, UNPROVEN);
    await scoreRecords(oneRowEach(new Array(200).fill(3)), depsFor(model), enoughTime());
    expect(batched(runs)).toEqual([]);
  });

  it.each<[string, OfRow]>([
    ['rows depend on each other', SHARE_OF_LARGEST],
    ['its answers are random', () => Math.random()],
  ])('stays unbatched where %s, which is told once, and writes nothing but what rows get alone', async (_, ofRow) => {
    const { model, runs } = rowModel(ofRow, UNPROVEN);
    const deps = depsFor(model);
    await scoreRecords(oneRowEach(upTo(70)), deps, enoughTime());
    expect(deps.mismatches).toMatchObject([{ wasBatched: false }]);
    expect(deps.reports.map(({ rows }) => rows)).toEqual(new Array(70).fill(1));
    const before = runs.length;
    await scoreRecords(oneRowEach(upTo(70)), again(deps), enoughTime());
    expect([batched(runs.slice(before)), deps.mismatches.length]).toEqual([[], 1]);
  });

  it('stays unbatched where the share is 0', async () => {
    const { model, runs } = rowModel(LINE, UNPROVEN);
    const deps = depsFor(model, 0);
    await scoreRecords(oneRowEach(upTo(100)), deps, enoughTime());
    expect([runs.length, batched(runs), deps.checksMs]).toEqual([100, [], []]);
  });

  it('stays unbatched where running rows together fails again and again, and costs no more then', async () => {
    const { model, runs } = rowModel(LINE, UNPROVEN);
    let together = 0;
    const oneRowOnly: Model = {
      ...model,
      async run(inputs) {
        if (inputs[0]?.shape[0] === 1) return model.run(inputs);
        together += 1;
        throw new Error('expected one row');
      },
    };
    const deps = depsFor(oneRowOnly);
    for (let time = 0; time < 100; time++) {
      await scoreRecords(oneRowEach([1, 2]), again(deps), enoughTime());
    }
    expect([runs.length, together, deps.problems]).toEqual([200, 64, []]);
  });

  it('has no row proved where time is short, and is answered all the same', async () => {
    const { model, runs } = rowModel(LINE, UNPROVEN);
    const deps = depsFor(model, 0.01, { limits: { deadlineMarginMs: 500 } });
    await scoreRecords(oneRowEach([1, 2, 3]), deps, { ...enoughTime(), remainingMs: () => 600 });
    expect([answers(deps, 3), runs]).toEqual([
      [3, 5, 7],
      [[1], [2], [3]],
    ]);
  });
});
