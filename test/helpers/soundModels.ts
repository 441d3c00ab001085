import { DataType, encodeModel, type GraphValue, tensorType } from '../../bench/workload/encodeModel.ts';

const HEADS = 2;
const WIDTH = 4;

const value = (name: string, ...shape: GraphValue['shape']): GraphValue => ({ name, datatype: 'FP32', shape });
const FLOATS = tensorType({ datatype: 'FP32', shape: ['batch', 3] });

/** A classifier as skl2onnx exports it: strings `label` `[batch]`, and `probabilities`, a sequence of maps by label. */
export function zipMapModel(): Uint8Array {
  const byLabel = { keyType: DataType.STRING, valueType: tensorType({ datatype: 'FP32', shape: [] }) };
  const labels = ['low', 'middle', 'high'];
  const weights = { coefficients: { floats: [1, 0, 0, 0, 1, 0, 0, 0, 1] }, intercepts: { floats: [0, 0, 0] } };
  return encodeModel({
    inputs: [value('x', undefined, 3)],
    outputs: [
      { name: 'label', datatype: 'BYTES', shape: [undefined] },
      { name: 'probabilities', type: { sequenceType: { elemType: { mapType: byLabel } } } },
    ],
    nodes: [
      {
        op: 'LinearClassifier',
        domain: 'ai.onnx.ml',
        inputs: ['x'],
        outputs: ['label', 'scores'],
        attributes: { ...weights, classlabels_strings: labels },
      },
      {
        op: 'ZipMap',
        domain: 'ai.onnx.ml',
        inputs: ['scores'],
        outputs: ['probabilities'],
        attributes: { classlabels_strings: labels },
      },
    ],
  });
}

/** `y` is float32 `x` `[batch, 3]`, and so is what the optional `maybe` holds. */
export function optionalOutputModel(): Uint8Array {
  return encodeModel({
    inputs: [value('x', 'batch', 3)],
    outputs: [value('y', 'batch', 3), { name: 'maybe', type: { optionalType: { elemType: FLOATS } } }],
    nodes: [
      { op: 'Identity', inputs: ['x'], outputs: ['y'] },
      { op: 'Optional', inputs: ['x'], outputs: ['maybe'] },
    ],
  });
}

/**
 * `y` is float32 `x` `[batch, 3]`. Beside it: `classes` `[7]`, the same for all; the scalar `loss` and the `mean` `[1, 1]`
 * over everything; `columns` `[3, batch]`, which is `x` transposed; and `flat` `[3 * batch]`.
 */
export function extraOutputsModel(): Uint8Array {
  return encodeModel({
    inputs: [value('x', 'batch', 3)],
    outputs: [
      { name: 'classes', datatype: 'INT64', shape: [7] },
      value('y', 'batch', 3),
      value('loss'),
      value('mean', 1, 1),
      value('columns', 3, 'batch'),
      value('flat', undefined),
    ],
    nodes: [
      { op: 'Identity', inputs: ['seven'], outputs: ['classes'] },
      { op: 'Identity', inputs: ['x'], outputs: ['y'] },
      { op: 'ReduceMean', inputs: ['x'], outputs: ['loss'], attributes: { keepdims: 0 } },
      { op: 'ReduceMean', inputs: ['x'], outputs: ['mean'], attributes: { keepdims: 1 } },
      { op: 'Transpose', inputs: ['x'], outputs: ['columns'], attributes: { perm: [1, 0] } },
      { op: 'Reshape', inputs: ['x', 'all'], outputs: ['flat'] },
    ],
    constants: [
      { name: 'seven', dataType: DataType.INT64, dims: [7], int64Data: [1, 2, 3, 4, 5, 6, 7] },
      { name: 'all', dataType: DataType.INT64, dims: [1], int64Data: [-1] },
    ],
  });
}

/**
 * `y` is float32 `x` `[batch, length]` times the scalar `scale`, its second axis called otherwise; `new_state` is `state`
 * `[2, batch, 3]`. Beside them the scalar `loss`, and `pieces`, a sequence.
 */
export function everyGapModel(): Uint8Array {
  return encodeModel({
    inputs: [value('x', 'batch', 'length'), value('state', 2, 'batch', 3), value('scale')],
    outputs: [
      value('y', 'batch', 'time'),
      value('new_state', 2, 'batch', 3),
      value('loss'),
      { name: 'pieces', type: { sequenceType: { elemType: FLOATS } } },
    ],
    nodes: [
      { op: 'Mul', inputs: ['x', 'scale'], outputs: ['y'] },
      { op: 'Identity', inputs: ['state'], outputs: ['new_state'] },
      { op: 'ReduceMean', inputs: ['x'], outputs: ['loss'], attributes: { keepdims: 0 } },
      { op: 'SequenceConstruct', inputs: ['x'], outputs: ['pieces'] },
    ],
  });
}

/**
 * One layer of attention as a decoder of text has it: float32 `x` `[batch, 2, seq, 4]`, `mask` `[batch, past + seq]`,
 * added to the scores, and `past_key` and `past_value` `[batch, 2, past, 4]`, of which the first call has none; `y` like
 * `x`, and `present_key` and `present_value`, longer by `seq`.
 */
export function attentionModel(): Uint8Array {
  const [past, seq, both] = ['past_sequence_length', 'sequence_length', 'past_sequence_length + sequence_length'];
  return encodeModel({
    inputs: [
      value('x', 'batch', HEADS, seq, WIDTH),
      value('mask', 'batch', both),
      value('past_key', 'batch', HEADS, past, WIDTH),
      value('past_value', 'batch', HEADS, past, WIDTH),
    ],
    outputs: [
      value('y', 'batch', HEADS, seq, WIDTH),
      value('present_key', 'batch', HEADS, both, WIDTH),
      value('present_value', 'batch', HEADS, both, WIDTH),
    ],
    nodes: [
      { op: 'Concat', inputs: ['past_key', 'x'], outputs: ['present_key'], attributes: { axis: 2 } },
      { op: 'Concat', inputs: ['past_value', 'x'], outputs: ['present_value'], attributes: { axis: 2 } },
      { op: 'Transpose', inputs: ['present_key'], outputs: ['keys'], attributes: { perm: [0, 1, 3, 2] } },
      { op: 'MatMul', inputs: ['x', 'keys'], outputs: ['scores'] },
      // As real decoders do: a mask of another length is an error, not one value for all.
      { op: 'Shape', inputs: ['scores'], outputs: ['length'], attributes: { start: 3 } },
      { op: 'Shape', inputs: ['x'], outputs: ['rows'], attributes: { start: 0, end: 1 } },
      { op: 'Concat', inputs: ['rows', 'ones', 'length'], outputs: ['wide'], attributes: { axis: 0 } },
      { op: 'Reshape', inputs: ['mask', 'wide'], outputs: ['bias'] },
      { op: 'Add', inputs: ['scores', 'bias'], outputs: ['masked'] },
      { op: 'Softmax', inputs: ['masked'], outputs: ['weights'], attributes: { axis: 3 } },
      { op: 'MatMul', inputs: ['weights', 'present_value'], outputs: ['y'] },
    ],
    constants: [{ name: 'ones', dataType: DataType.INT64, dims: [2], int64Data: [1, 1] }],
  });
}
