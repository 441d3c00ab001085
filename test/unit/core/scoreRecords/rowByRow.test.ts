import { describe, expect, it } from '@jest/globals';
import type { Model } from '../../../../lambda/core/model.ts';
import { scoreRecords } from '../../../../lambda/hosts/records.ts';
import { closedGate, whatCanHappen } from '../../../helpers/manualClock.ts';
import { enoughTime, inMemoryModel, lineRequest, memoryWriter, standardRecords } from '../../../helpers/scoring.ts';
import { answerTo, statuses } from './answers.ts';
import { LINE, rowModel, SHARE_OF_LARGEST } from './mixingModels.ts';
import { depsFor, oneRowEach, upTo } from './watched.ts';

const ALONE = { sharing: 'never' } as const;

describe('requests that are run one by one', () => {
  it('are never cut, whatever a run may have of rows: they have as many as fit into a run', async () => {
    const { model, runs } = rowModel(SHARE_OF_LARGEST, { ...ALONE, maxBatchRows: 3 });
    const deps = depsFor(model, 0.01, { limits: { maxBatchElements: 5 } });
    const bodies = [[1, 2, 4], [4], [1, 2, 3, 4, 4], upTo(6)].map((values) => lineRequest(values));
    await scoreRecords(standardRecords(bodies), deps, enoughTime());
    expect([0, 1, 2, 3].map((record) => answerTo(deps.writer, record))).toEqual([
      [0.25, 0.5, 1],
      [1],
      [0.25, 0.5, 0.75, 1, 1],
      'TOO_MANY_ROWS',
    ]);
    expect(runs.toSorted((a, b) => a.length - b.length)).toEqual([[4], [1, 2, 4], [1, 2, 3, 4, 4]]);
  });

  it('are run whole where they were cut before their model was found out', async () => {
    // Of eight rows at most, a request of nine is cut; the first run's comparison stops batching.
    const { model, runs } = rowModel(SHARE_OF_LARGEST, { sharing: 'compared', maxBatchRows: 8 });
    const deps = depsFor(model, 1);
    const nine = [...upTo(8), 8];
    await scoreRecords(standardRecords([lineRequest([20]), lineRequest([40]), lineRequest(nine)]), deps, enoughTime());
    expect(upTo(3).map((record) => answerTo(deps.writer, record - 1))).toEqual([[1], [1], nine.map((x) => x / 8)]);
    expect([deps.mismatches.length, runs.filter(({ length }) => length === 9)]).toEqual([1, [nine]]);
  });

  it('wait where too much waits to be written', async () => {
    const gate = closedGate();
    const writer = memoryWriter({ before: () => gate.opened });
    let runs = 0;
    const wide = inMemoryModel(
      {
        inputs: [{ name: 'x', datatype: 'FP32', shape: ['batch', 1] }],
        outputs: [{ name: 'y', datatype: 'INT32', shape: ['batch', 50_000] }],
      },
      ([x]) => {
        const rows = x?.shape[0] ?? 0;
        runs += 1;
        return [{ name: 'y', datatype: 'INT32', shape: [rows, 50_000], data: new Int32Array(rows * 50_000) }];
      },
      ALONE,
    );
    const scoring = scoreRecords(oneRowEach(upTo(100)), { ...depsFor(wide, 0), writer }, enoughTime());
    while (runs < 40) await whatCanHappen();
    for (let turn = 0; turn < 100; turn++) await whatCanHappen();
    expect(runs).toBeLessThan(50);
    gate.open();
    expect(statuses(await scoring)).toEqual(new Array(100).fill('answered'));
  });

  it('are handed back where there is no time for them', async () => {
    const { model } = rowModel(LINE, {
      ...ALONE,
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
});
