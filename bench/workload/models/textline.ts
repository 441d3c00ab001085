import { buildGraph, type GraphBuilder } from './graph.ts';

/** Pixels of a column. */
export const LINE_HEIGHT = 32;

const CHARACTERS = 48;
/** Output channels of each convolution; after each the height is halved, and the width stays. */
const CHANNELS = [32, 64, 128] as const;

/** Numbers of ONNX element types, for casts. */
const CAST_TO = { FP32: 1, BOOL: 9 } as const;

/**
 * Reads lines of text. `columns` uint8 `[batch, width, 32]`: a picture column after column, from 1 for white to 255 for
 * black, padded with zeros. `logits` float32 `[batch, width, 48]`: of the characters, at each column. One line has so
 * much arithmetic per weight that a batch gains nothing.
 */
export function encodeTextline(seed: number): Uint8Array {
  const graph = buildGraph(seed);
  const mask = columnMask(graph);
  const pixels = graph.node('Div', [graph.node('Cast', ['columns'], { to: CAST_TO.FP32 }), graph.floats([1], [255])]);
  const upright = graph.node('Transpose', [pixels], { perm: [0, 2, 1] });
  let value = graph.node('Unsqueeze', [upright, graph.integers([1])]);
  let before = 1;
  for (const channels of CHANNELS) {
    const weights = graph.weights([channels, before, 3, 3], (9 * before) / 2);
    const attributes = { kernel_shape: [3, 3], pads: [1, 1, 1, 1] };
    const convolved = graph.node('Conv', [value, weights, graph.weights([channels], 100)], attributes);
    const kept = graph.node('Mul', [graph.node('Relu', [convolved]), mask]);
    value = graph.node('MaxPool', [kept], { kernel_shape: [2, 1], strides: [2, 1] });
    before = channels;
  }
  const flat = graph.node('ReduceMean', [value, graph.integers([2])], { keepdims: 0 });
  const perColumn = graph.node('Transpose', [flat], { perm: [0, 2, 1] });
  const product = graph.node('MatMul', [perColumn, graph.weights([before, CHARACTERS], before)]);
  graph.node('Add', [product, graph.weights([CHARACTERS], 100)], {}, 'logits');
  return graph.encode(
    [{ name: 'columns', datatype: 'UINT8', shape: ['batch', 'width', LINE_HEIGHT] }],
    [{ name: 'logits', datatype: 'FP32', shape: ['batch', 'width', CHARACTERS] }],
  );
}

/** float32 `[batch, 1, 1, width]`: 0 at columns of zeros, which are padding, else 1. */
function columnMask(graph: GraphBuilder): string {
  const most = graph.node('ReduceMax', ['columns', graph.integers([2])], { keepdims: 0 });
  const kept = graph.node('Cast', [graph.node('Cast', [most], { to: CAST_TO.BOOL })], { to: CAST_TO.FP32 });
  return graph.node('Unsqueeze', [kept, graph.integers([1, 2])]);
}
