import { execFile } from 'node:child_process';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { Worker } from 'node:worker_threads';
import { describe, expect, it } from '@jest/globals';
import { type Model, ModelUnavailableError } from '../../../../lambda/core/model.ts';

import { openSession } from '../../../../lambda/onnx/session.ts';
import { identityModel, lookupModel, slowModel, unloadableModel } from '../../../helpers/onnxModels.ts';
import {
  alive,
  counting,
  ENDED,
  modelsDirectory,
  openOnly,
  putFile,
  tensor,
  watchThreads,
} from '../../../helpers/openModels.ts';

const ONE_TO_THREE = Float32Array.of(1, 2, 3);

/** Runs the model on one row and gives that row back. */
async function runOnce(model: Model): Promise<unknown> {
  return (await model.run([counting('x', 1, 3)])).outputs[0]?.data;
}

/**
 * Ends a thread just before it is given runs: ending it inside of native code would end the process, with
 * ONNX Runtime's `terminate called after throwing an instance of 'Napi::Error'`.
 */
async function dieHolding(thread: Worker | undefined, startRuns: () => Promise<unknown>[]): Promise<unknown[]> {
  const ended = thread?.terminate();
  const runs = startRuns().map((run) => run.catch((error: unknown) => error));
  await ended;
  return Promise.all(runs);
}

describe('the thread of a model that dies', () => {
  it('makes the model unavailable for the run it held, saying so, and works again for the next', async () => {
    const threads = watchThreads();
    const { model } = await openOnly(identityModel());

    const [failed] = await dieHolding(threads[0], () => [runOnce(model)]);

    expect(failed).toBeInstanceOf(ModelUnavailableError);
    expect(failed).toMatchObject({
      message: 'the thread that runs the model died; it is started again',
      cause: expect.objectContaining({ message: 'the thread ended with code 1' }),
    });
    expect(await runOnce(model)).toEqual(ONE_TO_THREE);
    expect(threads).toHaveLength(2);
  });

  it('does not take the runs along that had not reached it yet', async () => {
    const threads = watchThreads();
    const { model } = await openOnly(identityModel());

    const ends = await dieHolding(threads[0], () => [runOnce(model), runOnce(model), runOnce(model)]);

    expect(ends).toEqual([expect.any(ModelUnavailableError), ONE_TO_THREE, ONE_TO_THREE]);
  });

  it('while nothing runs is replaced before the next run, which does not notice', async () => {
    const threads = watchThreads();
    const { model } = await openOnly(identityModel());

    await threads[0]?.terminate();

    expect(await runOnce(model)).toEqual(ONE_TO_THREE);
  });

  it('as often as it likes is replaced every time', async () => {
    const threads = watchThreads();
    const { model } = await openOnly(identityModel());

    for (let death = 0; death < 3; death++) {
      await threads.at(-1)?.terminate();
      expect(await runOnce(model)).toEqual(ONE_TO_THREE);
    }

    expect(threads).toHaveLength(4);
  });

  it('of an error of its own, with nothing to run, takes nothing else along', async () => {
    const threads = watchThreads();
    const { model } = await openOnly(identityModel());

    threads[0]?.emit('error', new Error('out of memory'));

    expect(await runOnce(model)).toEqual(ONE_TO_THREE);
  });

  it('and cannot open the model again leaves it unavailable until it can: no record is at fault', async () => {
    const threads = watchThreads();
    const bytes = identityModel();
    const { directory, model } = await openOnly(bytes);
    const path = join(directory, 'model/1/model.onnx');
    await rm(path);
    await threads[0]?.terminate();

    await expect(runOnce(model)).rejects.toBeInstanceOf(ModelUnavailableError);
    await putFile(path, bytes);

    expect(await runOnce(model)).toEqual(ONE_TO_THREE);
    expect(alive(threads)).toHaveLength(1);
  });
});

describe('a run that fails', () => {
  it('is not taken for a dead thread: the thread goes on', async () => {
    const threads = watchThreads();
    const { model } = await openOnly(lookupModel());

    const failing = model.run([tensor('index', 'INT64', [1], BigInt64Array.of(99n))]);

    await expect(failing).rejects.not.toBeInstanceOf(ModelUnavailableError);
    expect(threads).toHaveLength(1);
    expect(threads[0]?.threadId).not.toBe(ENDED);
  });
});

describe('the threads of models', () => {
  it('are one for each model', async () => {
    const threads = watchThreads();

    await openOnly(identityModel());
    await openOnly(identityModel());

    expect(threads).toHaveLength(2);
  });

  it('may be closed while a run goes on: the run ends first, and the process lives', async () => {
    const directory = await modelsDirectory({ 'model.onnx': slowModel(300, 512) });
    const script = fileURLToPath(new URL('./closeDuringRun.ts', import.meta.url));

    const child = await promisify(execFile)(process.execPath, [script, join(directory, 'model.onnx')]);

    expect(child.stdout).toBe('closed, and the run gave 131072 elements\n');
  });

  it('end when the repository is closed', async () => {
    const threads = watchThreads();
    const { model, repository } = await openOnly(identityModel());

    await repository.close();

    expect(threads.map(({ threadId }) => threadId)).toEqual([ENDED]);
    await expect(runOnce(model)).rejects.toThrow('expected a model that is open, got one that was closed');
    expect(threads).toHaveLength(1);
  });

  it.each([
    ['the model cannot be loaded', unloadableModel(), ['cpu']],
    ['the provider is not known', identityModel(), ['gpu']],
  ])('do not outlive a start that fails because %s', async (_, bytes, providers) => {
    const threads = watchThreads();
    const directory = await modelsDirectory({ 'model.onnx': bytes });

    const opening = openSession({ path: join(directory, 'model.onnx'), providers, sessionOptions: {} });

    await expect(opening).rejects.toThrow();
    expect(threads.map(({ threadId }) => threadId)).toEqual([ENDED]);
  });

  it('do not outlive a start that fails because the contract is refused', async () => {
    const threads = watchThreads();

    await expect(openOnly(identityModel('FP32', []))).rejects.toThrow(/got only scalars/);

    expect(threads.map(({ threadId }) => threadId)).toEqual([ENDED]);
  });

  it.each([
    [true, 1],
    [false, 0],
  ])('do not outlive a provider that is not available (fallback allowed: %s)', async (allowed, left) => {
    const threads = watchThreads();

    const opening = openOnly(identityModel(), {}, { providers: ['cuda', 'cpu'], allowProviderFallback: allowed });
    await Promise.allSettled([opening]);

    expect(alive(threads)).toHaveLength(left);
  });
});
