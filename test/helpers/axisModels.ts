/** Models whose axes are out of the ordinary: the batch is not the first, lengths differ, outputs have no rows. */
import { DataType, tensorType } from '../../bench/workload/encodeModel.ts';
import { float, ints, ml, model, node, values, weights } from './graph.ts';

const AXIS_0 = ints('axis_0', 0);
const AXIS_1 = ints('axis_1', 1);
const FLOATS = tensorType({ datatype: 'FP32', shape: ['batch', 3] });

/**
 * A voice detector that carries its state: float32 `input` `[batch, samples]` of 4 samples and `state` `[2, batch, 3]`,
 * the scalar int64 `sr`; float32 `output` `[batch, 3]` and `new_state` `[2, batch, 3]`.
 */
export function voiceModel(batch: string | number = 'batch', ofState = batch): Uint8Array {
  return model(
    `input FP32[${batch},4]; state FP32[2,${ofState},3]; sr INT64[]`,
    `output FP32[${batch},3]; new_state FP32[2,${ofState},3]`,
    [
      node('Cast', 'sr', 'rate', { to: DataType.FLOAT }),
      node('Div', 'rate usual_rate', 'scale'),
      node('Mul', 'input scale', 'scaled'),
      node('Unsqueeze', 'scaled axis_0', 'x'),
      node('Split', 'state', 'h c', { axis: 0, num_outputs: 2 }),
      node('LSTM', 'x w r - - h c', 'y new_h new_c', { hidden_size: 3 }),
      node('Squeeze', 'new_h axis_0', 'output'),
      node('Concat', 'new_h new_c', 'new_state', { axis: 0 }),
    ],
    [weights('w', 1, 12, 4), weights('r', 1, 12, 3), AXIS_0, float('usual_rate', 16_000)],
  );
}

/**
 * An LSTM as PyTorch exports it without `batch_first`: float32 `input` `[seq, batch, 2]` to `output` `[seq, batch, 3]`.
 * What comes later in a row changes nothing before it, so that padding at the end is harmless.
 */
export function sequenceFirstModel(batch: string | number = 'batch', seqOfOutput = 'seq'): Uint8Array {
  return model(
    `input FP32[seq,${batch},2]`,
    `output FP32[${seqOfOutput},${batch},3]`,
    [node('LSTM', 'input w r', 'y', { hidden_size: 3 }), node('Squeeze', 'y axis_1', 'output')],
    [weights('w', 1, 12, 2), weights('r', 1, 12, 3), AXIS_1],
  );
}

/** Gives int64 `tokens` `[seq, batch]` and string `words` `[2, 2, batch]` back as `same_tokens` and `same_words`. */
export function columnsModel(): Uint8Array {
  return model(
    'tokens INT64[seq,batch]; words BYTES[2,2,batch]',
    'same_tokens INT64[seq,batch]; same_words BYTES[2,2,batch]',
    [node('Identity', 'tokens', 'same_tokens'), node('Identity', 'words', 'same_words')],
  );
}

/** Gives float32 `[batch, length]` back, and calls its second axis something else. */
export function renamedLengthModel(): Uint8Array {
  return model('x FP32[batch,length]', 'y FP32[batch,time]', [node('Identity', 'x', 'y')]);
}

/** The largest of each row of float32 `[batch, length]` below 40, quantised dynamically before. */
export function quantisedInPlaceModel(): Uint8Array {
  return model(
    'x FP32[batch,length]',
    'y FP32[batch,1]',
    [
      node('DynamicQuantizeLinear', 'x', 'q scale zero'),
      node('DequantizeLinear', 'q scale zero', 'rough'),
      node('Less', 'x limit', 'real'),
      node('Where', 'real rough least', 'kept'),
      node('ReduceMax', 'kept axis_1', 'y'),
    ],
    [AXIS_1, float('limit', 40), float('least', -1000)],
  );
}

/** What an operator reduces each row of `x` `[batch, length]` to. */
export function reducingModel(op: 'ReduceMax' | 'ReduceMin', datatype: 'FP32' | 'INT64'): Uint8Array {
  return model(`x ${datatype}[batch,length]`, `y ${datatype}[batch,1]`, [node(op, 'x axis_1', 'y')], [AXIS_1]);
}

/**
 * Attends to float32 `values` `[batch, length]` where float32 `mask` is 1, as exported transformers do: 10,000 times what
 * the mask is short of 1 is taken off before the softmax.
 */
export function additiveMaskModel(): Uint8Array {
  return model(
    'values FP32[batch,length]; mask FP32[batch,length]',
    'y FP32[batch,1]',
    [
      node('Sub', 'one mask', 'missing'),
      node('Mul', 'missing much', 'penalty'),
      node('Sub', 'values penalty', 'scores'),
      node('Softmax', 'scores', 'attention', { axis: 1 }),
      node('Mul', 'attention values', 'weighted'),
      node('ReduceSum', 'weighted axis_1', 'y'),
    ],
    [AXIS_1, float('one', 1), float('much', 10_000)],
  );
}

