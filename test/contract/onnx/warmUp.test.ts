import { describe, expect, it } from '@jest/globals';
import type { Model, TensorSpec } from '../../../lambda/core/model.ts';
import {
  type PrepareOptions,
  prepare,
  recordRuns,
  timeSizes,
  timingProbes,
  warmUp,
  withFixedLadder,
} from '../../../lambda/onnx/warmUp.ts';
import { inMemoryModel } from '../../helpers/models.ts';
import { identityModel, meanOverBatchModel, oneRowOnlyModel, rowsOnlyModel } from '../../helpers/onnxModels.ts';
import { counting, openOnly } from '../../helpers/openModels.ts';
import { failing, recordedModel } from '../../helpers/recordedModel.ts';
import { requestOf } from '../../unit/core/requests.ts';

const X: TensorSpec = { name: 'x', datatype: 'FP32', shape: ['batch', 3] };
const SENTENCE: TensorSpec = { name: 'sentence', datatype: 'INT64', shape: ['batch', 'length', 'width'] };

describe('warmUp', () => {
  it('runs a model that takes any number of rows at 1 and at 2', async () => {
    const model = recordedModel([X]);

    expect(await warmUp(model, true)).toEqual({ model, sizes: {} });
    expect(model.runs).toEqual([[[1, 3]], [[2, 3]]]);
  });

  it('does not run a model at more rows than it may have', async () => {
    const model = recordedModel([X], { maxBatchRows: 1 });

    await warmUp(model, true);

    expect(model.runs).toEqual([[[1, 3]]]);
  });

  it('measures short runs twice and keeps the faster: the first run of a shape is slow', async () => {
    const model = recordedModel([X], { ladder: [2, 8, 32] }, [40, 3, 60, 5, 7]);

    const recorded = recordRuns(model);
    await warmUp(recorded.model, true);

    expect(model.runs).toEqual([[[2, 3]], [[2, 3]], [[8, 3]], [[32, 3]], [[32, 3]]]);
    expect(recorded.measured()).toEqual([
      { rows: 2, length: 1, ms: 3 },
      { rows: 8, length: 1, ms: 60 },
      { rows: 32, length: 1, ms: 5 },
    ]);
  });

  const ragged = (ladder: readonly number[]) => ({
    name: 'length',
    inputs: [{ axis: 1, pad: 0n }],
    outputs: [1],
    ladder,
  });

  it('runs every rung of rows at every rung of the ragged axis', async () => {
    const model = recordedModel([SENTENCE], { ladder: [2, 8], ragged: ragged([4, 16, 64]) });

    const recorded = recordRuns(model);
    await warmUp(recorded.model, { width: 3 });

    const rungs = [2, 8].flatMap((rows) => [4, 16, 64].map((length) => ({ rows, length })));
    expect(model.runs).toEqual(rungs.map(({ rows, length }) => [[rows, length, 3]]));
    expect(recorded.measured()).toEqual(rungs.map((rung) => ({ ...rung, ms: 100 })));
  });

  it('tries axes without a size at 1, 4, 32 and 128', async () => {
    const model = recordedModel([SENTENCE]);

    const { sizes, problem } = await warmUp(
      failing(model, ([, length = 0]) => length < 32),
      { width: 3 },
    );

    expect(sizes).toEqual({ length: 32, width: 3 });
    expect(problem).toBeUndefined();
  });

  it('tries no sizes that are too much together', async () => {
    const shape = ['batch', 'frames', 'height', 'width', 'channels'];
    const model = recordedModel([{ name: 'video', datatype: 'FP32', shape }]);

    const { problem } = await warmUp(
      failing(model, ([, frames]) => frames !== 7),
      true,
    );

    expect(problem).toContain('warm-up with 1 rows of zeros failed: cannot run [1, 1, 1, 1, 1]');
  });

  it('runs nothing when it is switched off', async () => {
    const model = recordedModel([X], { ladder: [2, 8] });

    expect(await warmUp(model, false)).toEqual({ model });
    expect(model.runs).toEqual([]);
  });

  it('makes symbolic axes as long as it is told, and others 1', async () => {
    const model = recordedModel([SENTENCE, X], { ladder: [4] });

    await warmUp(model, { length: 128 });

    expect(model.runs).toEqual([
      [
        [4, 128, 1],
        [4, 3],
      ],
    ]);
  });

  it('feeds zeros, and empty strings', async () => {
    const model = recordedModel([{ ...X, datatype: 'BYTES' }, SENTENCE], { ladder: [1] });

    await warmUp(model, true);

    expect(model.values).toEqual([['', '', '', 0n]]);
  });

  it('refuses sizes for axes that no input has, the batch axis among them', async () => {
    await expect(warmUp(recordedModel([SENTENCE, X]), { batch: 4, length: 2, depth: 3 })).rejects.toThrow(
      'config.json, warmup: expected symbolic axes of the model (length, width), got batch, depth',
    );
    await expect(warmUp(recordedModel([X]), { length: 2 })).rejects.toThrow('(it has none), got length');
  });
});

