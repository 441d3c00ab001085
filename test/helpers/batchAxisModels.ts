import { type Constant, DataType, encodeModel, type GraphNode } from '../../bench/workload/encodeModel.ts';

const HIDDEN = 3;

/** A float32 constant that holds small values of both signs. */
function weights(name: string, ...dims: readonly number[]): Constant {
  const elements = dims.reduce((product, dim) => product * dim, 1);
  const floatData = Array.from({ length: elements }, (_, index) => Math.sin(3 * index + name.length) / 2);
  return { name, dataType: DataType.FLOAT, dims: [...dims], floatData };
}

function axes(name: string, ...values: readonly number[]): Constant {
  return { name, dataType: DataType.INT64, dims: [values.length], int64Data: [...values] };
}

/** One layer of LSTM that is `features` wide: `x` `[seq, batch, features]` to `y` `[seq, 1, batch, 3]` and its last state. */
function lstm(x: string, initial: readonly string[], y: string, last: readonly string[]): GraphNode {
  const inputs = [x, 'w', 'r', '', '', ...initial];
  return { op: 'LSTM', inputs, outputs: [y, ...last], attributes: { hidden_size: HIDDEN } };
}

/**
 * A voice detector that carries its state: float32 `input` `[batch, samples]` of 4 samples and `state` `[2, batch, 3]`,
 * the scalar int64 `sr`; float32 `output` `[batch, 3]` and `new_state` `[2, batch, 3]`.
 */
export function voiceModel(batch: string | number = 'batch', ofState = batch): Uint8Array {
  return encodeModel({
    inputs: [
      { name: 'input', datatype: 'FP32', shape: [batch, 4] },
      { name: 'state', datatype: 'FP32', shape: [2, ofState, HIDDEN] },
      { name: 'sr', datatype: 'INT64', shape: [] },
    ],
    outputs: [
      { name: 'output', datatype: 'FP32', shape: [batch, HIDDEN] },
      { name: 'new_state', datatype: 'FP32', shape: [2, ofState, HIDDEN] },
    ],
    nodes: [
      { op: 'Cast', inputs: ['sr'], outputs: ['rate'], attributes: { to: DataType.FLOAT } },
      { op: 'Div', inputs: ['rate', 'usual_rate'], outputs: ['scale'] },
      { op: 'Mul', inputs: ['input', 'scale'], outputs: ['scaled'] },
      { op: 'Unsqueeze', inputs: ['scaled', 'axis_0'], outputs: ['x'] },
      { op: 'Split', inputs: ['state'], outputs: ['h', 'c'], attributes: { axis: 0, num_outputs: 2 } },
      lstm('x', ['h', 'c'], 'y', ['new_h', 'new_c']),
      { op: 'Squeeze', inputs: ['new_h', 'axis_0'], outputs: ['output'] },
      { op: 'Concat', inputs: ['new_h', 'new_c'], outputs: ['new_state'], attributes: { axis: 0 } },
    ],
    constants: [
      weights('w', 1, 4 * HIDDEN, 4),
      weights('r', 1, 4 * HIDDEN, HIDDEN),
      axes('axis_0', 0),
      { name: 'usual_rate', dataType: DataType.FLOAT, dims: [], floatData: [16_000] },
    ],
  });
}

/**
 * An LSTM as PyTorch exports it without `batch_first`: float32 `input` `[seq, batch, 2]` to `output` `[seq, batch, 3]`.
 * What comes later in a row changes nothing before it, so that padding at the end is harmless.
 */
export function sequenceFirstModel(batch: string | number = 'batch', seqOfOutput = 'seq'): Uint8Array {
  return encodeModel({
    inputs: [{ name: 'input', datatype: 'FP32', shape: ['seq', batch, 2] }],
    outputs: [{ name: 'output', datatype: 'FP32', shape: [seqOfOutput, batch, HIDDEN] }],
    nodes: [lstm('input', [], 'y', []), { op: 'Squeeze', inputs: ['y', 'axis_1'], outputs: ['output'] }],
    constants: [weights('w', 1, 4 * HIDDEN, 2), weights('r', 1, 4 * HIDDEN, HIDDEN), axes('axis_1', 1)],
  });
}

/** Gives int64 `tokens` `[seq, batch]` and string `words` `[2, 2, batch]` back as `same_tokens` and `same_words`. */
export function columnsModel(): Uint8Array {
  const tokens = { datatype: 'INT64', shape: ['seq', 'batch'] } as const;
  const words = { datatype: 'BYTES', shape: [2, 2, 'batch'] } as const;
  return encodeModel({
    inputs: [
      { name: 'tokens', ...tokens },
      { name: 'words', ...words },
    ],
    outputs: [
      { name: 'same_tokens', ...tokens },
      { name: 'same_words', ...words },
    ],
    nodes: [
      { op: 'Identity', inputs: ['tokens'], outputs: ['same_tokens'] },
      { op: 'Identity', inputs: ['words'], outputs: ['same_words'] },
    ],
  });
}
