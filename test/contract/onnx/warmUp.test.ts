import { describe, expect, it } from '@jest/globals';
import type { Model, TensorSpec } from '../../../lambda/core/model.ts';
import type { Tensor } from '../../../lambda/core/tensor.ts';
import { type PrepareOptions, prepare, recordRuns, timingProbes, warmUp } from '../../../lambda/onnx/warmUp.ts';
import { oneRowOnlyModel, rowsOnlyModel } from '../../helpers/onnxModels.ts';
import { counting, openOnly } from '../../helpers/openModels.ts';
import { failing, type RecordedModel, recordedModel, spec } from '../../helpers/scoring.ts';
import { requestOf } from '../../unit/core/requests.ts';

const X = spec('x', 'FP32', 'batch', 3);
const TOKENS = spec('tokens', 'INT64', 'batch', 'length');
const SENTENCE = spec('sentence', 'INT64', 'batch', 'length', 'width');

function raggedOver(...allowedSizes: readonly number[]): NonNullable<Model['ragged']> {
  return { name: 'length', inputs: [{ axis: 1, pad: 0n }], outputs: [1], allowedSizes };
}

const INDEPENDENT = { verdict: 'independent', operator: '', why: '' } as const;
const UNKNOWN = { verdict: 'unknown', operator: 'Thing', why: "Thing 'y'" } as const;
const OPTIONS: PrepareOptions = {
  sizes: true,
  batching: undefined,
  proof: INDEPENDENT,
  hasLoop: false,
  samples: [],
  loadMs: 1000,
  now: () => 0,
  onGpu: false,
  maxElements: 4_194_304,
  runLimitMs: 60_000,
};

/** Rows and length of every run, such as `8x16`. */
function sizesOf({ runs }: RecordedModel): string[] {
  return runs.map(([shape]) => (shape ?? []).slice(0, 2).join('x'));
}

