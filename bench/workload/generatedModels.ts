import { buildGraph, encodeModel, type GraphBuilder, type Precision } from './encodeModel.ts';
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
    value = relu(graph, convolve(graph, value, { from: channelsBefore, to: channels, kernel: 3, stride }));
    channelsBefore = channels;
  }
  const pooled = graph.node('Flatten', [graph.node('GlobalAveragePool', [value])], { axis: 1 });
  graph.node('Gemm', [pooled, graph.weights([channelsBefore, CONVNET_CLASSES], channelsBefore)], {}, 'logits');
  return graph.encode(
    [{ name: 'image', datatype: 'FP32', shape: ['batch', ...IMAGE_SHAPE] }],
    [{ name: 'logits', datatype: 'FP32', shape: ['batch', CONVNET_CLASSES] }],
  );
}

interface Convolution {
  readonly from: number;
  readonly to: number;
  readonly kernel: number;
  readonly stride: number;
}

function convolve(graph: GraphBuilder, value: string, { from, to, kernel, stride }: Convolution): string {
  const weights = graph.weights([to, from, kernel, kernel], (kernel ** 2 * from) / 2);
  const pad = (kernel - 1) / 2;
  const attributes = { kernel_shape: [kernel, kernel], strides: [stride, stride], pads: [pad, pad, pad, pad] };
  return graph.node('Conv', [value, weights, graph.weights([to], 100)], attributes);
}

function relu(graph: GraphBuilder, value: string): string {
  return graph.node('Relu', [value]);
}

/** Channels, height and width of a picture for `encodeResnet`. */
export const PICTURE_SHAPE = [3, 224, 224] as const;
const RESNET_CLASSES = 1000;
/** Bottleneck width and number of blocks of each stage. */
const RESNET_50 = [
  { width: 64, blocks: 3 },
  { width: 128, blocks: 4 },
  { width: 256, blocks: 6 },
  { width: 512, blocks: 3 },
] as const;
/** Factor of a block's output channels over its width. */
const EXPANSION = 4;

/**
 * Encodes the layers of ResNet-50, with its normalization folded into the convolutions as exporters do. `picture` is
 * uint8 `[batch, 3, 224, 224]`, `logits` is float32 `[batch, 1000]`.
 *
 * @param maxBlocks blocks of a stage at most, for a smaller network
 * @see https://arxiv.org/abs/1512.03385
 */
export function encodeResnet(seed: number, maxBlocks = Infinity, precision: Precision = 'FP32'): Uint8Array {
  const graph = buildGraph(seed, precision);
  const pixels = graph.node('Cast', ['picture'], { to: graph.elementType });
  const scaled = graph.node('Mul', [pixels, graph.floats([1], [1 / 255])]);
  const stem = relu(graph, convolve(graph, scaled, { from: PICTURE_SHAPE[0], to: 64, kernel: 7, stride: 2 }));
  let value = graph.node('MaxPool', [stem], { kernel_shape: [3, 3], strides: [2, 2], pads: [1, 1, 1, 1] });
  let channels = 64;
  for (const [stage, { width, blocks }] of RESNET_50.entries()) {
    for (let block = 0; block < Math.min(blocks, maxBlocks); block++) {
      const stride = stage > 0 && block === 0 ? 2 : 1;
      value = bottleneck(graph, value, { from: channels, width, stride });
      channels = EXPANSION * width;
    }
  }
  const pooled = graph.node('Flatten', [graph.node('GlobalAveragePool', [value])], { axis: 1 });
  const weights = [graph.weights([channels, RESNET_CLASSES], channels), graph.weights([RESNET_CLASSES], 100)];
  graph.node('Cast', [graph.node('Gemm', [pooled, ...weights])], { to: CAST_TO_FLOAT }, 'logits');
  return graph.encode(
    [{ name: 'picture', datatype: 'UINT8', shape: ['batch', ...PICTURE_SHAPE] }],
    [{ name: 'logits', datatype: 'FP32', shape: ['batch', RESNET_CLASSES] }],
  );
}

function bottleneck(
  graph: GraphBuilder,
  value: string,
  { from, width, stride }: { readonly from: number; readonly width: number; readonly stride: number },
): string {
  const to = EXPANSION * width;
  const narrow = relu(graph, convolve(graph, value, { from, to: width, kernel: 1, stride: 1 }));
  const wide = relu(graph, convolve(graph, narrow, { from: width, to: width, kernel: 3, stride }));
  const added = convolve(graph, wide, { from: width, to, kernel: 1, stride: 1 });
  const kept = from === to && stride === 1 ? value : convolve(graph, value, { from, to, kernel: 1, stride });
  return relu(graph, graph.node('Add', [added, kept]));
}

/** Size of the vocabulary. It is small to keep the file small, which does not affect the cost of a look-up. */
export const VOCABULARY = 4096;
const ENCODER_POSITIONS = 512;

export interface EncoderSize {
  readonly layers: number;
  readonly hidden: number;
  readonly heads: number;
}