describe('a batch axis that is dynamic in name only', () => {
  it('shows at the start: the model is run one row at a time from then on', async () => {
    const { model } = await openOnly(oneRowOnlyModel());

    expect(model).toMatchObject({ maxBatchRows: 1, ladder: [1] });
    expect((await model.run([counting('x', 1, 3)])).outputs[0]?.data).toEqual(Float32Array.of(1, 2, 3));
  });

  it('is warned of, with how to export it and what went wrong at 2 rows', async () => {
    const { warnings } = await openOnly(oneRowOnlyModel());

    expect(warnings).toEqual([
      expect.stringMatching(/model\.onnx: the batch axis is baked to 1: .*export the model with a dynamic batch axis/),
      expect.stringMatching(/model\.onnx: with 2 rows: .*cannot be reshaped/s),
    ]);
  });

  it('stops the start when the ladder asks for more, naming the rung', async () => {
    await expect(openOnly(oneRowOnlyModel(), { ladder: [1, 2] })).rejects.toThrow(
      /model\.onnx: expected the model to run at 2 rows, a rung of its ladder, got: .*cannot be reshaped/s,
    );
  });

  it('is warned of when it shows at the lowest rung', async () => {
    const { warnings } = await openOnly(oneRowOnlyModel(), { ladder: [2] });

    expect(warnings[0]).toMatch(/model\.onnx: warm-up with 2 rows of zeros failed: /);
  });

  it('shows too where it is of several rows: the model is run at that many from then on', async () => {
    const { model, warnings } = await openOnly(rowsOnlyModel(4));

    expect(model).toMatchObject({ maxBatchRows: 4, ladder: [4], independence: 'proved' });
    expect(warnings).toEqual([expect.stringMatching(/model\.onnx: the batch axis is baked to 4: /)]);
  });
});

describe('a loaded model', () => {});

describe('an output without a batch axis', () => {
  it('stops the start, naming the output and its shape', async () => {
    await expect(openOnly(meanOverBatchModel())).rejects.toThrow(
      /model\.onnx: output 'mean': expected axis 0 to be the batch axis, 2 rows, got shape \[1, 1\]/,
    );
  });
});

const TOKENS: TensorSpec = { name: 'tokens', datatype: 'INT64', shape: ['batch', 'length'] };
const PLENTY = 4_194_304;

function raggedOver(lengths: readonly number[]): NonNullable<Model['ragged']> {
  return { name: 'length', inputs: [{ axis: 1, pad: 0 }], outputs: [1], ladder: lengths };
}

async function onGpu(model: Model, maxElements = PLENTY) {
  const { model: recorded, measured } = recordRuns(model);
  const warm = await withFixedLadder(await warmUp(recorded, true, true), measured, maxElements);
  return { ...warm, measured: measured() };
}

