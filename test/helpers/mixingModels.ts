/**
 * Models whose rows depend on each other, and sound relatives of them: float32 `x` `[batch, 4]` unless said otherwise.
 *
 * ```ts
 * it.each(Object.entries(MIXING))('%s is found out', async (_, bytes) => {
 *   const { model } = await openOnly(bytes());
 * });
 * ```
 */
import {
  type Constant,
  DataType,
  encodeModel,
  type Graph,
  type GraphNode,
  type GraphValue,
} from '../../bench/workload/encodeModel.ts';

const X: GraphValue = { name: 'x', datatype: 'FP32', shape: ['batch', 4] };
const Y: GraphValue = { name: 'y', datatype: 'FP32', shape: ['batch', 4] };

function node(op: string, inputs: string, outputs: string, attributes: GraphNode['attributes'] = {}): GraphNode {
  return { op, inputs: inputs.split(' '), outputs: outputs.split(' '), attributes };
}

function ml(op: string, inputs: string, outputs: string, attributes: GraphNode['attributes'] = {}): GraphNode {
  return { ...node(op, inputs, outputs, attributes), domain: 'ai.onnx.ml' };
}

function ints(name: string, ...values: number[]): Constant {
  return { name, dataType: DataType.INT64, dims: [values.length], int64Data: values };
}

function int(name: string, value: number): Constant {
  return { name, dataType: DataType.INT64, dims: [], int64Data: [value] };
}

function float(name: string, value: number): Constant {
  return { name, dataType: DataType.FLOAT, dims: [], floatData: [value] };
}

/** Weights that are neither equal nor ordered. */
function weights(name: string, ...dims: number[]): Constant {
  const count = dims.reduce((product, dim) => product * dim, 1);
  return {
    name,
    dataType: DataType.FLOAT,
    dims,
    floatData: Array.from({ length: count }, (_, i) => Math.sin(3 * i + 1)),
  };
}

function model(nodes: readonly GraphNode[], constants: readonly Constant[] = [], io: Partial<Graph> = {}): Uint8Array {
  return encodeModel({ inputs: [X], outputs: [Y], nodes, constants, ...io });
}

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
  { name: 'factor', dataType: DataType.FLOAT, dims: [4], floatData: [1, 2, 1, 0.5] },
  { name: 'bias', dataType: DataType.FLOAT, dims: [4], floatData: [0, 1, 0, -1] },
  { name: 'mean', dataType: DataType.FLOAT, dims: [4], floatData: [0, 0.5, 0, 0] },
  { name: 'variance', dataType: DataType.FLOAT, dims: [4], floatData: [1, 1, 2, 1] },
];

/** float32 `x` `[steps, batch, 4]` as a recurrent layer takes it, or what is turned to that. */
function recurrent(shape: GraphValue['shape'], turned: boolean): Uint8Array {
  const run = node('GRU', `${turned ? 'turned' : 'x'} w r`, 'all last', { hidden_size: 3 });
  const squeeze = node('Squeeze', 'all axis_1', turned ? 'steps' : 'y');
  const before = turned ? [node('Transpose', 'x', 'turned', { perm: [1, 0, 2] })] : [];
  const after = turned ? [node('Transpose', 'steps', 'y', { perm: [1, 0, 2] })] : [];
  return model([...before, run, squeeze, ...after], [weights('w', 1, 9, 4), weights('r', 1, 9, 3), ints('axis_1', 1)], {
    inputs: [{ ...X, shape }],
    outputs: [{ ...Y, shape: [shape[0], shape[1], 3] }],
  });
}

const ROW_NUMBERS: readonly GraphNode[] = [
  node('Shape', 'x', 'rows', { start: 0, end: 1 }),
  node('Squeeze', 'rows', 'row_count'),
  node('Range', 'zero row_count one', 'numbers'),
];

const TOKENS: GraphValue = { name: 'x', datatype: 'INT64', shape: ['batch', 3] };
const WORDS: GraphValue = { name: 'x', datatype: 'BYTES', shape: ['batch', 1] };
const LABEL_ENCODER = ml('LabelEncoder', 'x', 'codes', {
  keys_strings: ['red', 'green', 'blue'],
  values_floats: { floats: [1, 2, 3] },
});
const COLUMN: GraphValue = { ...Y, shape: ['batch', 1] };

