import { describe, expect, it } from '@jest/globals';
import type { Model, TensorSpec } from '../../../../lambda/core/model.ts';

import { prepare, warmUp, withFixedLadder } from '../../../../lambda/onnx/warmUp.ts';
import { identityModel, oneRowOnlyModel } from '../../../helpers/onnxModels.ts';
import { openOnly } from '../../../helpers/openModels.ts';
import { failing, recordedModel } from '../../../helpers/recordedModel.ts';

const X: TensorSpec = { name: 'x', datatype: 'FP32', shape: ['batch', 3] };
const TOKENS: TensorSpec = { name: 'tokens', datatype: 'INT64', shape: ['batch', 'length'] };
const PLENTY = 4_194_304;

function raggedOver(lengths: readonly number[]): NonNullable<Model['ragged']> {
  return { name: 'length', inputs: [{ axis: 1, pad: 0 }], outputs: [1], ladder: lengths };
}

async function onGpu(model: Model, maxElements = PLENTY) {
  return withFixedLadder(await warmUp(model, true, true), maxElements);
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

    const { model: prepared } = await withFixedLadder(await warmUp(model, false), PLENTY);

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

  it('leaves a baked batch axis as it is', async () => {
    expect((await prepared(oneRowOnlyModel(), true)).model).toMatchObject({ ladder: [1], maxBatchRows: 1 });
  });
});
