import { buildGraph, encodeModel, type GraphBuilder } from './encodeModel.ts';
import { createRandom } from './random.ts';

/** Number of the ONNX element type, for casts. */
const CAST_TO_FLOAT = 1;

/**
 * Encodes a multilayer perceptron with ReLU between the layers and softmax at the end. `features` is float32
 * `[batch, widths[0]]`, `probabilities` is float32 `[batch, widths.at(-1)]`.
 *
 * @param widths widths of the input, the hidden layers and the output
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

/** Channels, height and width of an image. */
export const IMAGE_SHAPE = [3, 32, 32] as const;

const CONVNET_CLASSES = 10;

/** Output channels and stride of each convolution. */
const CONVNET_LAYERS = [
  { channels: 64, stride: 1 },
  { channels: 64, stride: 1 },
  { channels: 128, stride: 2 },
  { channels: 128, stride: 1 },
  { channels: 256, stride: 2 },
] as const;

/**
 * Encodes 3×3 convolutions. Their arithmetic per weight is so high that one image uses every core, and a batch gains
 * nothing. `image` is float32 `[batch, 3, 32, 32]`, `logits` is float32 `[batch, 10]`.
 */
export function encodeConvnet(seed: number): Uint8Array {
  const graph = buildGraph(seed);
  let value = 'image';
  let channelsBefore: number = IMAGE_SHAPE[0];
  for (const { channels, stride } of CONVNET_LAYERS) {
    const weights = graph.weights([channels, channelsBefore, 3, 3], (9 * channelsBefore) / 2);
    const attributes = { kernel_shape: [3, 3], strides: [stride, stride], pads: [1, 1, 1, 1] };
    value = graph.node('Relu', [graph.node('Conv', [value, weights, graph.weights([channels], 100)], attributes)]);
    channelsBefore = channels;
  }
  const pooled = graph.node('Flatten', [graph.node('GlobalAveragePool', [value])], { axis: 1 });
  graph.node('Gemm', [pooled, graph.weights([channelsBefore, CONVNET_CLASSES], channelsBefore)], {}, 'logits');
  return graph.encode(
    [{ name: 'image', datatype: 'FP32', shape: ['batch', ...IMAGE_SHAPE] }],
    [{ name: 'logits', datatype: 'FP32', shape: ['batch', CONVNET_CLASSES] }],
  );
}

/**
 * Size of the vocabulary. It is small to keep the file small, which does not affect the cost of a look-up. The encoder
 * has half the layers of MiniLM-L6.
 */
export const VOCABULARY = 4096;
const ENCODER_LAYERS = 3;
const ENCODER_HIDDEN = 384;
const ENCODER_HEADS = 12;
const ENCODER_FEED_FORWARD = 1536;
const ENCODER_POSITIONS = 512;

/**
 * Encodes a sentence encoder. `input_ids` and `attention_mask` are int64 `[batch, sequence]`, `embedding` is float32
 * `[batch, 384]`: the mean over the positions that the mask keeps. Other positions change nothing.
 */
export function encodeEncoder(seed: number): Uint8Array {
  const graph = buildGraph(seed);
  const mask = graph.node('Cast', ['attention_mask'], { to: CAST_TO_FLOAT });
  const bias = attentionBias(graph, mask);
  let hidden = embed(graph);
  for (let layer = 0; layer < ENCODER_LAYERS; layer++) {
    hidden = normalize(graph, graph.node('Add', [hidden, attend(graph, hidden, bias)]));
    hidden = normalize(graph, graph.node('Add', [hidden, feedForward(graph, hidden)]));
  }
  meanOverMask(graph, hidden, mask, 'embedding');
  const tokens = ['batch', 'sequence'];
  return graph.encode(
    [
      { name: 'input_ids', datatype: 'INT64', shape: tokens },
      { name: 'attention_mask', datatype: 'INT64', shape: tokens },
    ],
    [{ name: 'embedding', datatype: 'FP32', shape: ['batch', ENCODER_HIDDEN] }],
  );
}

/**
 * Adds a bias, float32 `[batch, 1, 1, sequence]`: 0 if the mask keeps a position, otherwise so low that its exp is 0.
 */
function attentionBias(graph: GraphBuilder, mask: string): string {
  const left = graph.node('Sub', [graph.floats([1], [1]), mask]);
  const bias = graph.node('Mul', [left, graph.floats([1], [-10_000])]);
  return graph.node('Unsqueeze', [bias, graph.integers([1, 2])]);
}

/** Adds the embeddings of the tokens and their positions, float32 `[batch, sequence, hidden]`. */
function embed(graph: GraphBuilder): string {
  const words = graph.node('Gather', [graph.weights([VOCABULARY, ENCODER_HIDDEN], 1), 'input_ids']);
  const length = graph.node('Shape', ['input_ids'], { start: 1, end: 2 });
  const positions = graph.node('Slice', [
    graph.weights([ENCODER_POSITIONS, ENCODER_HIDDEN], 1),
    graph.integers([0]),
    length,
    graph.integers([0]),
  ]);
  return normalize(graph, graph.node('Add', [words, positions]));
}