describe('a model on a GPU', () => {
  it('has a ladder of powers of two up to the most rows, and runs at each rung twice', async () => {
    const model = recordedModel([X], { maxBatchRows: 12 });

    const { model: prepared, measured } = await onGpu(model);

    expect(prepared).toMatchObject({ ladder: [1, 2, 4, 8, 12], maxBatchRows: 12 });
    expect(model.runs.map(([shape]) => shape?.[0])).toEqual([1, 1, 2, 2, 4, 4, 8, 8, 12, 12]);
    expect(measured.map(({ rows }) => rows)).toEqual([1, 2, 4, 8, 12]);
  });

  it('is measured by the second run of a shape, however long the first takes', async () => {
    const { measured } = await onGpu(recordedModel([X], { maxBatchRows: 2 }, [9000, 3, 4000, 4]));

    expect(measured.map(({ ms }) => ms)).toEqual([3, 4]);
  });

  it('keeps the ladder that config.json gives it', async () => {
    const { model } = await onGpu(recordedModel([X], { ladder: [3, 7] }));

    expect(model.ladder).toEqual([3, 7]);
  });

  it('has no rungs whose inputs hold more elements than a run may', async () => {
    const { model, problem } = await onGpu(recordedModel([X], { maxBatchRows: 512 }), 100);

    expect(model).toMatchObject({ ladder: [1, 2, 4, 8, 16, 32], maxBatchRows: 512 });
    expect(problem).toBeUndefined();
  });

  it('has no rungs at which it does not run, and says so', async () => {
    const model = failing(recordedModel([X], { maxBatchRows: 512 }), ([rows = 0]) => rows > 8);

    const { model: prepared, problem } = await onGpu(model);

    expect(prepared).toMatchObject({ ladder: [1, 2, 4, 8], maxBatchRows: 8 });
    expect(problem).toBe('a run has 8 rows at most, because one of 16 failed: cannot run [16, 3]');
  });

  it('is run at every length of its own ladder too', async () => {
    const model = recordedModel([TOKENS], { maxBatchRows: 4, ragged: raggedOver([8, 16]) });

    await onGpu(model);

    expect(new Set(model.runs.map(([shape]) => shape?.join('×')))).toEqual(
      new Set(['1×8', '1×16', '2×8', '2×16', '4×8', '4×16']),
    );
  });

  it('costs what its runs took: less for fewer rows, whatever one slow run took', async () => {
    // Twice 10 ms, 40, 12 and 20 for 1, 2, 4 and 8 rows.
    const { model } = await onGpu(recordedModel([X], { maxBatchRows: 8 }, [10, 10, 40, 40, 12, 12, 20]));

    expect([1, 2, 4, 8].map((rows) => model.cost?.(rows, 1))).toEqual([10, 12, 12, 20]);
  });

  it('costs in proportion what was too large to be run', async () => {
    const ragged = raggedOver([1, 10]);
    const { model } = await onGpu(recordedModel([TOKENS], { maxBatchRows: 8, ragged }, [6]), 40);

    expect([4, 8].map((rows) => model.cost?.(rows, 10))).toEqual([6, 12]);
  });

  it('costs what its profile says, where it has one', async () => {
    const cost = (): number => 1;
    const { model } = await onGpu({ ...recordedModel([X], { maxBatchRows: 8 }), cost });

    expect(model.cost).toBe(cost);
  });

  it('has a ladder that is not run where the warm-up is off', async () => {
    const model = recordedModel([X], { maxBatchRows: 4 });

    const { model: prepared } = await withFixedLadder(await warmUp(model, false), () => [], PLENTY);

    expect(prepared.ladder).toEqual([1, 2, 4]);
    expect(model.runs).toEqual([]);
  });
});

describe('preparing a model', () => {
  const options = {
    sizes: true,
    batching: undefined,
    graph: { operators: new Map(), words: [], numbers: [] },
    samples: [],
    loadMs: 1000,
    now: () => performance.now(),
    maxElements: PLENTY,
    runLimitMs: 60_000,
  };

  async function prepared(bytes: Uint8Array, onGpu: boolean, given = {}) {
    const { model } = await openOnly(bytes, { maxBatchRows: 16, warmup: false, batching: 'trust' });
    return prepare({ ...model, independence: undefined }, { ...options, onGpu, ...given });
  }

  it('gives it a ladder on a GPU alone, and tells the rungs', async () => {
    const [there, here] = [await prepared(identityModel(), true), await prepared(identityModel(), false)];

    expect(there.model).toMatchObject({ ladder: [1, 2, 4, 8, 16], independence: 'proved' });
    expect(there.found).toMatch(/^its ladder is 1, 2, 4, 8, 16; rows are independent/);
    expect(here.model.ladder).toEqual([]);
  });

  it('gives it none where each row runs alone', async () => {
    expect((await prepared(identityModel(), true, { batching: 'alone' })).model.ladder).toEqual([]);
  });
});

