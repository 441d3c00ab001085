import { describe, expect, it } from '@jest/globals';
import type { Model, TensorSpec } from '../../../../lambda/core/model.ts';

import { prepare } from '../../../../lambda/onnx/warmUp.ts';
import { recordedModel } from '../../../helpers/recordedModel.ts';

const X: TensorSpec = { name: 'x', datatype: 'FP32', shape: ['batch', 3] };

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
