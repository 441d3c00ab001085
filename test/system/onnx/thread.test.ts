import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it } from '@jest/globals';
import type { Model } from '../../../lambda/core/model.ts';
import { openSession } from '../../../lambda/onnx/session.ts';
import { identityModel } from '../../helpers/onnxModels.ts';
import { alive, counting, modelsDirectory, openOnly, watchThreads } from '../../helpers/openModels.ts';

const execFileAsync = promisify(execFile);

const ONE_TO_THREE = Float32Array.of(1, 2, 3);

/** Runs the model on one row and gives that row back. */
async function runOnce(model: Model): Promise<unknown> {
  return (await model.run([counting('x', 1, 3)])).outputs[0]?.data;
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
const threads = await session.endWarmUp();
await run();
console.log(JSON.stringify({ threads, before, after: await resident(), weights: 4 * n }));
await session.close();`;

/** Ends the thread of a session just before it is given a run. */
const DIES = `
import { Worker } from 'node:worker_threads';
const threads = [];
const { postMessage } = Worker.prototype;
Worker.prototype.postMessage = function (...given) { threads.push(this); return postMessage.apply(this, given); };
const { openSession } = await import('${new URL('../../../lambda/onnx/session.ts', import.meta.url)}');
const path = new URL('model.onnx', import.meta.url).pathname;
const session = await openSession({ path, providers: ['cpu'], sessionOptions: {} });
const ended = threads[0].terminate();
session.run({ inputs: [{ name: 'x', onnxType: 'float32', shape: [1, 3], data: new Float32Array(3) }] }).catch(() => {});
await ended;`;

it('a model that is opened anew for one core is held once', async () => {
  const directory = await modelsDirectory({ 'anew.mjs': OPENED_ANEW });
  const { stdout } = await execFileAsync(process.execPath, [join(directory, 'anew.mjs')]);

  const { threads, before, after, weights } = JSON.parse(stdout);
  expect(threads).toBe(1);
  expect(after - before).toBeLessThan(weights / 2);
});

describe('the thread of a model that dies', () => {
  it('ends its process, with what it was running', async () => {
    const directory = await modelsDirectory({ 'model.onnx': identityModel(), 'dies.mjs': DIES });
    const died = await execFileAsync(process.execPath, [join(directory, 'dies.mjs')]).catch((error: unknown) => error);

    expect(died).toMatchObject({ code: 1, stderr: expect.stringContaining('session thread ended with code 1') });
  });

  it('of an error of its own, with nothing to run, takes nothing else along', async () => {
    const threads = watchThreads();
    const { model } = await openOnly(identityModel());

    threads[0]?.emit('error', new Error('out of memory'));

    expect(await runOnce(model)).toEqual(ONE_TO_THREE);
  });

  it('stays with the model that it has where another lies in its place when it is opened with other options', async () => {
    const directory = await modelsDirectory({ 'model.onnx': identityModel() });
    const threads = watchThreads();
    const session = await openSession({ path: join(directory, 'model.onnx'), providers: ['cpu'], sessionOptions: {} });

    await expect(session.replace({}, () => false)).rejects.toThrow('expected unchanged files of the open model');

    expect(alive(threads)).toEqual([threads[0]]);
    await session.run({ inputs: [{ name: 'x', onnxType: 'float32', shape: [1, 3], data: ONE_TO_THREE.slice() }] });
    await session.close();
  });
});
