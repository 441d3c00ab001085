/** Models whose rows depend on each other, and sound relatives of them: float32 `x` `[batch, 4]` unless said otherwise. */
import { type Constant, DataType, type GraphNode } from '../../bench/workload/encodeModel.ts';
import { float, floats, int, ints, ml, model, node, weights } from './graph.ts';

/** From `x` to `y`, both float32 `[batch, 4]` unless said otherwise. */
function xToY(
  nodes: readonly GraphNode[],
  constants: readonly Constant[] = [],
  { x = 'FP32[batch,4]', y = 'FP32[batch,4]' }: { readonly x?: string; readonly y?: string } = {},
): Uint8Array {
  return model(`x ${x}`, `y ${y}`, nodes, constants);
}

const UINT8_ZERO: Constant = { name: 'zero', dataType: DataType.UINT8, dims: [], int32Data: [128] };

const INT8_WEIGHTS: readonly Constant[] = [
  {
    name: 'w',
    dataType: DataType.INT8,
    dims: [4, 4],
    int32Data: [90, -31, 5, 77, -64, 12, 3, -9, 41, 8, -70, 25, 66, -2, 18, -50],
  },
  { name: 'w_zero', dataType: DataType.INT8, dims: [], int32Data: [0] },
  float('w_scale', 0.01),
];

function matMulInteger(): GraphNode[] {
  return [
    node('MatMulInteger', 'q w zero w_zero', 'product'),
    node('Cast', 'product', 'exact', { to: DataType.FLOAT }),
    node('Mul', 'scale w_scale', 'scales'),
    node('Mul', 'exact scales', 'y'),
  ];
}

const BATCH_NORMALISATION: readonly Constant[] = [
  floats('factor', 1, 2, 1, 0.5),
  floats('bias', 0, 1, 0, -1),
  floats('mean', 0, 0.5, 0, 0),
  floats('variance', 1, 1, 2, 1),
];

/** float32 `x` `[steps, batch, 4]` as a recurrent layer takes it, or what is turned to that. */
function recurrent(axes: string, turned: boolean): Uint8Array {
  const run = node('GRU', `${turned ? 'turned' : 'x'} w r`, 'all last', { hidden_size: 3 });
  const squeeze = node('Squeeze', 'all axis_1', turned ? 'steps' : 'y');
  const before = turned ? [node('Transpose', 'x', 'turned', { perm: [1, 0, 2] })] : [];
  const after = turned ? [node('Transpose', 'steps', 'y', { perm: [1, 0, 2] })] : [];
  const constants = [weights('w', 1, 9, 4), weights('r', 1, 9, 3), ints('axis_1', 1)];
  return xToY([...before, run, squeeze, ...after], constants, { x: `FP32[${axes},4]`, y: `FP32[${axes},3]` });
}

const ROW_NUMBERS: readonly GraphNode[] = [
  node('Shape', 'x', 'rows', { start: 0, end: 1 }),
  node('Squeeze', 'rows', 'row_count'),
  node('Range', 'zero row_count one', 'numbers'),
];

const LABEL_ENCODER = ml('LabelEncoder', 'x', 'codes', {
  keys_strings: ['red', 'green', 'blue'],
  values_floats: { floats: [1, 2, 3] },
});

