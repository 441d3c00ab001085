import { describe, expect, it } from '@jest/globals';
import type { TensorSpec } from '../../../../lambda/core/model.ts';

import { warmUp } from '../../../../lambda/onnx/warmUp.ts';
import { meanOverBatchModel, oneRowOnlyModel, rowsOnlyModel } from '../../../helpers/onnxModels.ts';
import { counting, openOnly } from '../../../helpers/openModels.ts';
import { failing, recordedModel } from '../../../helpers/recordedModel.ts';

const X: TensorSpec = { name: 'x', datatype: 'FP32', shape: ['batch', 3] };
const SENTENCE: TensorSpec = { name: 'sentence', datatype: 'INT64', shape: ['batch', 'length', 'width'] };

describe('warmUp', () => {
  it('runs a model that takes any number of rows at 1 and at 2', async () => {
    const model = recordedModel([X]);

    const measured = [1, 2].map((rows) => ({ rows, length: 1, ms: 100 }));
    expect(await warmUp(model, true)).toEqual({ model, measured, sizes: {} });
    expect(model.runs).toEqual([[[1, 3]], [[2, 3]]]);
  });

  it('does not run a model at more rows than it may have', async () => {
    const model = recordedModel([X], { maxBatchRows: 1 });

    await warmUp(model, true);

    expect(model.runs).toEqual([[[1, 3]]]);
  });

  it('measures short runs twice and keeps the faster: the first run of a shape is slow', async () => {
    const model = recordedModel([X], { ladder: [2, 8, 32] }, [40, 3, 60, 5, 7]);

    const { measured } = await warmUp(model, true);

    expect(model.runs).toEqual([[[2, 3]], [[2, 3]], [[8, 3]], [[32, 3]], [[32, 3]]]);
    expect(measured).toEqual([
      { rows: 2, length: 1, ms: 3 },
      { rows: 8, length: 1, ms: 60 },
      { rows: 32, length: 1, ms: 5 },
    ]);
  });

  it('runs every rung once', async () => {
    const model = recordedModel([X], { ladder: [2, 8, 32] });

    await warmUp(model, true);

    expect(model.runs).toEqual([[[2, 3]], [[8, 3]], [[32, 3]]]);
  });

  const ragged = (ladder: readonly number[]) => ({
    name: 'length',
    inputs: [{ axis: 1, pad: 0n }],
    outputs: [1],
    ladder,
  });

  it('runs every rung of rows at every rung of the ragged axis', async () => {
    const model = recordedModel([SENTENCE], { ladder: [2, 8], ragged: ragged([4, 16, 64]) });

    const { measured } = await warmUp(model, { width: 3 });

    const rungs = [2, 8].flatMap((rows) => [4, 16, 64].map((length) => ({ rows, length })));
    expect(model.runs).toEqual(rungs.map(({ rows, length }) => [[rows, length, 3]]));
    expect(measured).toEqual(rungs.map((rung) => ({ ...rung, ms: 100 })));
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

    expect(await warmUp(model, false)).toEqual({ model, measured: [] });
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

describe('a loaded model', () => {
  it('carries what its warm-up runs took', async () => {
    const { model } = await openOnly(oneRowOnlyModel());

    expect(model.measured).toEqual([{ rows: 1, length: 1, ms: expect.any(Number) }]);
  });
});

describe('an output without a batch axis', () => {
  it('stops the start, naming the output and its shape', async () => {
    await expect(openOnly(meanOverBatchModel())).rejects.toThrow(
      /model\.onnx: output 'mean': expected axis 0 to be the batch axis, 2 rows, got shape \[1, 1\]/,
    );
  });
});
