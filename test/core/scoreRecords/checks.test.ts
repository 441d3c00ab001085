import { describe, expect, it } from '@jest/globals';
import type { Model } from '../../../lambda/core/contract/model.ts';
import { createBatchingWatch } from '../../../lambda/core/run/batchingWatch.ts';
import { scoreRecords } from '../../../lambda/core/scoreRecords.ts';
import {
  enoughTime,
  memoryWriter,
  repositoryOf,
  type ScoringOptions,
  scoringDependencies,
  tokensModel,
} from '../../helpers/models.ts';
import { fifoRecords, lineRequest, messageIdOf, standardRecords, tokensRequest } from '../../helpers/records.ts';
import { answerTo, statuses } from './answers.ts';
import { DISTURBED_BY_LARGE, LINE, type OfRow, rowModel, SHARE_OF_LARGEST } from './mixingModels.ts';

const ALL_THE_TIME = 1;
const PROVED = { independence: 'proved' } as const;

function depsFor(model: Model, share = 0.01, options: ScoringOptions = {}) {
  return scoringDependencies({ models: repositoryOf(model), batching: createBatchingWatch(share), ...options });
}

/** The same process later on, with results of its own. */
function again(deps: ReturnType<typeof depsFor>) {
  return { ...deps, writer: memoryWriter() };
}

function oneRowEach(values: readonly number[]) {
  return standardRecords(values.map((value) => lineRequest([value])));
}

function upTo(count: number): number[] {
  return Array.from({ length: count }, (_, index) => index + 1);
}

/** What each of the records is answered, in one list. */
function answers(deps: ReturnType<typeof depsFor>, records: number): unknown[] {
  return upTo(records).flatMap((number) => answerTo(deps.writer, number - 1) as unknown);
}

