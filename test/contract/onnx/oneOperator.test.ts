import { join } from 'node:path';
import { expect, it } from '@jest/globals';
import * as ort from 'onnxruntime-node';
import type { TensorSpec } from '../../../lambda/core/model.ts';
import { withGraph } from '../../../lambda/onnx/graph.ts';
import { proveRows } from '../../../lambda/onnx/proveRows.ts';
import { changed, graphOf, model, values } from '../../helpers/graph.ts';
import { modelsDirectory, putFile } from '../../helpers/openModels.ts';
import { OPERATORS } from '../../helpers/operators.ts';

/*
 * Tries each operator with its rows on each axis, with each axis as attribute and without one. What the graph proves must
 * be what ONNX Runtime does, and what ONNX Runtime does must be proved.
 */

/** Outputs that ONNX Runtime gives for these operators. */
const LEAST = { apart: 700, mixing: 2000 };

/** No other axis has as many. */
const ROWS = 5;

/** Returns a text for each value of each placeholder: `{a,b}`, of which `_` is nothing. */
function variantsOf(text: string): string[] {
  const [whole, list] = /\{(.*?)\}/.exec(text) ?? [];
  if (whole === undefined || list === undefined) return [text.trim().replace(/ +/g, ' ')];
  return list.split('|').flatMap((one) => variantsOf(text.replace(whole, one === '_' ? '' : one)));
}

/** Returns the orders of axes that put the rows on each of them. */
function turnsOf(rank: number): number[][] {
  return Array.from({ length: rank }, (_, at) => {
    const others = Array.from({ length: rank - 1 }, (_, index) => index + 1);
    return [...others.slice(0, at), 0, ...others.slice(at)];
  });
}

interface Tried {
  readonly text: string;
  readonly bytes: Uint8Array;
  readonly inputs: string;
}

function triedOf(row: string, text: string, perm: readonly number[], opset: number): Tried {
  const shape = ['batch', ...row.split(',').filter((size) => size !== '')].join(',');
  const inputs = `u FP32[${shape}]; j INT64[${shape}]`;
  const turn = `perm=[${perm.join(',')}]`;
  const whole = `t = Transpose u ${turn}; k = Transpose j ${turn}; ${text}`;
  const { nodes, constants } = graphOf(whole);
  const needed = nodes.filter(({ outputs }) => outputs[0] !== 'k' || / k\b/.test(text));
  const given = inputs.split('; ').filter((one) => !one.startsWith('j') || / k\b/.test(text));
  const made = model(given.join('; '), [{ name: 'y', type: {} }] as never, needed, constants);
  const bytes = changed(made, ({ opsetImport }) => {
    for (const one of opsetImport) {
      if (!one.domain) one.version = opset;
      if (one.domain === 'com.microsoft') one.version = 1;
    }
  });
  return { text: `${whole}; opset ${opset}`, bytes, inputs: given.join('; ') };
}

type Answer = Pick<ort.Tensor, 'data' | 'dims'>;

interface Answers {
  readonly together: Answer;
  /** To the same rows in another order. */
  readonly turned: Answer;
  /** To each row. Undefined if it runs with this number of rows only. */
  readonly alone: readonly Answer[] | undefined;
}

const IN_ORDER = Array.from({ length: ROWS }, (_, row) => row);
const TURNED = [...IN_ORDER.slice(1), 0];

async function answersOf({ bytes, inputs }: Tried): Promise<Answers | undefined> {
  const options = { logSeverityLevel: 4, intraOpNumThreads: 1 } as const;
  const session = await ort.InferenceSession.create(bytes, options).catch(() => undefined);
  if (session === undefined) return undefined;
  const run = async (rows: readonly number[]): Promise<Answer> => {
    const feeds = values(inputs).map(({ name, datatype, shape }) => {
      const dims = shape.map((axis) => (axis === 'batch' ? rows.length : Number(axis)));
      const width = dims.reduce((a, b) => a * b, 1) / rows.length;
      const places = rows.flatMap((row) => Array.from({ length: width }, (_, place) => row * width + place));
      return [name, tensorOf(datatype, places, dims)];
    });
    const { y } = (await session.run(Object.fromEntries(feeds))) as { y: ort.Tensor };
    return { data: y.data, dims: y.dims };
  };
  try {
    const [together, turned] = [await run(IN_ORDER), await run(TURNED)];
    const alone = await Promise.all(IN_ORDER.map((row) => run([row]))).catch(() => undefined);
    return { together, turned, alone };
  } catch {
    return undefined;
  } finally {
    await session.release();
  }
}

