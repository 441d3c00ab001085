import { once } from 'node:events';
import { readFile, stat, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Worker } from 'node:worker_threads';
import { describe, expect, it } from '@jest/globals';
import { DataLocation, DataType, encodeModel } from '../../../bench/workload/encodeModel.ts';
import { firstDifference } from '../../../lambda/core/difference.ts';
import { checkModelFile } from '../../../lambda/onnx/modelFile.ts';
import { modelDigest, storeApart, weightsPath } from '../../../lambda/onnx/weights.ts';
import { identityModel, largeModel } from '../../helpers/onnxModels.ts';
import { counting, ENDED, found, modelsDirectory, openModels, watchThreads } from '../../helpers/openModels.ts';

const WIDTH = 1024;

/** A repository of one model, and another that has it with its weights apart. */
async function storedApart(model: Uint8Array) {
  const whole = await modelsDirectory({ 'model/1/model.onnx': model });
  const apart = await modelsDirectory({ 'model/1/.keep': '' });
  const [from, to] = [join(whole, 'model/1/model.onnx'), join(apart, 'model/1/model.onnx')];
  return { whole, apart, from, to, isApart: storeApart(from, to) };
}

async function opened(directory: string, isShortLived = false) {
  const { repository } = await openModels({}, { directory, isShortLived });
  const model = await found(repository.find('model', undefined));
  return async () => (await model.run([counting('x', 5, 3)])).outputs;
}

describe('a large model with its weights apart', () => {
  it('has the same digest', async () => {
    const { from, to, isApart } = await storedApart(largeModel());

    expect(isApart).toBe(true);
    checkModelFile(to);
    expect((await stat(to)).size).toBeLessThan(20_000);
    expect(await modelDigest(to)).toBe(await modelDigest(from));
    const other = await storedApart(largeModel(2));
    expect(await modelDigest(other.to)).not.toBe(await modelDigest(to));
  });

  it.each([
    ['is opened without prepacking, and another session with it takes its place', false, 2],
    ['is opened without prepacking alone where its process is short-lived', true, 1],
  ])('%s: it answers the same, up to rounding', async (_, isShortLived, sessions) => {
    const { whole, apart } = await storedApart(largeModel());
    const expected = await (await opened(whole))();
    const threads = watchThreads();
    const run = await opened(apart, isShortLived);
    const answers = [await run()];
    if (sessions === 2 && threads[0]?.threadId !== ENDED) await once(threads[0] as Worker, 'exit');
    answers.push(await run());

    expect(threads).toHaveLength(sessions);
    expect(answers.map((outputs) => firstDifference(outputs, expected, false))).toEqual([undefined, undefined]);
  });

  it('has a digest by which files with weights are told apart, by their names and sizes', async () => {
    const constant = (name: string, location: string) => ({
      ...{ name, dataType: DataType.UINT8, dims: [2], dataLocation: DataLocation.EXTERNAL },
      externalData: Object.entries({ location, offset: '0', length: '2' }).map(([key, value]) => ({ key, value })),
    });
    const bytes = encodeModel({
      inputs: [{ name: 'x', datatype: 'UINT8', shape: ['batch', 2] }],
      outputs: [{ name: 'y', datatype: 'UINT8', shape: ['batch', 2] }],
      nodes: [
        { op: 'BitwiseAnd', inputs: ['x', 'a'], outputs: ['z'] },
        { op: 'BitwiseOr', inputs: ['z', 'b'], outputs: ['y'] },
      ],
      constants: [constant('a', 'a.bin'), constant('b', 'b.bin')],
    });
    const digests = [];
    for (const [a, b] of [
      [
        [1, 2],
        [3, 4, 5],
      ],
      [
        [1, 2, 3],
        [4, 5],
      ],
    ] as const) {
      const files = { 'model.onnx': bytes, 'a.bin': Uint8Array.from(a), 'b.bin': Uint8Array.from(b) };
      digests.push(await modelDigest(join(await modelsDirectory(files), 'model.onnx')));
    }

    expect(digests[0]).not.toBe(digests[1]);
  });

  it('is stored so once: one that is small, or has its weights apart already, is left as it is', async () => {
    const { to } = await storedApart(largeModel());
    const again = await modelsDirectory({ 'model/1/.keep': '' });

    expect(storeApart(to, join(again, 'model.onnx'))).toBe(false);
    expect((await storedApart(identityModel())).isApart).toBe(false);
    const { from } = await storedApart(largeModel());
    await writeFile(weightsPath(from), 'another file of that name');
    expect(storeApart(from, join(again, 'model.onnx'))).toBe(false);
  });

  it('leaves shapes in the graph, and any tensor that is not raw', async () => {
    const rows = 5 * WIDTH;
    const table = new Float32Array(rows * WIDTH).fill(1);
    const model = encodeModel({
      inputs: [{ name: 'x', datatype: 'FP32', shape: ['batch', rows] }],
      outputs: [{ name: 'y', datatype: 'FP32', shape: ['batch', WIDTH] }],
      nodes: [
        { op: 'MatMul', inputs: ['x', 'table'], outputs: ['product'] },
        { op: 'Reshape', inputs: ['product', 'shape'], outputs: ['reshaped'] },
        { op: 'Add', inputs: ['reshaped', 'bias'], outputs: ['y'] },
      ],
      constants: [
        { name: 'table', dataType: DataType.FLOAT, dims: [rows, WIDTH], rawData: new Uint8Array(table.buffer) },
        { name: 'shape', dataType: DataType.INT64, dims: [2], int64Data: [-1, WIDTH] },
        { name: 'bias', dataType: DataType.FLOAT, dims: [WIDTH], floatData: Array.from({ length: WIDTH }, () => 1) },
      ],
    });
    const { to } = await storedApart(model);

    const { repository } = await openModels({
      'model/1/model.onnx': await readFile(to),
      'model/1/model.onnx.data': await readFile(weightsPath(to)),
    });
    const { run } = await found(repository.find('model', undefined));

    const { outputs } = await run([counting('x', 1, rows)]);
    expect(outputs[0]?.data[0]).toBe((rows * (rows + 1)) / 2 + 1);
  });

  it('is refused where its weights are gone or cut short, and where there is no room for them', async () => {
    const { from, to } = await storedApart(largeModel());
    await writeFile(weightsPath(to), 'short');
    expect(() => checkModelFile(to)).toThrow(
      /model\.onnx\.data: expected at least 16\d+ bytes, got 5; the file was cut/,
    );
    const full = await modelsDirectory({ 'model/1/.keep': '' });
    const place = join(full, 'model/1/model.onnx');
    await symlink('/dev/full', weightsPath(place));

    expect(() => storeApart(from, place)).toThrow(
      `${weightsPath(place)}: expected room for the model's weights, got a full disk`,
    );
  });
});
