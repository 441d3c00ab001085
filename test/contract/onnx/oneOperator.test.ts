import { join } from 'node:path';
import { expect, it } from '@jest/globals';
import * as ort from 'onnxruntime-node';
import type { TensorSpec } from '../../../lambda/core/model.ts';
import { withGraph } from '../../../lambda/onnx/graph.ts';
import { proveRows } from '../../../lambda/onnx/proveRows.ts';
import { changed, graphOf, model, values } from '../../helpers/graph.ts';
import { modelsDirectory, putFile } from '../../helpers/openModels.ts';

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

const AXIS = '{_|axis=-3|axis=-2|axis=-1|axis=0|axis=1|axis=2}';
const PLACE = '{-3|-2|-1|0|1|2}';
const KEEP = '{_|keepdims=0|keepdims=1}';

/**
 * Operators that make `y` of `t`, floats with the rows on any axis, and `k`, integers from 0 to 2, by the shape of one row.
 * `u` and `j` are the same with the rows on axis 0.
 */
const OPERATORS: Readonly<Record<string, readonly string[]>> = {
  '3,4': [
    `y = {Softmax|LogSoftmax|Hardmax|LpNormalization} t ${AXIS}`,
    `y = LayerNormalization t w(1) ${AXIS}`,
    `y,m = LayerNormalization t w(1) ${AXIS}`,
    'y = LayerNormalization t w(4) {w(5,1,4)|w(3,4)|w(5,4)}',
    `y = {ReduceSum|ReduceMax|ReduceMean} t {_|[-2]|[0]|[1]|[2]|[0,2]|[1,2]} ${KEEP}`,
    `y = {ArgMax|ArgMin} t ${AXIS} ${KEEP}`,
    `{y,z|z,y} = TopK t [2] ${AXIS}`,
    `y = CumSum t ${PLACE}`,
    `{y,z|z,y} = Split t {[2,1]|[1,1]|[2,2]|[1,2]} ${AXIS}`,
    'y = Flatten t {_|axis=0|axis=1|axis=2|axis=3|axis=-1}',
    `y = Unsqueeze t [${PLACE}]`,
    'y = Unsqueeze t {[0,1]|[1,2]|[0,-1]|[-1,-2]}',
    'y = Squeeze t {[0]|[1]|[2]}',
    `s = Slice t [1] [2] [${PLACE}]; y = Neg s`,
    'y = Slice t [-1] [-9] {[0]|[1]|[2]} [-1]',
    'y = Slice t [0] [9] {[0]|[1]|[2]}',
    'y = Pad t {[0,1,0,0,0,0]|[0,0,0,0,0,1]|[1,0,0,0,0,0]}',
    'y = Pad t [1,0] - {[0]|[1]|[2]}',
    `y = Gather t {0|[1,0]} ${AXIS}`,
    `m = Reshape [0,1,1,0] [2,2]; y = Gather t m ${AXIS}`,
    'y = Gather {w(3)|w(3,2)} k {_|axis=0|axis=1|axis=-1}',
    `y = GatherElements t k ${AXIS}`,
    `y = ScatterElements t k t ${AXIS}`,
    'm = Reshape [0,1] {[2,1]|[1,2]}; y = GatherND t m {_|batch_dims=1}',
    `y = OneHot k 3 [0.0,1.0] ${AXIS}`,
    'y = Trilu t {_|upper=0}',
    `y = QuantizeLinear t {0.5|[0.5,0.2,0.3]|[0.5,0.2,0.3,0.4]} - ${AXIS}`,
    'y = Transpose t {_|perm=[0,2,1]|perm=[1,2,0]}',
    'y = Reshape t {[-1,4]|[0,-1]|[0,0,2,2]|[3,-1]|[-1]|[-1,12]|[12,-1]|[0,3,-1,1]|[4,-1]|[0,12]|[3,4,-1]|[-1,3,4]}',
    'y = Expand t {[1,1,1]|[2,1,1,1]}',
    'y = Tile t {[1,2,1]|[1,1,2]|[2,1,1]}',
    'y = MatMul {t t|t u|u t|t w(4,2)|t w(3,2)|w(2,3) t|w(2,4) t|t w(5,4,2)|w(5,2,3) t}',
    'v = Transpose t perm=[0,2,1]; y = MatMul {t v|v t|v u|u v}',
    'y = Add {t u|t w(4)|t w(3,1)|t w(1,4)}',
    'y = Einsum t w(4,2) equation={abc,cd->abd|abc,cd->dab|abc,cd->ad}',
    'y = Einsum t w(5,2) equation={abc,ad->abd|abc,bd->abd}',
    'y = Einsum t t equation={abc,abd->acd|abc,dbc->ad|abc,abc->bc|abc,abc->ab|abc,abc->ca|abc,adc->bd}',
    'y = Concat {t t|t u|t w(5,3,4)|t w(1,3,4)} {axis=0|axis=1|axis=2|axis=-1}',
    'm = Slice t [0] [1] {[1]|[2]}; y = Concat m m t {axis=0|axis=1|axis=2}',
    'y = {LSTM|GRU|RNN} t {w(1,16,4) w(1,16,4)|w(1,12,4) w(1,12,4)|w(1,4,4) w(1,4,4)} hidden_size=4',
    'z,y = {LSTM|GRU|RNN} t {w(1,16,4) w(1,16,4)|w(1,12,4) w(1,12,4)|w(1,4,4) w(1,4,4)} hidden_size=4',
    'h = ReduceMean t [0]; z,y = GRU t w(1,12,4) w(1,12,4) - - h hidden_size=4',
    'y = BatchNormalization t {w(3) w(3) w(3) [1.0,2.0,3.0]|w(4) w(4) w(4) [1.0,2.0,3.0,4.0]|w(5) w(5) w(5) [1.0,2.0,3.0,4.0,5.0]}',
    'y = {InstanceNormalization|InstanceNormalization} t {w(3) w(3)|w(4) w(4)}',
    'y = {GlobalAveragePool|GlobalMaxPool} t',
    'y = MeanVarianceNormalization t {axes=[0,2]|axes=[1,2]|axes=[0,1]|axes=[0]}',
    '{y|z,y} = MaxPool t kernel_shape=[2]',
    'y = Conv t {w(2,3,2)|w(2,4,2)} kernel_shape=[2]',
    'y = ConvTranspose t {w(3,2,2)|w(4,2,2)} kernel_shape=[2]',
    'y = Resize t - {[1.0,1.0,2.0]|[2.0,1.0,1.0]|[1.0,2.0,1.0]}',
    'y = Where {bool[1,0,1,0] t u|bool[1,0,1,0] t 0.0}',
    'y = MultiHeadAttention t t t num_heads=2',
    'h = Reshape u [-1,3,2,2]; g = Transpose h perm=[0,2,1,3]; e = Unsqueeze g [0]; p = Concat e e axis=0; {y,z|z,y} = Attention u w(4,12) w(12) - p num_heads=2',
    'p = ReduceMax k [2] keepdims=0; y = RotaryEmbedding t p w(3,2) w(3,2)',
    'p = ReduceMax k [2] keepdims=0; i = Cast p to=6; {y,m|m,y} = EmbedLayerNormalization i i w(3,4) w(3,4) w(3,4) w(4) w(4)',
    'y = ArrayFeatureExtractor t [1,0]',
    'y = OneHotEncoder k cats_int64s=[0,1,2] zeros=1',
    'n = Shape t {_|start=1|start=0 end=1|start=-1}; f = Cast n to=1; m = ReduceProd f keepdims=0; y = Mul t m',
    'n = Size t; f = Cast n to=1; y = Div t f',
  ],
  '4': [
    'y = Gemm {t t|t u|u t|t w(4,3)|t w(3,4)|w(3,4) t|t w(4,4)|w(4,4) t} {_|transA=1|transB=1}',
    'y = Gemm t w(4,3) {w(3)|w(1,3)|w(5,3)|w(5,1)|w(1)} {_|transA=1|transB=1}',
    'v = MatMul u w(4,3); y = Gemm {u|w(1,4)|w(5,4)} w(4,3) v',
    'm = ReduceSum u [1]; v = Transpose m; y = Gemm u w(4,5) v',
    'y = MatMul {t t|t u|t w(4)|w(4) t|w(5) t|t w(5)}',
    'y = Softmax t {_|axis=0|axis=1}',
    'y = GatherND t k',
    'y = Gather t k {_|axis=1}',
    'y = CDist {t t|t w(3,4)}',
    'y = {Normalizer|Imputer imputed_value_floats=[1.0]} t',
    'y = LinearRegressor t coefficients=[1.0,2.0,3.0,4.0]',
    'y = FeatureVectorizer {t u|t t|u u} inputdimensions=[4,4]',
    'y = ArrayFeatureExtractor t {[1,0]|k}',
    'y = TfIdfVectorizer k mode=TF min_gram_length=1 max_gram_length=1 max_skip_count=0 ngram_counts=[0] ngram_indexes=[0,1] pool_int64s=[0,1]',
    'y = Dropout t {_|0.5|0.5 bool(0)|0.5 bool(1)}',
  ],
  '': [
    'y = Gather {w(3)|w(3,2)|w(2,3)} k {_|axis=1}',
    'y = OneHot k 3 [0.0,1.0] {_|axis=0|axis=1}',
    'y = ArrayFeatureExtractor w(1,3) k',
    'y = MatMul {t t|t w(1)|w(5) t|w(2,1) t}',
    'y = LabelEncoder k keys_int64s=[0,1] values_floats=[1.5,2.5]',
    'y = Unsqueeze t {[0]|[1]|[-1]}',
    'y = CumSum t 0',
    'y = Imputer t imputed_value_floats=[1.0]',
    'y = LinearRegressor t coefficients=[1.0]',
  ],
  '2,4,4': [
    'y = {Conv|ConvTranspose} t {w(2,2,3,3)|w(2,4,3,3)} kernel_shape=[3,3] pads=[1,1,1,1]',
    'y = {AveragePool|MaxPool|LpPool} t kernel_shape=[2,2]',
    'y = {DepthToSpace|SpaceToDepth} t blocksize=2',
    'y = LRN t size=3',
    'y = MeanVarianceNormalization t',
    'y = GridSample t w(1,2,2,2)',
  ],
};

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
