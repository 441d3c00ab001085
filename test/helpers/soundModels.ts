import { DataType, encodeModel, type GraphValue } from '../../bench/workload/models/encodeModel.ts';

const HEADS = 2;
const WIDTH = 4;

/**
 * One layer of attention as a decoder of text has it: float32 `x` `[batch, 2, seq, 4]`, `mask` `[batch, past + seq]`,
 * added to the scores, and `past_key` and `past_value` `[batch, 2, past, 4]`, of which the first call has none; `y` like
 * `x`, and `present_key` and `present_value`, longer by `seq`.
 */
export function attentionModel(): Uint8Array {
  const value = (name: string, ...shape: GraphValue['shape']): GraphValue => ({ name, datatype: 'FP32', shape });
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
