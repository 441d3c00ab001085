import { execFile } from 'node:child_process';
import { rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Worker } from 'node:worker_threads';
import { describe, expect, it } from '@jest/globals';
import { type Model, ModelUnavailableError } from '../../../lambda/core/model.ts';
import { openSession } from '../../../lambda/onnx/session.ts';
import { model as modelOf, node } from '../../helpers/graph.ts';
import { identityModel } from '../../helpers/onnxModels.ts';
import { alive, counting, found, modelsDirectory, openOnly, putFile, watchThreads } from '../../helpers/openModels.ts';

const execFileAsync = promisify(execFile);

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

/** A look-up in a table of 100 MB, whose runs are so short that it is opened anew for one core; prints bytes, before and after. */
const OPENED_ANEW = `
import { readFile, writeFile } from 'node:fs/promises';
const { encodeModel } = await import('${new URL('../../../bench/workload/encodeModel.ts', import.meta.url)}');
const { openSession } = await import('${new URL('../../../lambda/onnx/session.ts', import.meta.url)}');
const n = 25_000_000;
const path = new URL('model.onnx', import.meta.url).pathname;
await writeFile(path, encodeModel({
  inputs: [{ name: 'index', datatype: 'INT64', shape: ['batch'] }],
  outputs: [{ name: 'y', datatype: 'FP32', shape: ['batch'] }],
  nodes: [{ op: 'Gather', inputs: ['table', 'index'], outputs: ['y'] }],
  constants: [{ name: 'table', dataType: 1, dims: [n], rawData: new Uint8Array(4 * n) }],
}));
const resident = async () => 1024 * Number(/^VmRSS:\\s+(\\d+)/m.exec(await readFile('/proc/self/status', 'utf8'))[1]);
const session = await openSession({ path, providers: ['cpu'], sessionOptions: {} });
const run = () => session.run({ inputs: [{ name: 'index', onnxType: 'int64', shape: [1], data: BigInt64Array.of(1n) }] });
for (let count = 0; count < 100; count++) await run();
const before = await resident();
const threads = await session.warmedUp();
await run();
console.log(JSON.stringify({ threads, before, after: await resident(), weights: 4 * n }));
await session.close();`;

it('a model that is opened anew for one core is held once', async () => {
  const directory = await modelsDirectory({ 'anew.mjs': OPENED_ANEW });
  const { stdout } = await execFileAsync(process.execPath, [join(directory, 'anew.mjs')]);

  const { threads, before, after, weights } = JSON.parse(stdout);
  expect(threads).toBe(1);
  expect(after - before).toBeLessThan(weights / 2);
});

describe('the thread of a model that dies', () => {
  it('makes the model unavailable for the run it held alone, saying so, and works again for the next', async () => {
    const threads = watchThreads();
    const { model } = await openOnly(identityModel());

    const [failed, ...others] = await dieHolding(threads[0], () => [runOnce(model), runOnce(model), runOnce(model)]);

    expect(failed).toBeInstanceOf(ModelUnavailableError);
    expect(others).toEqual([ONE_TO_THREE, ONE_TO_THREE]);
    expect(failed).toMatchObject({
      message: 'the thread that runs the model died; it is started again',
      cause: expect.objectContaining({ message: 'the thread ended with code 1' }),
    });
    expect(await runOnce(model)).toEqual(ONE_TO_THREE);
    expect(threads).toHaveLength(2);
  });

  it('of an error of its own, with nothing to run, takes nothing else along', async () => {
    const threads = watchThreads();
    const { model } = await openOnly(identityModel());

    threads[0]?.emit('error', new Error('out of memory'));

    expect(await runOnce(model)).toEqual(ONE_TO_THREE);
  });

  it('opens the model with the options that replaced those it began with', async () => {
    const directory = await modelsDirectory({ 'model.onnx': identityModel() });
    const threads = watchThreads();
    const session = await openSession({
      path: join(directory, 'model.onnx'),
      providers: ['cpu'],
      sessionOptions: {},
    });
    // ONNX Runtime writes it whenever it opens the model.
    const optimizedModelFilePath = join(directory, 'optimized.onnx');
    await session.replace({ optimizedModelFilePath }, () => true);
    await rm(optimizedModelFilePath);
    await alive(threads)[0]?.terminate();

    await session.run({ inputs: [{ name: 'x', onnxType: 'float32', shape: [1, 3], data: ONE_TO_THREE.slice() }] });

    expect((await stat(optimizedModelFilePath)).isFile()).toBe(true);
    await session.close();
  });

  it('stays with the model that it has where another lies in its place when it is opened with other options', async () => {
    const directory = await modelsDirectory({ 'model.onnx': identityModel() });
    const threads = watchThreads();
    const session = await openSession({ path: join(directory, 'model.onnx'), providers: ['cpu'], sessionOptions: {} });

    await expect(session.replace({}, () => false)).rejects.toThrow('expected files that stay as they are');

    expect(alive(threads)).toEqual([threads[0]]);
    await session.run({ inputs: [{ name: 'x', onnxType: 'float32', shape: [1, 3], data: ONE_TO_THREE.slice() }] });
    await session.close();
  });

  it('and cannot open the model again for want of memory leaves it unavailable: fewer rows would not help', async () => {
    const directory = await modelsDirectory({ 'model.onnx': identityModel() });
    const threads = watchThreads();
    const session = await openSession({ path: join(directory, 'model.onnx'), providers: ['cpu'], sessionOptions: {} });
    const unknown = modelOf('x FP32[batch,3]', 'y FP32[batch,3]', [node('out of memory', 'x', 'y')]);
    await putFile(join(directory, 'model.onnx'), unknown);
    await threads[0]?.terminate();

    const inputs = [{ name: 'x', onnxType: 'float32' as const, shape: [1, 3], data: ONE_TO_THREE.slice() }];
    const failed = await session.run({ inputs }).catch((error: unknown) => error);
    expect(failed).toBeInstanceOf(ModelUnavailableError);
    expect(failed).toMatchObject({ message: expect.stringContaining('out of memory') });
    await session.close();
  });

  it('and cannot open the model again leaves it unavailable until it can: no record is at fault', async () => {
    const threads = watchThreads();
    const bytes = identityModel();
    const { directory, model, repository } = await openOnly(bytes);
    const path = join(directory, 'model/1/model.onnx');
    await rm(path);
    await threads[0]?.terminate();

    await expect(runOnce(model)).rejects.toBeInstanceOf(ModelUnavailableError);
    expect(await repository.find(undefined, undefined)).toMatchObject({ code: 'MODEL_UNAVAILABLE' });
    await putFile(path, bytes);

    expect(await runOnce(await found(repository.find(undefined, undefined)))).toEqual(ONE_TO_THREE);
    expect(alive(threads)).toHaveLength(1);
  });

  it('while another model lies in its place has that one loaded as what it is, with the checks of any other', async () => {
    const threads = watchThreads();
    const { directory, model, repository } = await openOnly(identityModel());
    expect(model).toMatchObject({ independence: 'proved' });
    const path = join(directory, 'model/1/model.onnx');
    const mixing = modelOf('x FP32[batch,3]', 'y FP32[batch,3]', [
      node('ReduceMean', 'x', 'mean', { keepdims: 1 }),
      node('Sub', 'x mean', 'y'),
    ]);
    await putFile(`${path}.new`, mixing);
    await rename(`${path}.new`, path);
    await threads[0]?.terminate();

    await expect(runOnce(model)).rejects.toThrow('expected files that stay as they are');

    expect(await found(repository.find(undefined, undefined))).toMatchObject({ independence: 'dependent' });
  });
});
