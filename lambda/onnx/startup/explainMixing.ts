import type { ModelGraph, Operator } from './modelGraph.ts';

const DYNAMIC_QUANTISATION = [
  'DynamicQuantizeLinear',
  'DynamicQuantizeMatMul',
  'DynamicQuantizeLSTM',
  'MatMulIntegerToFloat',
];
const RECURRENT = ['LSTM', 'GRU', 'RNN'];

/** Whether the scale of activations is taken over all rows of a run. */
export function isDynamicallyQuantised({ operators }: ModelGraph): boolean {
  return DYNAMIC_QUANTISATION.some((name) => operators.has(name));
}

/** Whether a recurrent layer may have axis 0 for its time axis. */
export function isRecurrent({ operators }: ModelGraph): boolean {
  return RECURRENT.some((name) => operators.has(name));
}

export const CURE_OF_DYNAMIC_QUANTISATION = 'quantise statically (onnxruntime.quantization.quantize_static)';

/** Why rows probably depend on each other, and what to do. */
export function explainMixing(graph: ModelGraph): string {
  if (isDynamicallyQuantised(graph)) {
    return (
      'probable cause: dynamic quantisation, which takes the scale of its activations from all rows of a run; ' +
      CURE_OF_DYNAMIC_QUANTISATION
    );
  }
  const training = namesWhere(graph, ({ training }) => training);
  if (training !== '') {
    return `probable cause: ${training} in training mode; export the model for inference (PyTorch: model.eval() first)`;
  }
  const overBatch = namesWhere(graph, ({ overBatch }, name) => overBatch && WORKS_ALONG_AN_AXIS.test(name));
  if (overBatch !== '') {
    return `probable cause: ${overBatch} along axis 0, the batch axis; have it work along another one, and export again`;
  }
  return 'an operator works across axis 0: export the model so that none does';
}

/** Others, such as Gather and Concat, do so too when they compute shapes. */
export const WORKS_ALONG_AN_AXIS = /softmax|Hardmax|^Reduce|^Arg|^TopK|Normalization|^Unique|^Compress|^CumSum/i;

function namesWhere({ operators }: ModelGraph, isMeant: (operator: Operator, name: string) => boolean): string {
  return [...operators].flatMap(([name, operator]) => (isMeant(operator, name) ? [name] : [])).join(', ');
}