/** By class: models that answer a row differently among other rows, or at another row count or place. */
export const MIXING: Readonly<Record<string, () => Uint8Array>> = {
  'dynamic quantisation': () =>
    xToY([node('DynamicQuantizeLinear', 'x', 'q scale zero'), ...matMulInteger()], INT8_WEIGHTS),
  'batch normalisation in training mode': () =>
    xToY(
      [node('BatchNormalization', 'x factor bias mean variance', 'y m v', { training_mode: 1 })],
      BATCH_NORMALISATION,
    ),
  'softmax over axis 0': () => xToY([node('Softmax', 'x', 'y', { axis: 0 })]),
  'norm over axis 0': () => xToY([node('LpNormalization', 'x', 'y', { axis: 0 })]),
  'cumulative sum over axis 0': () => xToY([node('CumSum', 'x zero', 'y')], [int('zero', 0)]),
  'mean over the batch': () =>
    xToY([node('ReduceMean', 'x axis_0', 'mean'), node('Sub', 'x mean', 'y')], [ints('axis_0', 0)]),
  'sorted over the batch': () =>
    xToY([node('Shape', 'x', 'rows', { start: 0, end: 1 }), node('TopK', 'x rows', 'y places', { axis: 0 })]),
  'indices that count across the batch': () =>
    xToY(
      [...ROW_NUMBERS, node('Unsqueeze', 'numbers axis_1', 'y')],
      [int('zero', 0), int('one', 1), ints('axis_1', 1)],
      { y: 'INT64[batch,1]' },
    ),
  'a share of the row count': () =>
    xToY([
      node('Shape', 'x', 'rows', { start: 0, end: 1 }),
      node('Cast', 'rows', 'count', { to: DataType.FLOAT }),
      node('Div', 'x count', 'y'),
    ]),
  'a share of the row count, normalised': () =>
    xToY(
      [
        node('Shape', 'x', 'rows', { start: 0, end: 1 }),
        node('Cast', 'rows', 'count', { to: DataType.FLOAT }),
        node('Div', 'x count', 'share'),
        node('LayerNormalization', 'share factor', 'y'),
      ],
      [floats('factor', 0.3, -0.2, 0.1, 0.25)],
    ),
  'embedded tokens, quantised dynamically': () =>
    xToY(
      [
        node('Gather', 'table x', 'vectors'),
        node('DynamicQuantizeLinear', 'vectors', 'q scale zero'),
        node('DequantizeLinear', 'q scale zero', 'y'),
      ],
      [floats('table', 0.9, -0.3, 0.11, 0.47)],
      { x: 'INT64[batch,12]', y: 'FP32[batch,12]' },
    ),
  'a trailing shape that is the row count': () =>
    xToY([node('Transpose', 'x', 'turned'), node('MatMul', 'x turned', 'y')], [], { y: 'FP32[batch,also_batch]' }),
  'a trailing shape as wide as the widest neighbour': () =>
    xToY(
      [
        node('ReduceMax', 'x', 'most', { keepdims: 0 }),
        node('Range', 'zero most one', 'numbers'),
        node('Equal', 'x numbers', 'y'),
      ],
      [int('zero', -9), int('one', 1)],
      { x: 'INT64[batch,1]', y: 'BOOL[batch,width]' },
    ),
  'attention over the batch': () =>
    xToY([
      node('Transpose', 'x', 'turned'),
      node('MatMul', 'x turned', 'scores'),
      node('Softmax', 'scores', 'shares'),
      node('MatMul', 'shares x', 'y'),
    ]),
  'a condition on any row': () =>
    xToY(
      [
        node('ReduceMin', 'x', 'least', { keepdims: 0 }),
        node('Less', 'least zero', 'negative'),
        node('Add', 'x x', 'doubled'),
        node('Where', 'negative x doubled', 'y'),
      ],
      [float('zero', 0)],
    ),
  'embedded tokens, less their mean over the batch': () =>
    xToY(
      [
        node('Gather', 'table x', 'vectors'),
        node('ReduceMean', 'vectors axis_0', 'mean'),
        node('Sub', 'vectors mean', 'y'),
      ],
      [weights('table', 4, 2), ints('axis_0', 0)],
      { x: 'INT64[batch,3]', y: 'FP32[batch,3,2]' },
    ),
  'words, less their mean over the batch': () =>
    xToY(
      [LABEL_ENCODER, node('ReduceMean', 'codes axis_0', 'mean'), node('Sub', 'codes mean', 'y')],
      [ints('axis_0', 0)],
      { x: 'BYTES[batch,1]', y: 'FP32[batch,1]' },
    ),
  'integers below 0': () =>
    xToY(
      [node('ReduceMin', 'x axis_0', 'smallest'), node('Min', 'smallest zero', 'added'), node('Add', 'x added', 'y')],
      [ints('axis_0', 0), int('zero', 0)],
      { x: 'INT64[batch,4]', y: 'INT64[batch,4]' },
    ),
  'one output that is sound and one that is not': () =>
    model('x FP32[batch,4]', 'y FP32[batch,4]; z FP32[batch,4]', [
      node('Relu', 'x', 'y'),
      node('Softmax', 'x', 'z', { axis: 0 }),
    ]),
};

