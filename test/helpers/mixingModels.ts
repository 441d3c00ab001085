/** Models whose rows depend on each other, and sound relatives of them: float32 `x` `[batch, 4]` unless said otherwise. */
import { type Constant, DataType } from '../../bench/workload/encodeModel.ts';
import { graphOf, model } from './graph.ts';

const ROWS = 'FP32[batch,4]';

/** From `x` to `y`. @param y as `x` unless said otherwise */
function xToY(text: string, x = ROWS, y = x, more: readonly Constant[] = []): Uint8Array {
  const { nodes, constants } = graphOf(text);
  return model(`x ${x}`, `y ${y}`, nodes, [...constants, ...more]);
}

const INT8_WEIGHTS: readonly Constant[] = [
  {
    name: 'w',
    dataType: DataType.INT8,
    dims: [4, 4],
    int32Data: [90, -31, 5, 77, -64, 12, 3, -9, 41, 8, -70, 25, 66, -2, 18, -50],
  },
  { name: 'w_zero', dataType: DataType.INT8, dims: [], int32Data: [0] },
];

/** Quantised with a scale and a zero point. */
function matMulInteger(scale: string, zero: string, y = 'y'): string {
  return `product = MatMulInteger q w ${zero} w_zero; exact = Cast product to=1; s = Mul ${scale} 0.01; ${y} = Mul exact s`;
}

const DYNAMIC = `q,scale,zero = DynamicQuantizeLinear x; ${matMulInteger('scale', 'zero')}`;
const ROW_COUNT = 'rows = Shape x start=0 end=1';
const NORMAL = '[1.0,2.0,1.0,0.5] [0.0,1.0,0.0,-1.0] [0.0,0.5,0.0,0.0] [1.0,1.0,2.0,1.0]';
const SHARE = `${ROW_COUNT}; count = Cast rows to=1`;
const COLOURS = 'codes = LabelEncoder x keys_strings=[red,green,blue] values_floats=[1.0,2.0,3.0]';
const WORD = ['BYTES[batch,1]', 'FP32[batch,1]'] as const;
const LAYER = 'w(1,9,4) w(1,9,3) hidden_size=3';

/** By class: models that answer a row differently among other rows, or at another row count or place. */
export const MIXING: Readonly<Record<string, () => Uint8Array>> = {
  'dynamic quantisation': () => xToY(DYNAMIC, ROWS, ROWS, INT8_WEIGHTS),
  'batch normalisation in training mode': () => xToY(`y,m,v = BatchNormalization x ${NORMAL} training_mode=1`),
  'softmax over axis 0': () => xToY('y = Softmax x axis=0'),
  'norm over axis 0': () => xToY('y = LpNormalization x axis=0'),
  'cumulative sum over axis 0': () => xToY('y = CumSum x 0'),
  'mean over the batch': () => xToY('mean = ReduceMean x [0]; y = Sub x mean'),
  'sorted over the batch': () => xToY(`${ROW_COUNT}; y,places = TopK x rows axis=0`),
  'indices that count across the batch': () =>
    xToY(
      `${ROW_COUNT}; count = Squeeze rows; numbers = Range 0 count 1; y = Unsqueeze numbers [1]`,
      ROWS,
      'INT64[batch,1]',
    ),
  'a share of the row count': () => xToY(`${SHARE}; y = Div x count`),
  'a share of the row count, normalised': () =>
    xToY(`${SHARE}; share = Div x count; y = LayerNormalization share [0.3,-0.2,0.1,0.25]`),
  'embedded tokens, quantised dynamically': () =>
    xToY(
      'vectors = Gather [0.9,-0.3,0.11,0.47] x; q,s,zero = DynamicQuantizeLinear vectors; y = DequantizeLinear q s zero',
      'INT64[batch,12]',
      'FP32[batch,12]',
    ),
  'a trailing shape that is the row count': () =>
    xToY('t = Transpose x; y = MatMul x t', ROWS, 'FP32[batch,also_batch]'),
  'a trailing shape as wide as the widest neighbour': () =>
    xToY(
      'most = ReduceMax x keepdims=0; numbers = Range -9 most 1; y = Equal x numbers',
      'INT64[batch,1]',
      'BOOL[batch,width]',
    ),
  'attention over the batch': () =>
    xToY('t = Transpose x; scores = MatMul x t; shares = Softmax scores; y = MatMul shares x'),
  'a condition on any row': () =>
    xToY('least = ReduceMin x keepdims=0; negative = Less least 0.0; doubled = Add x x; y = Where negative x doubled'),
  'embedded tokens, less their mean over the batch': () =>
    xToY(
      'vectors = Gather w(4,2) x; mean = ReduceMean vectors [0]; y = Sub vectors mean',
      'INT64[batch,3]',
      'FP32[batch,3,2]',
    ),
  'words, less their mean over the batch': () =>
    xToY(`${COLOURS}; mean = ReduceMean codes [0]; y = Sub codes mean`, ...WORD),
  'integers below 0': () =>
    xToY('smallest = ReduceMin x [0]; added = Min smallest 0; y = Add x added', 'INT64[batch,4]'),
  'one output that is sound and one that is not': () => {
    const { nodes } = graphOf('y = Relu x; z = Softmax x axis=0');
    return model(`x ${ROWS}`, `y ${ROWS}; z ${ROWS}`, nodes);
  },
};