/** The runs of more than one row. */
function batched(runs: readonly (readonly number[])[]) {
  return runs.filter(({ length }) => length > 1);
}

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
        difference: { output: 'y', share: expect.any(Number), detail: expect.any(String) },
        wasBatched: true,
      },
    ]);
    const before = runs.length;
    await scoreRecords(records, again(deps), enoughTime());
    expect(batched(runs.slice(before))).toEqual([]);
    expect(deps.mismatches).toHaveLength(1);
  });

  it('names the message whose row differs', async () => {
    const { model } = rowModel((values, row) => (row === 2 ? (values[0] as number) : 0), PROVED);
    const deps = depsFor(model);
    await scoreRecords(oneRowEach([5, 6, 7]), deps, enoughTime());
    expect(deps.mismatches.map(({ messageId }) => messageId)).toEqual([messageIdOf(2)]);
  });

  it('is answered from its one run where rows are independent, a few of them run again', async () => {
    const { model, runs } = rowModel(LINE, { ...PROVED, runMs: 1 });
    const one: Model = {
      ...model,
      run: async (inputs) => ({ ...(await model.run(inputs)), runMs: inputs[0]?.shape[0] ?? 0 }),
    };
    const deps = depsFor(one);
    await scoreRecords(oneRowEach(upTo(100)), deps, enoughTime());
    expect(answers(deps, 100)).toEqual(upTo(100).map((value) => 2 * value + 1));
    expect(runs.map(({ length }) => length)).toEqual([100, ...new Array(8).fill(1)]);
    expect(new Set(runs.slice(1).flat()).size).toBe(8);
    expect(deps.reports.map(({ rows }) => rows)).toEqual([100]);
    expect([deps.checksMs, deps.mismatches]).toEqual([[8], []]);
  });

  it('has its own time again for checks at most, and one row at least', async () => {
    const { model, runs } = rowModel(LINE, { ...PROVED, runMs: 30, measured: [{ rows: 1, length: 1, ms: 30 }] });
    await scoreRecords(oneRowEach(upTo(30)), depsFor(model), enoughTime());
    expect(runs.map(({ length }) => length)).toEqual([30, 1]);
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
  ])('is not answered where integers depend %s', async (_, ofRow) => {
    const { model } = rowModel(ofRow, PROVED, 'INT64');
    const deps = depsFor(model);
    await scoreRecords(oneRowEach(upTo(9)), deps, enoughTime());
    expect(answers(deps, 9)).toEqual(new Array(9).fill(ofRow([0], 0)));
    expect(deps.mismatches).toHaveLength(1);
  });

  it('is not answered where padding changes a row', async () => {
    const masked = tokensModel(PROVED);
    const leaking: Model = {
      ...masked,
      async run(inputs) {
        const [rows = 0, length = 0] = inputs[0]?.shape ?? [];
        const { outputs, runMs } = await masked.run(inputs);
        const [, doubled] = outputs as [unknown, (typeof outputs)[number]];
        return {
          outputs: [
            { name: 'total', datatype: 'FP32', shape: [rows], data: new Float32Array(rows).fill(length) },
            doubled,
          ],
          runMs,
        };
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

  it('of requests of different lengths is answered where padding changes nothing', async () => {
    const deps = depsFor(tokensModel(PROVED));
    await scoreRecords(
      standardRecords([[1], [2, 3, 4], [5, 6, 7, 8]].map((row) => tokensRequest([row]))),
      deps,
      enoughTime(),
    );
    expect([answers(deps, 3), deps.mismatches, deps.reports.length]).toEqual([[1, 9, 26], [], 1]);
  });

  it('is answered where only the order of a sum turns a label', async () => {
    // One row in nine is between two labels: with others or copies of itself it gets the other one.
    const { model, runs } = rowModel(
      (values, row) => (values[row] === 5 && values.length > 1 ? 1 : 0),
      PROVED,
      'INT64',
    );
    const deps = depsFor(model, ALL_THE_TIME);
    for (let time = 0; time < 3; time++) await scoreRecords(oneRowEach(upTo(8)), again(deps), enoughTime());
    expect(deps.mismatches).toEqual([]);
    expect(batched(runs).filter((values) => values.every((value) => value === 5))).not.toEqual([]);
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

describe('later micro-batches', () => {
  it('are checked too: what differs then stops batching, and is not written', async () => {
    const { model, runs } = rowModel(DISTURBED_BY_LARGE, PROVED);
    const deps = depsFor(model, ALL_THE_TIME);
    await scoreRecords(oneRowEach(upTo(8)), again(deps), enoughTime());
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
    for (let time = 0; time < 50; time++) {
      await scoreRecords(oneRowEach(upTo(100)), again(deps), enoughTime());
    }
    const runMs = 3 * deps.reports.length;
    const [, , ...later] = deps.checksMs;
    const checkMs = later.reduce((sum, ms) => sum + ms, 0);
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
    expect(runs).toHaveLength(4);
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

describe('rows that are run one by one', () => {
  const MIXING = () => rowModel(SHARE_OF_LARGEST, PROVED).model;

  it('are joined where they are of one request', async () => {
    const deps = depsFor(MIXING());
    await scoreRecords(standardRecords([lineRequest([1, 2, 3]), lineRequest([4])]), deps, enoughTime());
    expect([answerTo(deps.writer, 0), answerTo(deps.writer, 1)]).toEqual([[1, 1, 1], [1]]);
  });

  it('are answered in the packed message that they came in', async () => {
    const deps = depsFor(MIXING());
    await scoreRecords(standardRecords([[1, 2, 3].map((value) => lineRequest([value]))]), deps, enoughTime());
    expect(answerTo(deps.writer, 0)).toEqual([[1], [1], [1]]);
  });

  it('keep the order of their message groups', async () => {
    const deps = depsFor(MIXING());
    const records = fifoRecords(upTo(6).map((value) => [value % 2 === 0 ? 'a' : 'b', lineRequest([value])]));
    expect(statuses(await scoreRecords(records, deps, enoughTime()))).toEqual(new Array(6).fill('answered'));
    expect(answers(deps, 6)).toEqual(new Array(6).fill(1));
  });

  it('may have come before', async () => {
    const deps = depsFor(MIXING());
    const records = oneRowEach(upTo(6)).map((record, index) => ({
      ...record,
      attributes: { ...record.attributes, ApproximateReceiveCount: String(1 + (index % 3)) },
    }));
    await scoreRecords(records, deps, enoughTime());
    expect(answers(deps, 6)).toEqual(new Array(6).fill(1));
  });

  it('fail alone', async () => {
    const { model } = rowModel(LINE, {
      independence: 'unproven',
      before: ([x]) => {
        if (Array.from(x?.data as Float32Array).includes(2)) throw new Error('cannot score 2');
      },
    });
    const deps = depsFor(model);
    await scoreRecords(oneRowEach([1, 2, 3]), deps, enoughTime());
    expect(upTo(3).map((number) => answerTo(deps.writer, number - 1))).toEqual([[3], 'RUN_FAILED', [7]]);
  });

  it('are handed back where there is no time for them', async () => {
    const { model } = rowModel(LINE, {
      independence: 'unproven',
      measured: [{ rows: 1, length: 1, ms: 100 }],
      runMs: 100,
    });
    let left = 800;
    const slow: Model = {
      ...model,
      run: async (inputs) => {
        left -= 100;
        return model.run(inputs);
      },
    };
    const deps = depsFor(slow, 0.01, { limits: { deadlineMarginMs: 500 } });
    const outcomes = await scoreRecords(oneRowEach(upTo(5)), deps, { ...enoughTime(), remainingMs: () => left });
    expect(statuses(outcomes)).toEqual(['answered', 'answered', 'answered', 'DEADLINE', 'DEADLINE']);
  });

  it('are written together, as many as come during a write', async () => {
    let writes = 0;
    const writer = memoryWriter({
      before: () => {
        writes += 1;
        return new Promise((resolve) => setImmediate(resolve));
      },
    });
    const { model } = rowModel(LINE, { independence: 'unproven' });
    const deps = { ...depsFor(model), writer };
    const outcomes = await scoreRecords(oneRowEach(upTo(10_000)), deps, enoughTime());
    expect(outcomes.filter(({ status }) => status === 'answered')).toHaveLength(10_000);
    expect(writes).toBeLessThan(100);
  });
});