/** Half the layers of MiniLM-L6. */
const HALF_MINILM: EncoderSize = { layers: 3, hidden: 384, heads: 12 };
export const BERT_BASE: EncoderSize = { layers: 12, hidden: 768, heads: 12 };

/**
 * Encodes a sentence encoder. `input_ids` and `attention_mask` are int64 `[batch, sequence]`, `embedding` is float32
 * `[batch, hidden]`: the mean over the positions that the mask keeps. Other positions change nothing.
 */
export function encodeEncoder(seed: number, size = HALF_MINILM, precision: Precision = 'FP32'): Uint8Array {
  const graph = buildGraph(seed, precision);
  const mask = graph.node('Cast', ['attention_mask'], { to: graph.elementType });
  const bias = attentionBias(graph, mask);
  let hidden = embed(graph, size);
  for (let layer = 0; layer < size.layers; layer++) {
    hidden = normalize(graph, graph.node('Add', [hidden, attend(graph, hidden, bias, size)]), size);
    hidden = normalize(graph, graph.node('Add', [hidden, feedForward(graph, hidden, size)]), size);
  }
  graph.node('Cast', [meanOverMask(graph, hidden, mask)], { to: CAST_TO_FLOAT }, 'embedding');
  const tokens = ['batch', 'sequence'];
  return graph.encode(
    [
      { name: 'input_ids', datatype: 'INT64', shape: tokens },
      { name: 'attention_mask', datatype: 'INT64', shape: tokens },
    ],
    [{ name: 'embedding', datatype: 'FP32', shape: ['batch', size.hidden] }],
  );
}

/** Adds a bias, `[batch, 1, 1, sequence]`: 0 if the mask keeps a position, otherwise so low that its exp is 0. */
function attentionBias(graph: GraphBuilder, mask: string): string {
  const left = graph.node('Sub', [graph.floats([1], [1]), mask]);
  const bias = graph.node('Mul', [left, graph.floats([1], [-10_000])]);
  return graph.node('Unsqueeze', [bias, graph.integers([1, 2])]);
}

/** Adds the embeddings of the tokens and their positions, `[batch, sequence, hidden]`. */
function embed(graph: GraphBuilder, size: EncoderSize): string {
  const words = graph.node('Gather', [graph.weights([VOCABULARY, size.hidden], 1), 'input_ids']);
  const length = graph.node('Shape', ['input_ids'], { start: 1, end: 2 });
  const positions = graph.node('Slice', [
    graph.weights([ENCODER_POSITIONS, size.hidden], 1),
    graph.integers([0]),
    length,
    graph.integers([0]),
  ]);
  return normalize(graph, graph.node('Add', [words, positions]), size);
}

function attend(graph: GraphBuilder, hidden: string, bias: string, size: EncoderSize): string {
  const headWidth = size.hidden / size.heads;
  const toHeads = graph.integers([0, 0, size.heads, headWidth]);
  const heads = (perm: readonly number[]): string =>
    graph.node('Transpose', [graph.node('Reshape', [dense(graph, hidden, size.hidden, size.hidden), toHeads])], {
      perm,
    });
  const queries = heads([0, 2, 1, 3]);
  const keys = heads([0, 2, 3, 1]);
  const values = heads([0, 2, 1, 3]);
  const products = graph.node('MatMul', [queries, keys]);
  const scores = graph.node('Div', [products, graph.floats([1], [Math.sqrt(headWidth)])]);
  const shares = graph.node('Softmax', [graph.node('Add', [scores, bias])], { axis: 3 });
  const mixed = graph.node('Transpose', [graph.node('MatMul', [shares, values])], { perm: [0, 2, 1, 3] });
  const joined = graph.node('Reshape', [mixed, graph.integers([0, 0, size.hidden])]);
  return dense(graph, joined, size.hidden, size.hidden);
}

function feedForward(graph: GraphBuilder, hidden: string, size: EncoderSize): string {
  const wide = graph.node('Gelu', [dense(graph, hidden, size.hidden, 4 * size.hidden)]);
  return dense(graph, wide, 4 * size.hidden, size.hidden);
}

function dense(graph: GraphBuilder, value: string, from: number, to: number): string {
  const product = graph.node('MatMul', [value, graph.weights([from, to], from)]);
  return graph.node('Add', [product, graph.weights([to], 100)]);
}

function normalize(graph: GraphBuilder, value: string, { hidden }: EncoderSize): string {
  const scale = graph.floats([hidden], Array(hidden).fill(1));
  return graph.node('LayerNormalization', [value, scale, graph.weights([hidden], 100)]);
}

function meanOverMask(graph: GraphBuilder, hidden: string, mask: string): string {
  const overPositions = graph.integers([1]);
  const kept = graph.node('Mul', [hidden, graph.node('Unsqueeze', [mask, graph.integers([2])])]);
  const sum = graph.node('ReduceSum', [kept, overPositions], { keepdims: 0 });
  const count = graph.node('ReduceSum', [mask, overPositions], { keepdims: 1 });
  return graph.node('Div', [sum, count]);
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