/** By class: relatives of those whose rows are independent. */
export const SOUND: Readonly<Record<string, () => Uint8Array>> = {
  'static quantisation': () =>
    xToY(`q = QuantizeLinear x 0.05 u8(128); ${matMulInteger('0.05', 'u8(128)')}`, ROWS, ROWS, INT8_WEIGHTS),
  'quantised outputs': () => xToY('y = QuantizeLinear x 0.05 u8(128)', ROWS, 'UINT8[batch,4]'),
  'batch normalisation in inference': () => xToY(`y = BatchNormalization x ${NORMAL}`),
  'softmax over a row': () => xToY('y = Softmax x axis=1'),
  'norm over a row': () => xToY('y = LpNormalization x axis=1'),
  'cumulative sum over a row': () => xToY('y = CumSum x 1'),
  'sorted within a row': () => {
    const { nodes, constants } = graphOf('y,places = TopK x [2] axis=1');
    return model(`x ${ROWS}`, 'y FP32[batch,2]; places INT64[batch,2]', nodes, constants);
  },
  'attention within a row': () =>
    xToY(
      't = Transpose x perm=[0,2,1]; scores = MatMul x t; shares = Softmax scores; y = MatMul shares x',
      'FP32[batch,length,4]',
    ),
  'a recurrent layer with the batch first': () =>
    xToY(
      `t = Transpose x perm=[1,0,2]; all,last = GRU t ${LAYER}; steps = Squeeze all [1]; y = Transpose steps perm=[1,0,2]`,
      'FP32[batch,steps,4]',
      'FP32[batch,steps,3]',
    ),
  'embedded tokens of a table of two': () => xToY('y = Gather w(2,2) x', 'INT64[batch,3]', 'FP32[batch,3,2]'),
  words: () => xToY(`${COLOURS}; y = Mul codes codes`, ...WORD),
  'a tree ensemble': () =>
    xToY(
      'y = TreeEnsembleRegressor x n_targets=1 nodes_treeids=[0,0,0] nodes_nodeids=[0,1,2] nodes_featureids=[2,0,0] ' +
        'nodes_modes=[BRANCH_LEQ,LEAF,LEAF] nodes_values=[52000000000.0,0,0] nodes_truenodeids=[1,0,0] ' +
        'nodes_falsenodeids=[2,0,0] target_treeids=[0,0] target_nodeids=[1,2] target_ids=[0,0] target_weights=[0.25,0.75]',
      ROWS,
      'FP32[batch,1]',
    ),
  'half precision over many columns': () =>
    xToY(
      'half = Cast x to=10; half_w = Cast w(512,8) to=10; product = MatMul half half_w; y = Cast product to=1',
      'FP32[batch,512]',
      'FP32[batch,8]',
    ),
  'the label of the largest of many columns': () =>
    xToY('scores = MatMul x w(512,8); y = ArgMax scores axis=1 keepdims=0', 'FP32[batch,512]', 'INT64[batch]'),
};

/** A recurrent layer of float32 `[steps, batch, 4]`, whose first axis is time. */
export function timeFirstModel(): Uint8Array {
  return xToY(`all,last = GRU x ${LAYER}; y = Squeeze all [1]`, 'FP32[steps,batch,4]', 'FP32[steps,batch,3]');
}

/** float32 `[4, 4]`, baked: each row less the mean of the four. */
export function bakedMixingModel(): Uint8Array {
  return xToY('mean = ReduceMean x [0]; y = Sub x mean', 'FP32[4,4]');
}

/** Adds noise to each element. */
export function noisyModel(): Uint8Array {
  return xToY('noise = RandomNormalLike x; y = Add x noise');
}

/** Quantised dynamically, it answers with the number of the largest score alone: int64 `y` `[batch]`. */
export function dynamicLabelModel(): Uint8Array {
  const text = `q,scale,zero = DynamicQuantizeLinear x; ${matMulInteger('scale', 'zero', 'scores')}`;
  return xToY(`${text}; y = ArgMax scores axis=1 keepdims=0`, ROWS, 'INT64[batch]', INT8_WEIGHTS);
}