/** By class: models that answer a row differently among other rows, or at another row count or place. */
export const MIXING: Readonly<Record<string, () => Uint8Array>> = {
  'dynamic quantisation': () =>
    model([node('DynamicQuantizeLinear', 'x', 'q scale zero'), ...matMulInteger()], INT8_WEIGHTS),
  'batch normalisation in training mode': () =>
    model(
      [node('BatchNormalization', 'x factor bias mean variance', 'y m v', { training_mode: 1 })],
      BATCH_NORMALISATION,
    ),
  'softmax over axis 0': () => model([node('Softmax', 'x', 'y', { axis: 0 })]),
  'norm over axis 0': () => model([node('LpNormalization', 'x', 'y', { axis: 0 })]),
  'cumulative sum over axis 0': () => model([node('CumSum', 'x zero', 'y')], [int('zero', 0)]),
  'mean over the batch': () =>
    model([node('ReduceMean', 'x axis_0', 'mean'), node('Sub', 'x mean', 'y')], [ints('axis_0', 0)]),
  'sorted over the batch': () =>
    model([node('Shape', 'x', 'rows', { start: 0, end: 1 }), node('TopK', 'x rows', 'y places', { axis: 0 })]),
  'indices that count across the batch': () =>
    model(
      [...ROW_NUMBERS, node('Unsqueeze', 'numbers axis_1', 'y')],
      [int('zero', 0), int('one', 1), ints('axis_1', 1)],
      { outputs: [{ name: 'y', datatype: 'INT64', shape: ['batch', 1] }] },
    ),
  'a share of the row count': () =>
    model([
      node('Shape', 'x', 'rows', { start: 0, end: 1 }),
      node('Cast', 'rows', 'count', { to: DataType.FLOAT }),
      node('Div', 'x count', 'y'),
    ]),
  'a trailing shape that is the row count': () =>
    model([node('Transpose', 'x', 'turned'), node('MatMul', 'x turned', 'y')], [], {
      outputs: [{ ...Y, shape: ['batch', 'also_batch'] }],
    }),
  'a trailing shape as wide as the widest neighbour': () =>
    model(
      [
        node('ReduceMax', 'x', 'most', { keepdims: 0 }),
        node('Range', 'zero most one', 'numbers'),
        node('Equal', 'x numbers', 'y'),
      ],
      [int('zero', -9), int('one', 1)],
      {
        inputs: [{ name: 'x', datatype: 'INT64', shape: ['batch', 1] }],
        outputs: [{ name: 'y', datatype: 'BOOL', shape: ['batch', 'width'] }],
      },
    ),
  'attention over the batch': () =>
    model([
      node('Transpose', 'x', 'turned'),
      node('MatMul', 'x turned', 'scores'),
      node('Softmax', 'scores', 'shares'),
      node('MatMul', 'shares x', 'y'),
    ]),
  'a condition on any row': () =>
    model(
      [
        node('ReduceMin', 'x', 'least', { keepdims: 0 }),
        node('Less', 'least zero', 'negative'),
        node('Add', 'x x', 'doubled'),
        node('Where', 'negative x doubled', 'y'),
      ],
      [float('zero', 0)],
    ),
  'embedded tokens, less their mean over the batch': () =>
    model(
      [
        node('Gather', 'table x', 'vectors'),
        node('ReduceMean', 'vectors axis_0', 'mean'),
        node('Sub', 'vectors mean', 'y'),
      ],
      [weights('table', 4, 2), ints('axis_0', 0)],
      { inputs: [TOKENS], outputs: [{ ...Y, shape: ['batch', 3, 2] }] },
    ),
  'words, less their mean over the batch': () =>
    model(
      [LABEL_ENCODER, node('ReduceMean', 'codes axis_0', 'mean'), node('Sub', 'codes mean', 'y')],
      [ints('axis_0', 0)],
      { inputs: [WORDS], outputs: [COLUMN] },
    ),
  'integers below 0': () =>
    model(
      [node('ReduceMin', 'x axis_0', 'smallest'), node('Min', 'smallest zero', 'added'), node('Add', 'x added', 'y')],
      [ints('axis_0', 0), int('zero', 0)],
      { inputs: [{ ...X, datatype: 'INT64' }], outputs: [{ ...Y, datatype: 'INT64' }] },
    ),
  'one output that is sound and one that is not': () =>
    model([node('Relu', 'x', 'y'), node('Softmax', 'x', 'z', { axis: 0 })], [], {
      outputs: [Y, { ...Y, name: 'z' }],
    }),
};

