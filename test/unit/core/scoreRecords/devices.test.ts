import { describe, expect, it } from '@jest/globals';
import type { Model } from '../../../../lambda/core/model.ts';
import { createBatchingWatch } from '../../../../lambda/core/verify.ts';
import { scoreRecords } from '../../../../lambda/hosts/records.ts';
import { createPool } from '../../../../lambda/onnx/session.ts';
import { closedGate, whatCanHappen } from '../../../helpers/manualClock.ts';
import {
  enoughTime,
  type InMemoryModelOptions,
  lineModel,
  repositoryOf,
  scoringDependencies,
} from '../../../helpers/scoring.ts';
import { answerTo, statuses } from './answers.ts';
import { answers, depsFor, oneRowEach, upTo } from './watched.ts';

/** Of one run: the device, and its values. */
type Run = readonly [device: number, values: readonly number[]];

/**
 * The line model on several devices.
 *
 * @param error what each device adds to its answers, as a share
 * @param before sees each run on its device
 */
function onDevices(
  devices: number,
  options: InMemoryModelOptions = {},
  { error = () => 0, before = async () => {} }: { error?: (device: number) => number; before?: Before } = {},
) {
  const runs: Run[] = [];
  const one = lineModel(options);
  const pool = createPool(devices);
  const run: Model['run'] = (inputs, signal, wanted) => {
    const values = Array.from(inputs[0]?.data as Float32Array);
    const onDevice = async (device: number) => {
      runs.push([device, values]);
      await before(device, values, signal);
      const { outputs, runMs } = await one.run(inputs);
      const rounded = outputs.map((output) => ({
        ...output,
        data: (output.data as Float32Array).map((y) => y * (1 + error(device))),
      }));
      return { outputs: rounded, runMs, device };
    };
    return pool.run(onDevice, signal, wanted);
  };
  return { model: { ...one, devices, run }, runs };
}

type Before = (device: number, values: readonly number[], signal: AbortSignal | undefined) => Promise<unknown>;

const SIX = oneRowEach([0, 1, 2, 3, 4, 5]);

describe('a model on several devices', () => {
  it('has a run on each at the same time, and one micro-batch more for each in its pipe', async () => {
    const gate = closedGate();
    const { model, runs } = onDevices(2, { maxBatchRows: 1 }, { before: () => gate.opened });
    let asked = 0;
    const watched: Model = {
      ...model,
      run(...given) {
        asked += 1;
        return model.run(...given);
      },
    };
    const deps = scoringDependencies({ models: repositoryOf(watched) });

    const scoring = scoreRecords(SIX, deps, enoughTime());
    await whatCanHappen();
    const before = [asked, runs.map(([device]) => device)];
    gate.open();
    const outcomes = await scoring;

    expect(before).toEqual([4, [0, 1]]);
    expect(statuses(outcomes)).toEqual(new Array(6).fill('answered'));
    expect(answers(deps as never, 6)).toEqual([1, 3, 5, 7, 9, 11]);
  });

  it.each([1, 2, 3])('starts on %d devices as many runs that take all the time that is left', async (devices) => {
    const gate = closedGate();
    const runMs = 100;
    const { model, runs } = onDevices(
      devices,
      { maxBatchRows: 1, measured: [{ rows: 1, length: 1, ms: runMs }] },
      { before: () => gate.opened },
    );
    const deps = scoringDependencies({ models: repositoryOf(model), limits: { deadlineMarginMs: 1 }, now: () => 0 });

    const scoring = scoreRecords(SIX, deps, { ...enoughTime(), remainingMs: () => 1.5 * runMs });
    await whatCanHappen();
    gate.open();
    const outcomes = statuses(await scoring);

    expect(runs.map(([device]) => device)).toEqual(upTo(devices).map((device) => device - 1));
    expect(outcomes.filter((status) => status === 'DEADLINE')).toHaveLength(6 - devices);
  });
});

describe('checks of a model on several devices', () => {
  const COMPARED = { sharing: 'compared', maxBatchRows: 3 } as const;

  it('do not take for mixing what two devices round differently', async () => {
    const { model, runs } = onDevices(2, COMPARED, { error: (device) => device / 10 });
    const deps = depsFor(model, 1);

    await scoreRecords(SIX, deps, enoughTime());

    expect(new Set(runs.map(([device]) => device))).toEqual(new Set([0, 1]));
    expect(deps.mismatches).toEqual([]);
    expect(statuses(await scoreRecords(SIX, deps, enoughTime()))).toEqual(new Array(6).fill('answered'));
  });

  it('find a model that mixes rows on one device alone', async () => {
    const { model } = onDevices(2, COMPARED);
    const mixing: Model = {
      ...model,
      async run(inputs, signal, wanted) {
        const ran = await model.run(inputs, signal, wanted);
        const { data, shape } = ran.outputs[0] as { data: Float32Array; shape: readonly number[] };
        if (ran.device === 1 && (shape[0] as number) > 1) data.fill(0);
        return ran;
      },
    };
    const deps = scoringDependencies({ models: repositoryOf(mixing), batching: createBatchingWatch(1) });

    await scoreRecords(SIX, deps, enoughTime());

    expect(deps.mismatches).toHaveLength(1);
    expect(upTo(6).map((record) => answerTo(deps.writer, record - 1))).toEqual([[1], [3], [5], [7], [9], [11]]);
  });
});