function tensorOf(datatype: string | number, places: readonly number[], dims: readonly number[]): ort.Tensor {
  if (datatype === 'INT64')
    return new ort.Tensor(
      'int64',
      BigInt64Array.from(places, (at) => BigInt((7 * at + (at >> 2)) % 3)),
      dims,
    );
  return new ort.Tensor(
    'float32',
    Float32Array.from(places, (at) => Math.sin(3 * at + 1)),
    dims,
  );
}

/** Returns true if the answer to all rows has that to each of them along an axis, whatever their order. */
function isApartOn(axis: number, { together, turned, alone }: Answers): boolean {
  if (together.dims[axis] !== ROWS || turned.dims.join() !== together.dims.join()) return false;
  const inOrder = IN_ORDER.map((row) => rowOf(together, row, axis));
  if (!IN_ORDER.every((place) => isNear(rowOf(turned, place, axis), inOrder[TURNED[place] as number] as number[])))
    return false;
  return (alone ?? []).every(
    (one, row) =>
      one.dims[axis] === 1 &&
      one.dims.with(axis, ROWS).join() === together.dims.join() &&
      isNear(rowOf(one, 0, axis), inOrder[row] as number[]),
  );
}

function rowOf({ data, dims }: Answer, row: number, axis: number): number[] {
  const inner = dims.slice(axis + 1).reduce((a, b) => a * b, 1);
  return Array.from(data as ArrayLike<unknown>, Number).filter(
    (_, at) => Math.floor(at / inner) % (dims[axis] as number) === row,
  );
}

function isNear(a: readonly number[], b: readonly number[]): boolean {
  return a.every((value, at) => Math.abs(value - (b[at] as number)) <= 1e-5 * Math.max(1, Math.abs(value)));
}

function verdictOn(axis: number, { inputs }: Tried, path: string): string {
  const specs = values(inputs) as unknown as TensorSpec[];
  const outputs = [{ name: 'y', datatype: 'FP32', shape: ['batch'], batchAxis: axis }] as const;
  return withGraph(path, (graph) => proveRows(graph, { inputs: specs, outputs })).verdict;
}

/** Operators that keep rows apart on more axes than the one that a model has them on, or that the sizes here allow. */
const UNPROVED = new Set([
  'AveragePool',
  'GlobalAveragePool',
  'GlobalMaxPool',
  'Imputer',
  'LRN',
  'LpPool',
  'MaxPool',
  'Slice',
]);

it('an operator is followed along each axis as ONNX Runtime goes', async () => {
  const path = join(await modelsDirectory({}), 'm.onnx');
  const wrong: string[] = [];
  const unproved: string[] = [];
  const counts = { apart: 0, mixing: 0 };
  for (const [row, texts] of Object.entries(OPERATORS)) {
    const rank = row === '' ? 1 : row.split(',').length + 1;
    for (const text of texts.flatMap(variantsOf)) {
      for (const perm of turnsOf(rank)) {
        for (const opset of text.includes('Softmax') ? [11, 18] : [18]) {
          const one = triedOf(row, text, perm, opset);
          const answers = await answersOf(one);
          if (answers === undefined) continue;
          await putFile(path, one.bytes);
          for (const axis of answers.together.dims.keys()) {
            const isApart = isApartOn(axis, answers);
            counts[isApart ? 'apart' : 'mixing'] += 1;
            const isProved = verdictOn(axis, one, path) === 'independent';
            if (isProved && !isApart) wrong.push(`${one.text}, axis ${axis}`);
            const isKnown = UNPROVED.has(/= (\w+)[^=]*$/.exec(text.replace(/ \w+=\S*/g, ''))?.[1] ?? '');
            if (!isProved && isApart && answers.alone !== undefined && !isKnown)
              unproved.push(`${one.text}, axis ${axis}`);
          }
        }
      }
    }
  }
  expect({ wrong, unproved }).toEqual({ wrong: [], unproved: [] });
  expect([counts.apart > LEAST.apart, counts.mixing > LEAST.mixing]).toEqual([true, true]);
});