/** By class: relatives of those whose rows are independent. */
export const SOUND: Readonly<Record<string, () => Uint8Array>> = {
  'static quantisation': () =>
    xToY(
      [node('QuantizeLinear', 'x scale zero', 'q'), ...matMulInteger()],
      [...INT8_WEIGHTS, float('scale', 0.05), UINT8_ZERO],
    ),
  'quantised outputs': () =>
    xToY([node('QuantizeLinear', 'x scale zero', 'y')], [float('scale', 0.05), UINT8_ZERO], { y: 'UINT8[batch,4]' }),
  'batch normalisation in inference': () =>
    xToY([node('BatchNormalization', 'x factor bias mean variance', 'y')], BATCH_NORMALISATION),
  'softmax over a row': () => xToY([node('Softmax', 'x', 'y', { axis: 1 })]),
  'norm over a row': () => xToY([node('LpNormalization', 'x', 'y', { axis: 1 })]),
  'cumulative sum over a row': () => xToY([node('CumSum', 'x one', 'y')], [int('one', 1)]),
  'sorted within a row': () =>
    model(
      'x FP32[batch,4]',
      'y FP32[batch,2]; places INT64[batch,2]',
      [node('TopK', 'x two', 'y places', { axis: 1 })],
      [ints('two', 2)],
    ),
  'attention within a row': () =>
    xToY(
      [
        node('Transpose', 'x', 'turned', { perm: [0, 2, 1] }),
        node('MatMul', 'x turned', 'scores'),
        node('Softmax', 'scores', 'shares'),
        node('MatMul', 'shares x', 'y'),
      ],
      [],
      { x: 'FP32[batch,length,4]', y: 'FP32[batch,length,4]' },
    ),
  'a recurrent layer with the batch first': () => recurrent('batch,steps', true),
  'embedded tokens of a table of two': () =>
    xToY([node('Gather', 'table x', 'y')], [weights('table', 2, 2)], { x: 'INT64[batch,3]', y: 'FP32[batch,3,2]' }),
  words: () => xToY([LABEL_ENCODER, node('Mul', 'codes codes', 'y')], [], { x: 'BYTES[batch,1]', y: 'FP32[batch,1]' }),
  'a tree ensemble': () =>
    xToY(
      [
        ml('TreeEnsembleRegressor', 'x', 'y', {
          n_targets: 1,
          nodes_treeids: [0, 0, 0],
          nodes_nodeids: [0, 1, 2],
          nodes_featureids: [2, 0, 0],
          nodes_modes: ['BRANCH_LEQ', 'LEAF', 'LEAF'],
          nodes_values: { floats: [52_000_000_000, 0, 0] },
          nodes_truenodeids: [1, 0, 0],
          nodes_falsenodeids: [2, 0, 0],
          target_treeids: [0, 0],
          target_nodeids: [1, 2],
          target_ids: [0, 0],
          target_weights: { floats: [0.25, 0.75] },
        }),
      ],
      [],
      { y: 'FP32[batch,1]' },
    ),
  'half precision over many columns': () =>
    xToY(
      [
        node('Cast', 'x', 'half', { to: DataType.FLOAT16 }),
        node('Cast', 'w', 'half_w', { to: DataType.FLOAT16 }),
        node('MatMul', 'half half_w', 'product'),
        node('Cast', 'product', 'y', { to: DataType.FLOAT }),
      ],
      [weights('w', 512, 8)],
      { x: 'FP32[batch,512]', y: 'FP32[batch,8]' },
    ),
  'the label of the largest of many columns': () =>
    xToY(
      [node('MatMul', 'x w', 'scores'), node('ArgMax', 'scores', 'y', { axis: 1, keepdims: 0 })],
      [weights('w', 512, 8)],
      { x: 'FP32[batch,512]', y: 'INT64[batch]' },
    ),
};

/** A recurrent layer of float32 `[steps, batch, 4]`, whose first axis is time. */
export function timeFirstModel(): Uint8Array {
  return recurrent('steps,batch', false);
}

/** float32 `[4, 4]`, baked: each row less the mean of the four. */
export function bakedMixingModel(): Uint8Array {
  return xToY([node('ReduceMean', 'x axis_0', 'mean'), node('Sub', 'x mean', 'y')], [ints('axis_0', 0)], {
    x: 'FP32[4,4]',
    y: 'FP32[4,4]',
  });
}

/** Adds noise to each element. */
export function noisyModel(): Uint8Array {
  return xToY([node('RandomNormalLike', 'x', 'noise'), node('Add', 'x noise', 'y')]);
}

/** Quantised dynamically, it answers with the number of the largest score alone: int64 `y` `[batch]`. */
export function dynamicLabelModel(): Uint8Array {
  return xToY(
    [
      node('DynamicQuantizeLinear', 'x', 'q scale zero'),
      ...matMulInteger().map((one) => (one.outputs[0] === 'y' ? { ...one, outputs: ['scores'] } : one)),
      node('ArgMax', 'scores', 'y', { axis: 1, keepdims: 0 }),
    ],
    INT8_WEIGHTS,
    { y: 'INT64[batch]' },
  );
}
