import { buildGraph, type GraphBuilder } from './graph.ts';

/** The shape of MiniLM-L6, but for a smaller vocabulary, to keep the file small: a look-up costs the same in any. */
export const VOCABULARY = 4096;
const LAYERS = 6;
const HIDDEN = 384;
const HEADS = 12;
const FEED_FORWARD = 1536;
const POSITIONS = 512;

/** Numbers of ONNX element types, for casts. */
const CAST_TO = { FP32: 1, FP16: 10 } as const;

/**
 * A sentence encoder. `input_ids` and `attention_mask` int64 `[batch, sequence]`, `embedding` float32 `[batch, 384]`:
 * the mean over the positions that the mask keeps. Positions that it leaves out change nothing.
 *
 * @param floats what it computes with; its output is float32 either way
 * @param layers of attention. @default as MiniLM-L6
 */
export function encodeTransformer(seed: number, floats: 'FP16' | 'FP32' = 'FP32', layers = LAYERS): Uint8Array {
  const graph = buildGraph(seed, floats);
  const mask = graph.node('Cast', ['attention_mask'], { to: CAST_TO[floats] });
  const bias = attentionBias(graph, mask);
  let hidden = embed(graph);
  for (let layer = 0; layer < layers; layer++) {
    hidden = normalize(graph, graph.node('Add', [hidden, attend(graph, hidden, bias)]));
    hidden = normalize(graph, graph.node('Add', [hidden, feedForward(graph, hidden)]));
  }
  if (floats === 'FP32') meanOverMask(graph, hidden, mask, 'embedding');
  else graph.node('Cast', [meanOverMask(graph, hidden, mask)], { to: CAST_TO.FP32 }, 'embedding');
  const tokens = ['batch', 'sequence'];
  return graph.encode(
    [
      { name: 'input_ids', datatype: 'INT64', shape: tokens },
      { name: 'attention_mask', datatype: 'INT64', shape: tokens },
    ],
    [{ name: 'embedding', datatype: 'FP32', shape: ['batch', HIDDEN] }],
  );
}

/** float32 `[batch, 1, 1, sequence]`: 0 where the mask keeps a position, elsewhere so low that its exp is 0. */
function attentionBias(graph: GraphBuilder, mask: string): string {
  const left = graph.node('Sub', [graph.floats([1], [1]), mask]);
  const bias = graph.node('Mul', [left, graph.floats([1], [-10_000])]);
  return graph.node('Unsqueeze', [bias, graph.integers([1, 2])]);
}

/** float32 `[batch, sequence, hidden]`: of the tokens and of their positions. */
function embed(graph: GraphBuilder): string {
  const words = graph.node('Gather', [graph.weights([VOCABULARY, HIDDEN], 1), 'input_ids']);
  const length = graph.node('Shape', ['input_ids'], { start: 1, end: 2 });
  const positions = graph.node('Slice', [
    graph.weights([POSITIONS, HIDDEN], 1),
    graph.integers([0]),
    length,
    graph.integers([0]),
  ]);
  return normalize(graph, graph.node('Add', [words, positions]));
}

function attend(graph: GraphBuilder, hidden: string, bias: string): string {
  const headWidth = HIDDEN / HEADS;
  const toHeads = graph.integers([0, 0, HEADS, headWidth]);
  const heads = (perm: readonly number[]): string =>
    graph.node('Transpose', [graph.node('Reshape', [dense(graph, hidden, HIDDEN, HIDDEN), toHeads])], { perm });
  const queries = heads([0, 2, 1, 3]);
  const keys = heads([0, 2, 3, 1]);
  const values = heads([0, 2, 1, 3]);
  const products = graph.node('MatMul', [queries, keys]);
  const scores = graph.node('Div', [products, graph.floats([1], [Math.sqrt(headWidth)])]);
  const shares = graph.node('Softmax', [graph.node('Add', [scores, bias])], { axis: 3 });
  const mixed = graph.node('Transpose', [graph.node('MatMul', [shares, values])], { perm: [0, 2, 1, 3] });
  const joined = graph.node('Reshape', [mixed, graph.integers([0, 0, HIDDEN])]);
  return dense(graph, joined, HIDDEN, HIDDEN);
}

function feedForward(graph: GraphBuilder, hidden: string): string {
  const wide = graph.node('Gelu', [dense(graph, hidden, HIDDEN, FEED_FORWARD)]);
  return dense(graph, wide, FEED_FORWARD, HIDDEN);
}

function dense(graph: GraphBuilder, value: string, from: number, to: number): string {
  const product = graph.node('MatMul', [value, graph.weights([from, to], from)]);
  return graph.node('Add', [product, graph.weights([to], 100)]);
}

function normalize(graph: GraphBuilder, value: string): string {
  const scale = graph.floats([HIDDEN], Array(HIDDEN).fill(1));
  return graph.node('LayerNormalization', [value, scale, graph.weights([HIDDEN], 100)]);
}

function meanOverMask(graph: GraphBuilder, hidden: string, mask: string, output?: string): string {
  const overPositions = graph.integers([1]);
  const kept = graph.node('Mul', [hidden, graph.node('Unsqueeze', [mask, graph.integers([2])])]);
  const sum = graph.node('ReduceSum', [kept, overPositions], { keepdims: 0 });
  const count = graph.node('ReduceSum', [mask, overPositions], { keepdims: 1 });
  return graph.node('Div', [sum, count], {}, output);
}