/** By class: relatives of those whose rows are independent. */
export const SOUND: Readonly<Record<string, () => Uint8Array>> = {
  'static quantisation': () =>
    model(
      [node('QuantizeLinear', 'x scale zero', 'q'), ...matMulInteger()],
      [...INT8_WEIGHTS, float('scale', 0.05), { name: 'zero', dataType: DataType.UINT8, dims: [], int32Data: [128] }],
    ),
  'quantised outputs': () =>
    model(
      [node('QuantizeLinear', 'x scale zero', 'y')],
      [float('scale', 0.05), { name: 'zero', dataType: DataType.UINT8, dims: [], int32Data: [128] }],
      {
        outputs: [{ ...Y, datatype: 'UINT8' }],
      },
    ),
  'batch normalisation in inference': () =>
    model([node('BatchNormalization', 'x factor bias mean variance', 'y')], BATCH_NORMALISATION),
  'softmax over a row': () => model([node('Softmax', 'x', 'y', { axis: 1 })]),
  'norm over a row': () => model([node('LpNormalization', 'x', 'y', { axis: 1 })]),
  'cumulative sum over a row': () => model([node('CumSum', 'x one', 'y')], [int('one', 1)]),
  'sorted within a row': () =>
    model([node('TopK', 'x two', 'y places', { axis: 1 })], [ints('two', 2)], {
      outputs: [
        { ...Y, shape: ['batch', 2] },
        { name: 'places', datatype: 'INT64', shape: ['batch', 2] },
      ],
    }),
  'attention within a row': () =>
    model(
      [
        node('Transpose', 'x', 'turned', { perm: [0, 2, 1] }),
        node('MatMul', 'x turned', 'scores'),
        node('Softmax', 'scores', 'shares'),
        node('MatMul', 'shares x', 'y'),
      ],
      [],
      { inputs: [{ ...X, shape: ['batch', 'length', 4] }], outputs: [{ ...Y, shape: ['batch', 'length', 4] }] },
    ),
  'a recurrent layer with the batch first': () => recurrent(['batch', 'steps', 4], true),
  'embedded tokens of a table of two': () =>
    model([node('Gather', 'table x', 'y')], [weights('table', 2, 2)], {
      inputs: [TOKENS],
      outputs: [{ ...Y, shape: ['batch', 3, 2] }],
    }),
  words: () => model([LABEL_ENCODER, node('Mul', 'codes codes', 'y')], [], { inputs: [WORDS], outputs: [COLUMN] }),
  'a tree ensemble': () =>
    model(
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
      { outputs: [COLUMN] },
    ),
  'half precision over many columns': () =>
    model(
      [
        node('Cast', 'x', 'half', { to: DataType.FLOAT16 }),
        node('Cast', 'w', 'half_w', { to: DataType.FLOAT16 }),
        node('MatMul', 'half half_w', 'product'),
        node('Cast', 'product', 'y', { to: DataType.FLOAT }),
      ],
      [weights('w', 512, 8)],
      { inputs: [{ ...X, shape: ['batch', 512] }], outputs: [{ ...Y, shape: ['batch', 8] }] },
    ),
  'the label of the largest of many columns': () =>
    model(
      [node('MatMul', 'x w', 'scores'), node('ArgMax', 'scores', 'y', { axis: 1, keepdims: 0 })],
      [weights('w', 512, 8)],
      {
        inputs: [{ ...X, shape: ['batch', 512] }],
        outputs: [{ name: 'y', datatype: 'INT64', shape: ['batch'] }],
      },
    ),
};

/** A recurrent layer of float32 `[steps, batch, 4]`, whose first axis is time. */
export function timeFirstModel(): Uint8Array {
  return recurrent(['steps', 'batch', 4], false);
}

/** float32 `[4, 4]`, baked: each row less the mean of the four. */
export function bakedMixingModel(): Uint8Array {
  return model([node('ReduceMean', 'x axis_0', 'mean'), node('Sub', 'x mean', 'y')], [ints('axis_0', 0)], {
    inputs: [{ ...X, shape: [4, 4] }],
    outputs: [{ ...Y, shape: [4, 4] }],
  });
}

/** `y` is `x`, but in runs of 16 rows `x` and the mean of all of them. */
export function mixingAtSixteenModel(): Uint8Array {
  return model(
    [
      node('Shape', 'x', 'rows', { start: 0, end: 1 }),
      node('Equal', 'rows sixteen', 'is_sixteen'),
      node('ReduceMean', 'x axis_0', 'mean'),
      node('Where', 'is_sixteen mean zero', 'added'),
      node('Add', 'x added', 'y'),
    ],
    [ints('sixteen', 16), ints('axis_0', 0), float('zero', 0)],
  );
}

/** `y` is `x` plus 1, up to 100 rows: it looks the 1 up by the number of rows. */
export function hundredRowsModel(): Uint8Array {
  return model(
    [
      node('Shape', 'x', 'shape', { start: 0, end: 1 }),
      node('Squeeze', 'shape', 'rows'),
      node('Sub', 'rows one', 'last'),
      node('Gather', 'table last', 'added'),
      node('Add', 'x added', 'y'),
    ],
    [
      int('one', 1),
      { name: 'table', dataType: DataType.FLOAT, dims: [100], floatData: new Array<number>(100).fill(1) },
    ],
  );
}

/** Adds noise to each element. */
export function noisyModel(): Uint8Array {
  return model([node('RandomNormalLike', 'x', 'noise'), node('Add', 'x noise', 'y')]);
}

/** Quantised dynamically, it answers with the number of the largest score alone: int64 `y` `[batch]`. */
export function dynamicLabelModel(): Uint8Array {
  return model(
    [
      node('DynamicQuantizeLinear', 'x', 'q scale zero'),
      ...matMulInteger().map((one) => (one.outputs[0] === 'y' ? { ...one, outputs: ['scores'] } : one)),
      node('ArgMax', 'scores', 'y', { axis: 1, keepdims: 0 }),
    ],
    INT8_WEIGHTS,
    { outputs: [{ name: 'y', datatype: 'INT64', shape: ['batch'] }] },
  );
}
