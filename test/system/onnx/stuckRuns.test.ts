import { setImmediate as turnOfTheLoop } from 'node:timers/promises';
import { describe, expect, it } from '@jest/globals';
import type { Model } from '../../../lambda/core/model.ts';
import { runScript } from '../../helpers/command.ts';
import { turningModel } from '../../helpers/onnxModels.ts';
import { modelsDirectory, openOnly, tensor, watchThreads } from '../../helpers/openModels.ts';

/** Made-up rows might keep its loop from ending, so nothing would prove that they may share a run. */
const TRUSTED = { batching: 'trust' };

describe('a run that never ends', () => {
  it('is left behind, however often, and keeps neither other runs, nor the repository, nor the process', async () => {
    const bytes = turningModel();
    const directory = await modelsDirectory({
      'turns/1/model.onnx': bytes,
      'turns/config.json': TRUSTED,
      'other/1/model.onnx': bytes,
      'other/config.json': TRUSTED,
    });
    const finished = await runScript('test/system/onnx/hangingRuns.ts', [directory]);

    expect(finished).toMatchObject({ code: 7, stderr: '' });
    expect(JSON.parse(finished.stdout)).toEqual({
      abandoned: 'left behind',
      otherModelMeanwhile: 2,
      nextOfThisModel: 3,
      behindAHang: ['withdrawn', 'left behind', 4],
      hangsInARow: Array(10).fill('left behind'),
      afterThem: 5,
      // Those that were withdrawn are not stuck.
      stuckRuns: 12,
    });
  });
});

/** About a second. */
const LONG = 500_000;

function turn(model: Model, turns: number, signal?: AbortSignal): Promise<unknown> {
  const running = model.run([tensor('turns', 'INT64', [1], BigInt64Array.of(BigInt(turns)))], signal);
  return running.then(({ outputs }) => Number(outputs[0]?.data[0]));
}

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
    const controller = new AbortController();
    const waiting = turn(model, 1, controller.signal);
    await turnOfTheLoop();

    controller.abort();

    await expect(waiting).rejects.toMatchObject({ name: 'RunAbandonedError', ranMs: undefined });
    expect(await turn(model, 2)).toBe(2);
    expect(threads).toHaveLength(2);
  });
});