describe('warmUp', () => {
  it.each([
    [512, ['1x3', '2x3']],
    [1, ['1x3']],
  ])('runs a model that takes up to %d rows at 1, and at 2 where it may', async (maxBatchRows, expected) => {
    const model = recordedModel([X], { maxBatchRows });

    expect(await warmUp(model, true)).toEqual({ model, sizes: {} });
    expect(sizesOf(model)).toEqual(expected);
  });

  it('makes short runs twice, of which the faster counts: the first run of a shape is slow', async () => {
    const model = recordedModel([X], { allowedSizes: [2, 8, 32] }, [40, 3, 60, 5, 7]);
    const recorded = recordRuns(model);

    await warmUp(recorded.model, true);

    expect(sizesOf(model)).toEqual(['2x3', '2x3', '8x3', '32x3', '32x3']);
    expect(recorded.measured().map(({ rows, ms }) => [rows, ms])).toEqual([
      [2, 3],
      [8, 60],
      [32, 5],
    ]);
  });

  it('runs every allowed row count at every allowed length of the ragged axis', async () => {
    const model = recordedModel([SENTENCE], { allowedSizes: [2, 8], ragged: raggedOver(4, 16) });
    const recorded = recordRuns(model);

    await warmUp(recorded.model, { width: 3 });

    expect(sizesOf(model)).toEqual(['2x4', '2x16', '8x4', '8x16']);
    expect(recorded.measured()[3]).toEqual({ rows: 8, length: 16, ms: 100 });
  });

  it('tries an empty past, as the first call of a decoder has it', async () => {
    const decoder = recordedModel([spec('past_key', 'FP32', 'batch', 'past_length', 'width')]);
    const hasPast = ([, past]: readonly number[]) => past !== 0;

    expect(await warmUp(failing(decoder, hasPast), true)).toMatchObject({ sizes: { past_length: 0, width: 1 } });
  });

  it('feeds zeros, and empty strings', async () => {
    const model = recordedModel([{ ...X, datatype: 'BYTES' }, SENTENCE], { allowedSizes: [1] });

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
  it('shows at the start: the model is run one row at a time from then on, with a warning', async () => {
    const { model, warnings } = await openOnly(oneRowOnlyModel());

    expect(model).toMatchObject({ maxBatchRows: 1 });
    expect((await model.run([counting('x', 1, 3)])).outputs[0]?.data).toEqual(Float32Array.of(1, 2, 3));
    expect(warnings).toEqual([
      expect.stringMatching(/model\.onnx: the batch axis is baked to 1: .*export the model with a dynamic batch axis/),
      expect.stringMatching(/model\.onnx: with 2 rows: .*cannot be reshaped/s),
    ]);
  });

  it('stops the start when the allowed sizes ask for more, naming the allowed size', async () => {
    await expect(openOnly(oneRowOnlyModel(), { allowedSizes: [1, 2] })).rejects.toThrow(
      /model\.onnx: expected the model to run at 2 rows, one of its allowed sizes, got: .*cannot be reshaped/s,
    );
  });

  it('shows too where it is of several rows: the model is run at that many from then on', async () => {
    const { model, warnings } = await openOnly(rowsOnlyModel(4));

    expect(model).toMatchObject({ maxBatchRows: 4, allowedSizes: [4], sharing: 'compared' });
    expect(warnings).toEqual([expect.stringMatching(/model\.onnx: the batch axis is baked to 4: /)]);
  });
});

describe('a model on a GPU', () => {
  const onGpu = (model: Model, more: Partial<PrepareOptions> = {}) =>
    prepare(model, { ...OPTIONS, onGpu: true, batching: 'trust', ...more });

  it('has allowed sizes of powers of two up to the most rows, tells it, and runs at each allowed size twice', async () => {
    const model = recordedModel([X], { maxBatchRows: 12 });

    const prepared = await onGpu(model);

    expect(prepared.model).toMatchObject({ allowedSizes: [1, 2, 4, 8, 12], maxBatchRows: 12 });
    expect(prepared.found).toMatch(/^its allowed sizes are 1, 2, 4, 8, 12; /);
    expect(sizesOf(model)).toEqual([1, 2, 4, 8, 12].flatMap((rows) => [`${rows}x3`, `${rows}x3`]));
    expect(prepared.measured.map(({ rows }) => rows)).toEqual([1, 2, 4, 8, 12]);
  });

  it.each<[title: string, limits: Parameters<typeof recordedModel>[1], more: Partial<PrepareOptions>, object]>([
    ['the one that config.json gives', { allowedSizes: [3, 7] }, {}, { allowedSizes: [3, 7] }],
    [
      'none whose inputs are too large',
      {},
      { maxElements: 100 },
      { allowedSizes: [1, 2, 4, 8, 16, 32], maxBatchRows: 512 },
    ],
    ['none where rows run alone', { maxBatchRows: 4 }, { batching: 'alone' }, { allowedSizes: [] }],
    [
      'one that is not run where the warm-up is off',
      { maxBatchRows: 4 },
      { sizes: false },
      { allowedSizes: [1, 2, 4] },
    ],
  ])('has as its allowed sizes %s', async (_, limits, more, expected) => {
    const { model, warnings } = await onGpu(recordedModel([X], limits), more);

    expect(model).toMatchObject(expected);
    expect(warnings).toEqual([]);
  });

  it('has no allowed sizes at which it does not run, and says so', async () => {
    const { model, warnings } = await onGpu(failing(recordedModel([X]), ([rows = 0]) => rows > 8));

    expect(model).toMatchObject({ allowedSizes: [1, 2, 4, 8], maxBatchRows: 8 });
    expect(warnings).toEqual(['a run has 8 rows at most, because one of 16 failed: cannot run [16, 3]']);
  });
});

describe('a row whose answer changes a little with its neighbours, in runs of one shape', () => {
  /** Answers with its input, larger by `share` where the row behind is above 0. */
  const nudgedBy = (share: number): Model => ({
    ...recordedModel([X], { maxBatchRows: 8 }),
    async run([x]) {
      const { data, shape } = x as Tensor & { readonly data: Float32Array };
      const y = data.map((value, index) => value * (1 + ((data[index + 3] ?? 0) > 0 ? share : 0)));
      return { outputs: [{ name: 'x', datatype: 'FP32', shape, data: y }], runMs: 100 };
    },
  });

  it.each([
    [5e-3, 'never'],
    [5e-4, 'compared'],
  ])('by %d of it, where the graph does not tell: %s', async (share, sharing) => {
    expect((await prepare(nudgedBy(share), { ...OPTIONS, proof: UNKNOWN })).model).toMatchObject({ sharing });
  });
});

describe('a model on several devices', () => {
  /** Prepares a model on three devices. @returns what it is then, and the row counts of the runs on each device */
  async function prepareOnDevices(options: Partial<PrepareOptions> = {}, failsOn?: number) {
    const runs: number[][] = [[], [], []];
    const one = recordedModel([X], { maxBatchRows: 4 }, [0.1]);
    const model: Model = {
      ...one,
      devices: 3,
      async run(inputs, _signal, device = -1) {
        runs[device]?.push(inputs[0]?.shape[0] ?? 0);
        if (device === failsOn) throw new Error('out of memory');
        return one.run(inputs);
      },
    };
    return { prepared: await prepare(model, { ...OPTIONS, onGpu: true, ...options }), runs };
  }

  it('is warm at every allowed size on each of them, and tried on the first', async () => {
    const { prepared, runs } = await prepareOnDevices({ proof: UNKNOWN });

    expect(prepared.model).toMatchObject({ allowedSizes: [1, 2, 4], sharing: 'compared', devices: 3 });
    expect(runs.slice(1)).toEqual(Array(2).fill([1, 1, 2, 2, 4, 4]));
    expect(runs[0]?.length).toBeGreaterThan(6);
  });

  it('is refused where it runs on the first alone, naming the other', async () => {
    await expect(prepareOnDevices({}, 2)).rejects.toThrow(
      'expected the model to run with 1 row on each of its devices, it failed on device number 3: out of memory',
    );
  });
});

describe('what runs take, at start', () => {
  /** Prepares a model whose runs take the time that they are said to take, on a clock of its own. */
  async function timed(
    input: TensorSpec,
    msOf: (rows: number, length: number) => number,
    limits: Partial<Model> = {},
    more: Partial<PrepareOptions> = {},
  ) {
    const clock = { ms: 0 };
    const runs: string[] = [];
    const echo = recordedModel([input], { maxBatchRows: 64 });
    const model: Model = {
      ...echo,
      ...limits,
      async run(inputs) {
        const [rows = 0, length = 1] = inputs[0]?.shape ?? [];
        runs.push(`${rows}x${length}`);
        const runMs = msOf(rows, length);
        clock.ms += runMs;
        return { ...(await echo.run(inputs)), runMs };
      },
    };
    const options: PrepareOptions = { ...OPTIONS, batching: 'trust', loadMs: 40_000, now: () => clock.ms, ...more };
    const { measured } = await prepare(model, options);
    const timesAt = (size: string): number => runs.filter((run) => run === size).length;
    return { measured, runs, timesAt, clock };
  }

  it('is measured at 1, 2, 4, … rows up to the most there may be, three times each', async () => {
    const { measured, runs } = await timed(X, (rows) => 0.1 + 0.01 * rows);

    expect(measured.map(({ rows }) => rows)).toEqual([1, 2, 4, 8, 16, 32, 64]);
    expect(runs).toHaveLength(21);
  });

  it('ends with the rows at which one takes clearly longer', async () => {
    const { timesAt } = await timed(X, (rows) => (rows > 8 ? 2 : 0.1) * rows);

    expect(['8x3', '16x3', '32x3'].map(timesAt)).toEqual([3, 3, 0]);
  });

  it('is measured for a quarter of the time that loading took', async () => {
    const { clock, measured } = await timed(X, (rows) => rows, {}, { loadMs: 400 });

    expect(clock.ms).toBeGreaterThan(50);
    expect(clock.ms).toBeLessThanOrEqual(100 + 6);
    expect(measured.map(({ rows }) => rows)).toEqual([1, 2, 4, 8, 16]);
  });

  it.each<[string, Partial<PrepareOptions>, Partial<Model>]>([
    ['rows may not share runs', { batching: 'alone' }, {}],
    ['its profile says what runs cost', {}, { measured: [{ rows: 1, length: 1, ms: 1 }] }],
    ['it has a fixed batch', {}, { allowedSizes: [2] }],
    ['nothing is to be run at start', { sizes: false, batching: undefined }, {}],
    ['another axis is open', { sizes: { height: 3 } }, { inputs: [spec('x', 'FP32', 'batch', 'height')] }],
  ])('is not measured where %s', async (_, more, limits) => {
    const { runs } = await timed(X, () => 100, limits, more);

    expect(runs.length).toBeLessThanOrEqual(2);
  });

  it('is measured with real requests where there are some, of three of their lengths, and with none in a loop', () => {
    const model = recordedModel([TOKENS], { ragged: raggedOver() });
    const samples = [5, 9, 2, 7, 30].map((length) =>
      requestOf(model, [{ datatype: 'INT64', shape: [1, length], data: new BigInt64Array(length) }]),
    );

    expect(timingProbes(model, samples, false).map(({ request }) => request.length)).toEqual([2, 7, 30]);
    expect(timingProbes(model, [], true)).toEqual([]);
  });
});
