import { buildGraph } from './graph.ts';

/**
 * A multilayer perceptron: ReLU between the layers, softmax at the end. `features` float32 `[batch, widths[0]]`,
 * `probabilities` float32 `[batch, widths.at(-1)]`.
 *
 * @param widths of the input, the hidden layers and the output
 */
export function encodeMlp(widths: readonly [number, number, ...number[]], seed: number): Uint8Array {
  const graph = buildGraph(seed);
  let value = 'features';
  for (const [layer, width] of widths.slice(1).entries()) {
    const widthBefore = widths[layer] as number;
    if (layer > 0) value = graph.node('Relu', [value]);
    value = graph.node('Gemm', [value, graph.weights([widthBefore, width], widthBefore), graph.weights([width], 100)]);
  }
  graph.node('Softmax', [value], { axis: 1 }, 'probabilities');
  return graph.encode(
    [{ name: 'features', datatype: 'FP32', shape: ['batch', widths[0]] }],
    [{ name: 'probabilities', datatype: 'FP32', shape: ['batch', widths.at(-1) as number] }],
  );
}