function attend(graph: GraphBuilder, hidden: string, bias: string): string {
  const headWidth = ENCODER_HIDDEN / ENCODER_HEADS;
  const toHeads = graph.integers([0, 0, ENCODER_HEADS, headWidth]);
  const heads = (perm: readonly number[]): string =>
    graph.node('Transpose', [graph.node('Reshape', [dense(graph, hidden, ENCODER_HIDDEN, ENCODER_HIDDEN), toHeads])], {
      perm,
    });
  const queries = heads([0, 2, 1, 3]);
  const keys = heads([0, 2, 3, 1]);
  const values = heads([0, 2, 1, 3]);
  const products = graph.node('MatMul', [queries, keys]);
  const scores = graph.node('Div', [products, graph.floats([1], [Math.sqrt(headWidth)])]);
  const shares = graph.node('Softmax', [graph.node('Add', [scores, bias])], { axis: 3 });
  const mixed = graph.node('Transpose', [graph.node('MatMul', [shares, values])], { perm: [0, 2, 1, 3] });
  const joined = graph.node('Reshape', [mixed, graph.integers([0, 0, ENCODER_HIDDEN])]);
  return dense(graph, joined, ENCODER_HIDDEN, ENCODER_HIDDEN);
}

function feedForward(graph: GraphBuilder, hidden: string): string {
  const wide = graph.node('Gelu', [dense(graph, hidden, ENCODER_HIDDEN, ENCODER_FEED_FORWARD)]);
  return dense(graph, wide, ENCODER_FEED_FORWARD, ENCODER_HIDDEN);
}

function dense(graph: GraphBuilder, value: string, from: number, to: number): string {
  const product = graph.node('MatMul', [value, graph.weights([from, to], from)]);
  return graph.node('Add', [product, graph.weights([to], 100)]);
}

function normalize(graph: GraphBuilder, value: string): string {
  const scale = graph.floats([ENCODER_HIDDEN], Array(ENCODER_HIDDEN).fill(1));
  return graph.node('LayerNormalization', [value, scale, graph.weights([ENCODER_HIDDEN], 100)]);
}

function meanOverMask(graph: GraphBuilder, hidden: string, mask: string, output: string): string {
  const overPositions = graph.integers([1]);
  const kept = graph.node('Mul', [hidden, graph.node('Unsqueeze', [mask, graph.integers([2])])]);
  const sum = graph.node('ReduceSum', [kept, overPositions], { keepdims: 0 });
  const count = graph.node('ReduceSum', [mask, overPositions], { keepdims: 1 });
  return graph.node('Div', [sum, count], {}, output);
}

/** Columns of the table that `encodeTrees` scores: numbers, and the text `city`. */
export const TABLE_NUMBERS = ['c0', 'c1', 'c2', 'c3', 'c4', 'c5', 'c6'] as const;
export const TABLE_CITIES = ['Aarhus', 'Bergen', 'Cork', 'Delft', 'Espoo', 'Faro', 'Ghent', 'Hull'] as const;

const TREES = 50;
const DEPTH = 5;
const ML = 'ai.onnx.ml';

/**
 * Encodes a boosted forest as LightGBM exports it. `c0` … `c6` are float32 `[batch, 1]`, `city` is string `[batch, 1]`,
 * `score` is float32 `[batch, 1]`.
 */
export function encodeTrees(seed: number): Uint8Array {
  const random = createRandom(seed);
  const inner = 2 ** DEPTH - 1;
  const nodes = Array.from({ length: TREES }, (_, tree) =>
    Array.from({ length: 2 * inner + 1 }, (_, node) => ({ tree, node, isLeaf: node >= inner })),
  ).flat();
  const leaves = nodes.filter(({ isLeaf }) => isLeaf);
  const names = [...TABLE_NUMBERS, 'city'];
  const column = (name: string) => ({ name, shape: ['batch', 1] });
  return encodeModel({
    inputs: names.map((name) => ({ ...column(name), datatype: name === 'city' ? 'BYTES' : 'FP32' })),
    outputs: [{ ...column('score'), datatype: 'FP32' }],
    nodes: [
      {
        op: 'LabelEncoder',
        domain: ML,
        inputs: ['city'],
        outputs: ['cityCode'],
        attributes: { keys_strings: TABLE_CITIES, values_floats: { floats: TABLE_CITIES.map((_, code) => code / 8) } },
      },
      { op: 'Concat', inputs: [...TABLE_NUMBERS, 'cityCode'], outputs: ['features'], attributes: { axis: 1 } },
      {
        op: 'TreeEnsembleRegressor',
        domain: ML,
        inputs: ['features'],
        outputs: ['score'],
        attributes: {
          n_targets: 1,
          nodes_treeids: nodes.map(({ tree }) => tree),
          nodes_nodeids: nodes.map(({ node }) => node),
          nodes_featureids: nodes.map(({ isLeaf }) => (isLeaf ? 0 : Math.floor(random.next() * names.length))),
          nodes_modes: nodes.map(({ isLeaf }) => (isLeaf ? 'LEAF' : 'BRANCH_LEQ')),
          nodes_values: { floats: nodes.map(({ isLeaf }) => (isLeaf ? 0 : random.next())) },
          nodes_truenodeids: nodes.map(({ node, isLeaf }) => (isLeaf ? 0 : 2 * node + 1)),
          nodes_falsenodeids: nodes.map(({ node, isLeaf }) => (isLeaf ? 0 : 2 * node + 2)),
          target_treeids: leaves.map(({ tree }) => tree),
          target_nodeids: leaves.map(({ node }) => node),
          target_ids: leaves.map(() => 0),
          target_weights: { floats: leaves.map(() => random.next() - 0.5) },
        },
      },
    ],
  });
}
