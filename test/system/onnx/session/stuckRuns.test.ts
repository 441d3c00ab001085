import { once } from 'node:events';
import { setImmediate as turnOfTheLoop } from 'node:timers/promises';
import { beforeAll, describe, expect, it } from '@jest/globals';
import type { Model } from '../../../../lambda/core/model.ts';
import { type Finished, runScript } from '../../../helpers/command.ts';
import { turningModel } from '../../../helpers/onnxModels.ts';
import { alive, modelsDirectory, openOnly, tensor, watchThreads } from '../../../helpers/openModels.ts';
import type { HangingRuns } from './hangingRuns.ts';

/** Made-up rows might keep its loop from ending, so nothing would prove that they may share a run. */
const TRUSTED = { batching: 'trust' };

describe('a run that never ends', () => {
  let finished: Finished;
  let fates: HangingRuns;
  beforeAll(async () => {
    const bytes = turningModel();
    const directory = await modelsDirectory({
      'turns/1/model.onnx': bytes,
      'turns/config.json': TRUSTED,
      'other/1/model.onnx': bytes,
      'other/config.json': TRUSTED,
    });
    finished = await runScript('test/system/onnx/session/hangingRuns.ts', [directory]);
    fates = JSON.parse(finished.stdout);
  });

  it('is given up as soon as its signal says so', () => {
    expect(fates.abandoned).toBe('left behind');
  });

  it('leaves other models running', () => {
    expect(fates.otherModelMeanwhile).toBe(2);
  });

  it('leaves a fresh thread to the next run of its model', () => {
    expect(fates.nextOfThisModel).toBe(3);
  });

  it('has the runs behind it withdrawn by their own signals alone; the others go to the fresh thread', () => {
    expect(fates.behindAHang).toEqual(['withdrawn', 'left behind', 4]);
  });

  it('may come ten times in a row', () => {
    expect(fates.hangsInARow).toEqual(Array(10).fill('left behind'));
    expect(fates.afterThem).toBe(5);
  });

  it('counts as stuck, as the withdrawn do not', () => {
    expect(fates.stuckRuns).toBe(12);
  });

  it('keeps neither the repository from being closed nor the process from being ended, with its code', () => {
    expect(finished).toMatchObject({ code: 7, stderr: '' });
  });
});

/** About a second. */
const LONG = 500_000;

function turn(model: Model, turns: number, signal?: AbortSignal): Promise<unknown> {
  const running = model.run([tensor('turns', 'INT64', [1], BigInt64Array.of(BigInt(turns)))], signal);
  return running.then(({ outputs }) => Number(outputs[0]?.data[0]));
}

describe('a run that ends after it was given up', () => {
  it('takes its thread along, and nothing of it is used', async () => {
    const threads = watchThreads();
    const { model, repository } = await openOnly(turningModel());
    const { signal, abort } = controls();
    const running = turn(model, LONG, signal);
    await turnOfTheLoop();

    abort();
    await expect(running).rejects.toMatchObject({ name: 'RunAbandonedError', ranMs: expect.any(Number) });
    expect(repository.stuckRuns().size).toBe(1);
    expect(await turn(model, 3)).toBe(3);
    if (repository.stuckRuns().size > 0) await once(threads[0] as never, 'exit');

    await turnOfTheLoop();
    expect(repository.stuckRuns().size).toBe(0);
    expect(alive(threads)).toEqual([threads[1]]);
    expect(await turn(model, 4)).toBe(4);
  });
});

describe('a run that is given up before it was started', () => {
  it('is withdrawn: it never has a thread', async () => {
    const { model, repository } = await openOnly(turningModel());

    await expect(turn(model, LONG, AbortSignal.abort())).rejects.toMatchObject({
      name: 'RunAbandonedError',
      ranMs: undefined,
    });

    expect(repository.stuckRuns().size).toBe(0);
  });

  it('while the model is opened anew leaves it opening: the next run finds it open', async () => {
    const threads = watchThreads();
    const { model } = await openOnly(turningModel());
    await threads[0]?.terminate();
    const { signal, abort } = controls();
    const waiting = turn(model, 1, signal);
    await turnOfTheLoop();

    abort();

    await expect(waiting).rejects.toMatchObject({ name: 'RunAbandonedError', ranMs: undefined });
    expect(await turn(model, 2)).toBe(2);
    expect(threads).toHaveLength(2);
  });
});

function controls(): { readonly signal: AbortSignal; readonly abort: () => void } {
  const controller = new AbortController();
  return { signal: controller.signal, abort: () => controller.abort() };
}