/**
 * A classifier as skl2onnx exports it: strings `label` `[batch]`, and `probabilities`, a sequence of maps by label. They
 * are the three numbers of a row of `x`.
 *
 * @param hasOthers true to have operators of ONNX's own domain too
 */
export function zipMapModel(hasOthers = false): Uint8Array {
  const byLabel = { keyType: DataType.STRING, valueType: tensorType({ datatype: 'FP32', shape: [] }) };
  const labels = { classlabels_strings: ['low', 'middle', 'high'] };
  const coefficients = { coefficients: { floats: [1, 0, 0, 0, 1, 0, 0, 0, 1] }, intercepts: { floats: [0, 0, 0] } };
  return model(
    'x FP32[?,3]',
    [
      ...values('label BYTES[?]'),
      { name: 'probabilities', type: { sequenceType: { elemType: { mapType: byLabel } } } },
    ],
    [
      ...(hasOthers ? [node('Identity', 'x', 'numbers')] : []),
      ml('LinearClassifier', hasOthers ? 'numbers' : 'x', 'label scores', { ...coefficients, ...labels }),
      ml('ZipMap', 'scores', 'probabilities', labels),
    ],
  );
}

/** `y` is float32 `x` `[batch, 3]`, and so is what the optional `maybe` holds. */
export function optionalOutputModel(): Uint8Array {
  return model(
    'x FP32[batch,3]',
    [...values('y FP32[batch,3]'), { name: 'maybe', type: { optionalType: { elemType: FLOATS } } }],
    [node('Identity', 'x', 'y'), node('Optional', 'x', 'maybe')],
  );
}

/**
 * `y` is float32 `x` `[batch, 3]`. Beside it: `classes` `[7]`, the same for all; the scalar `loss` and the `mean` `[1, 1]`
 * over everything; `columns` `[3, batch]`, which is `x` transposed; and `flat` `[3 * batch]`.
 */
export function extraOutputsModel(): Uint8Array {
  return model(
    'x FP32[batch,3]',
    'classes INT64[7]; y FP32[batch,3]; loss FP32[]; mean FP32[1,1]; columns FP32[3,batch]; flat FP32[?]',
    [
      node('Identity', 'seven', 'classes'),
      node('Identity', 'x', 'y'),
      node('ReduceMean', 'x', 'loss', { keepdims: 0 }),
      node('ReduceMean', 'x', 'mean', { keepdims: 1 }),
      node('Transpose', 'x', 'columns', { perm: [1, 0] }),
      node('Reshape', 'x all', 'flat'),
    ],
    [ints('seven', 1, 2, 3, 4, 5, 6, 7), ints('all', -1)],
  );
}

/**
 * `y` is float32 `x` `[batch, length]` times the scalar `scale`, its second axis called otherwise; `new_state` is `state`
 * `[2, batch, 3]`. Beside them the scalar `loss`, and `pieces`, a sequence.
 */
export function everyGapModel(): Uint8Array {
  return model(
    'x FP32[batch,length]; state FP32[2,batch,3]; scale FP32[]',
    [
      ...values('y FP32[batch,time]; new_state FP32[2,batch,3]; loss FP32[]'),
      { name: 'pieces', type: { sequenceType: { elemType: FLOATS } } },
    ],
    [
      node('Mul', 'x scale', 'y'),
      node('Identity', 'state', 'new_state'),
      node('ReduceMean', 'x', 'loss', { keepdims: 0 }),
      node('SequenceConstruct', 'x', 'pieces'),
    ],
  );
}

/**
 * One layer of attention as a decoder of text has it: float32 `x` `[batch, 2, seq, 4]`, `mask` `[batch, past + seq]`,
 * added to the scores, and `past_key` and `past_value` `[batch, 2, past, 4]`, of which the first call has none; `y` like
 * `x`, and `present_key` and `present_value`, longer by `seq`.
 */
export function attentionModel(): Uint8Array {
  const [past, seq, both] = ['past_sequence_length', 'sequence_length', 'past_sequence_length + sequence_length'];
  return model(
    `x FP32[batch,2,${seq},4]; mask FP32[batch,${both}]; past_key FP32[batch,2,${past},4]; past_value FP32[batch,2,${past},4]`,
    `y FP32[batch,2,${seq},4]; present_key FP32[batch,2,${both},4]; present_value FP32[batch,2,${both},4]`,
    [
      node('Concat', 'past_key x', 'present_key', { axis: 2 }),
      node('Concat', 'past_value x', 'present_value', { axis: 2 }),
      node('Transpose', 'present_key', 'keys', { perm: [0, 1, 3, 2] }),
      node('MatMul', 'x keys', 'scores'),
      // As real decoders do: a mask of another length is an error, not one value for all.
      node('Shape', 'scores', 'length', { start: 3 }),
      node('Shape', 'x', 'rows', { start: 0, end: 1 }),
      node('Concat', 'rows ones length', 'wide', { axis: 0 }),
      node('Reshape', 'mask wide', 'bias'),
      node('Add', 'scores bias', 'masked'),
      node('Softmax', 'masked', 'weights', { axis: 3 }),
      node('MatMul', 'weights present_value', 'y'),
    ],
    [ints('ones', 1, 1)],
  );
}