/** Prepares a model on three cards. @returns what it is then, and the row counts of the runs on each card */
async function prepareOnCards(options: { onGpu?: boolean; sizes?: boolean; failsOn?: number } = {}) {
  const { onGpu = true, sizes = true, failsOn } = options;
  const runs: number[][] = [[], [], []];
  const one = recordedModel([X], { maxBatchRows: 4 }, [0.1]);
  const model: Model = {
    ...one,
    cards: 3,
    async run(inputs, _signal, card = -1) {
      runs[card]?.push(inputs[0]?.shape[0] ?? 0);
      if (card === failsOn) throw new Error('out of memory');
      return one.run(inputs);
    },
  };
  const prepared = await prepare(model, {
    sizes,
    batching: undefined,
    graph: { operators: new Map(), words: [], numbers: [] },
    samples: [],
    loadMs: 1000,
    now: () => performance.now(),
    onGpu,
    maxElements: 1_000,
    runLimitMs: 60_000,
  });
  return { prepared, runs };
}

describe('a model on several cards', () => {
  it('is warm at every rung on each of them, and checked on the first', async () => {
    const { prepared, runs } = await prepareOnCards();

    expect(prepared.model).toMatchObject({ ladder: [1, 2, 4], independence: 'proved', cards: 3 });
    expect(runs.slice(1)).toEqual([
      [1, 1, 2, 2, 4, 4],
      [1, 1, 2, 2, 4, 4],
    ]);
    expect(runs[0]?.length).toBeGreaterThan(6);
  });

  it('is run nowhere where the warm-up is off', async () => {
    expect((await prepareOnCards({ sizes: false })).runs).toEqual([[], [], []]);
  });

  it('is refused where it runs on the first alone, naming the other', async () => {
    await expect(prepareOnCards({ failsOn: 2 })).rejects.toThrow(
      'expected the model to run at 1 rows on each of its cards, got on the 3. of them: out of memory',
    );
  });
});

const TEXT: TensorSpec = { name: 'tokens', datatype: 'INT64', shape: ['batch', 'length'] };
const RAGGED = { name: 'length', inputs: [{ axis: 1, pad: 0n }], outputs: [1], ladder: [] };
const NOTHING_KNOWN = { operators: new Set<string>(), words: [], numbers: [] };

interface Timed {
  readonly model: Model;
  /** Rows and length of every run. */
  readonly runs: string[];
  readonly clock: { ms: number };
}

/** Gives back what it is given, in the time that it is said to take, on a clock of its own. */
function timed(spec: TensorSpec, msOf: (rows: number, length: number) => number, limits: Partial<Model> = {}): Timed {
  const runs: string[] = [];
  const clock = { ms: 0 };
  const echo = inMemoryModel({ inputs: [spec], outputs: [spec] }, ([x]) => (x ? [{ ...x, data: x.data.slice() }] : []));
  const model: Model = {
    ...echo,
    maxBatchRows: 64,
    measured: undefined,
    ...limits,
    async run(inputs) {
      const [rows = 0, length = 1] = inputs[0]?.shape ?? [];
      const runMs = msOf(rows, length);
      clock.ms += runMs;
      runs.push(`${rows}x${length}`);
      return { ...(await echo.run(inputs)), runMs };
    },
  };
  return { model, runs, clock };
}

async function timeAll({ model, clock }: Timed, limitMs: number, maxElements = 1_000_000) {
  const recorded = recordRuns(model);
  const probes = timingProbes(model, [], NOTHING_KNOWN as never);
  await timeSizes(recorded, { probes, maxElements, limitMs, now: () => clock.ms });
  return recorded.measured();
}

