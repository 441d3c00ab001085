import { join } from 'node:path';
import { expect, it } from '@jest/globals';
import * as ort from 'onnxruntime-node';
import { createRandom } from '../../../bench/workload/random.ts';
import type { TensorSpec } from '../../../lambda/core/model.ts';
import type { Datatype } from '../../../lambda/core/tensor.ts';
import { withGraph } from '../../../lambda/onnx/graph.ts';
import { proveRows } from '../../../lambda/onnx/proveRows.ts';
import { type Generated, generateGraph, type Value, WORDS } from '../../fuzz/generateGraph.ts';
import { modelsDirectory, putFile } from '../../helpers/openModels.ts';

const GRAPHS = 500;
const BATCHES = [2, 7, 33];
const LENGTH = 3;
const OPTIONS = { logSeverityLevel: 4, intraOpNumThreads: 1 } as const;
/** What `generateGraph` draws from. */
const LEAST = { sound: 100, mixing: 40 };

function verdictOf({ inputs, outputs }: Generated, path: string): string {
  const spec = ({ name, datatype, dims }: Value): TensorSpec => ({
    name,
    datatype,
    shape: dims.filter((dim) => dim === 'batch').concat(dims.filter((dim) => dim !== 'batch') as never[]),
    ...(dims.indexOf('batch') > 0 && { batchAxis: dims.indexOf('batch') }),
  });
  return withGraph(path, (graph) => proveRows(graph, { inputs: inputs.map(spec), outputs: outputs.map(spec) })).verdict;
}

/** Rows `from` to `to` of an endless batch. */
function feedsOf({ inputs }: Generated, from: number, to: number): Record<string, ort.Tensor> {
  return Object.fromEntries(
    inputs.map(({ name, datatype, dims }) => {
      const shape = dims.map((dim) => (dim === 'batch' ? to - from : dim === 'length' ? LENGTH : dim));
      const width = shape.slice(1).reduce((product, size) => product * size, 1);
      return [name, tensorOf(datatype, shape, from * width)];
    }),
  );
}

function tensorOf(datatype: Datatype, shape: readonly number[], start: number): ort.Tensor {
  const places = Array.from({ length: shape.reduce((a, b) => a * b, 1) }, (_, index) => start + index);
  const whole = (place: number): number => (7 * place + (place >> 2)) % 4;
  if (datatype === 'INT64')
    return new ort.Tensor(
      'int64',
      BigInt64Array.from(places, (at) => BigInt(whole(at))),
      shape,
    );
  if (datatype === 'BYTES')
    return new ort.Tensor(
      'string',
      places.map((at) => WORDS[whole(at)] as string),
      shape,
    );
  return new ort.Tensor(
    'float32',
    Float32Array.from(places, (at) => 3 * Math.sin(3 * at + 1)),
    shape,
  );
}

/** The values of one row of each output. */
function rowOf(outputs: ort.InferenceSession.OnnxValueMapType, { outputs: values }: Generated, row: number): number[] {
  return values.flatMap(({ name, dims }) => {
    const { data, dims: shape } = outputs[name] as ort.Tensor;
    const axis = dims.indexOf('batch');
    const inner = shape.slice(axis + 1).reduce((a, b) => a * b, 1);
    return Array.from(data as ArrayLike<number | bigint>, Number).filter(
      (_, at) => Math.floor(at / inner) % (shape[axis] as number) === row,
    );
  });
}

function isAlike(a: readonly number[], b: readonly number[]): boolean {
  const near = (x: number, y: number) =>
    Object.is(x, y) || Math.abs(x - y) <= 2e-3 * Math.max(1, Math.abs(x)) || x === y;
  return a.length === b.length && a.every((value, index) => near(value, b[index] as number));
}

async function isAnsweredAsAlone(graph: Generated, session: ort.InferenceSession): Promise<boolean> {
  const rows = Math.max(...BATCHES);
  const alone: number[][] = [];
  for (let row = 0; row < rows; row++) alone.push(rowOf(await session.run(feedsOf(graph, row, row + 1)), graph, 0));
  for (const size of BATCHES) {
    const outputs = await session.run(feedsOf(graph, 0, size));
    for (let row = 0; row < size; row++) if (!isAlike(alone[row] as number[], rowOf(outputs, graph, row))) return false;
  }
  return true;
}

it('a generated graph that is proved is answered in batches as alone, and nine of ten that could be are proved', async () => {
  const directory = await modelsDirectory({});
  const path = join(directory, 'm.onnx');
  const wrong: number[] = [];
  const unproved: number[] = [];
  const counts = { sound: 0, mixing: 0 };
  for (let seed = 0; seed < GRAPHS; seed++) {
    const graph = generateGraph(createRandom(seed));
    const session = graph && (await ort.InferenceSession.create(graph.bytes, OPTIONS).catch(() => undefined));
    if (graph === undefined || session === undefined) continue;
    await putFile(path, graph.bytes);
    const isSound = !graph.outputs.some(({ isMixed }) => isMixed);
    counts[isSound ? 'sound' : 'mixing'] += 1;
    if (verdictOf(graph, path) !== 'independent') unproved.push(...(isSound ? [seed] : []));
    else if (!(await isAnsweredAsAlone(graph, session))) wrong.push(seed);
    await session.release();
  }
  expect(wrong).toEqual([]);
  expect([counts.sound > LEAST.sound, counts.mixing > LEAST.mixing]).toEqual([true, true]);
  expect({ unproved, isEnough: unproved.length <= counts.sound / 10 }).toMatchObject({ isEnough: true });
});