describe('what runs take, at start', () => {
  it('is measured at 1, 2, 4, … rows up to the most there may be, three times each', async () => {
    const of = timed(X, (rows) => 0.1 + 0.01 * rows);
    const measured = await timeAll(of, 40);
    expect(measured.map(({ rows }) => rows)).toEqual([1, 2, 4, 8, 16, 32, 64]);
    expect(of.runs).toHaveLength(21);
  });

  it('is measured at a short, a middling and a long length, small runs first', async () => {
    const of = timed(TEXT, (rows, length) => 0.001 * rows * length, { ragged: RAGGED, maxBatchRows: 4 });
    await timeAll(of, 1_000);
    expect(of.runs.slice(0, 9)).toEqual(['1x8', '2x8', '4x8', '1x32', '2x32', '4x32', '1x128', '2x128', '4x128']);
  });

  it('ends with the rows at which one takes clearly longer', async () => {
    const of = timed(X, (rows) => (rows > 8 ? 2 : 0.1) * rows);
    await timeAll(of, 10_000);
    expect(of.runs.filter((run) => run === '16x3')).toHaveLength(3);
    expect(of.runs.filter((run) => run === '32x3')).toHaveLength(1);
    expect(of.runs.filter((run) => run === '8x3')).toHaveLength(3);
  });

  it('leaves out what holds more elements than a run may', async () => {
    const of = timed(X, () => 1);
    await timeAll(of, 10_000, 30);
    expect(of.runs).not.toContain('16x3');
    expect(of.runs).toContain('8x3');
  });

  it('goes on with other lengths where one fails', async () => {
    let failed = 0;
    const of = timed(
      TEXT,
      (_, length) => {
        if (length === 128) failed += 1;
        if (length === 128) throw new Error('too long');
        return 1;
      },
      { ragged: RAGGED, maxBatchRows: 2 },
    );
    const measured = await timeAll(of, 1_000);
    expect(measured.map(({ rows, length }) => `${rows}x${length}`)).toEqual(['1x8', '2x8', '1x32', '2x32']);
    expect(failed).toBe(1);
  });

  it('does not run again as often what was run before', async () => {
    const of = timed(X, () => 1, { maxBatchRows: 2 });
    const recorded = recordRuns(of.model);
    const probes = timingProbes(of.model, [], NOTHING_KNOWN as never);
    const timingOptions = { probes, maxElements: 1_000, limitMs: 1_000, now: () => of.clock.ms };
    await timeSizes(recorded, timingOptions);
    await timeSizes(recorded, timingOptions);
    expect(of.runs).toHaveLength(6);
  });

  it('takes real requests where there are some, of three of their lengths', () => {
    const { model } = timed(TEXT, () => 1, { ragged: RAGGED });
    const samples = [5, 9, 2, 7, 30].map((length) =>
      requestOf(model, [{ datatype: 'INT64', shape: [1, length], data: new BigInt64Array(length) }]),
    );
    const lengths = timingProbes(model, samples, NOTHING_KNOWN as never).map(({ request }) => request.length);
    expect(lengths).toEqual([2, 7, 30]);
  });

  it('is not measured where another axis is open, or made-up values might keep a loop from ending', () => {
    const picture = timed({ ...X, shape: ['batch', 'height'] }, () => 1).model;
    expect(timingProbes(picture, [], NOTHING_KNOWN as never)).toEqual([]);
    const loop = { ...NOTHING_KNOWN, operators: new Set(['Loop']) };
    expect(timingProbes(timed(X, () => 1).model, [], loop as never)).toEqual([]);
  });
});

describe('a model that is loaded', () => {
  const timingOptions = (of: Timed, more: Partial<PrepareOptions> = {}): PrepareOptions => ({
    sizes: true,
    batching: 'trust',
    graph: NOTHING_KNOWN as never,
    samples: [],
    loadMs: 400,
    now: () => of.clock.ms,
    onGpu: false,
    maxElements: 1_000_000,
    runLimitMs: 60_000,
    ...more,
  });

  it('is timed for a quarter of the time that loading took', async () => {
    const of = timed(X, (rows) => rows);
    const { measured } = await prepare(of.model, timingOptions(of));
    expect(of.clock.ms).toBeGreaterThan(50);
    expect(of.clock.ms).toBeLessThanOrEqual(100 + 6);
    expect(measured.map(({ rows }) => rows)).toEqual([1, 2, 4, 8, 16, 32]);
  });

  it.each<[string, Partial<PrepareOptions>, Partial<Model>]>([
    ['rows may not share runs', { batching: 'alone' }, {}],
    ['its profile says what runs cost', {}, { cost: () => 1 }],
    ['it has a fixed batch', {}, { ladder: [2] }],
    ['nothing is to be run at start', { sizes: false, batching: undefined }, {}],
  ])('is not timed where %s', async (_, more, limits) => {
    const of = timed(X, () => 100, limits);
    await prepare(of.model, timingOptions(of, more));
    expect(new Set(of.runs).size).toBeLessThanOrEqual(2);
    expect(of.runs.length).toBeLessThanOrEqual(2);
  });
});
