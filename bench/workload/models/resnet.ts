import { buildGraph, type GraphBuilder } from './graph.ts';

/** What a picture is: channels, height, width. */
export const PICTURE_SHAPE = [3, 224, 224] as const;

const CLASSES = 1000;

/** Blocks, the channels within them, and the stride of the first. @see https://arxiv.org/abs/1512.03385, table 1 */
const STAGES = [
  { blocks: 3, channels: 64, stride: 1 },
  { blocks: 4, channels: 128, stride: 2 },
  { blocks: 6, channels: 256, stride: 2 },
  { blocks: 3, channels: 512, stride: 2 },
] as const;
/** A block gives so many times the channels that it works with. */
const EXPANSION = 4;
/** The branch of a block is scaled down, or sixteen of them in a row would grow without bound. */
const BRANCH_FAN_IN = 16;

/**
 * A convnet of the shape of ResNet-50, batch normalization folded into the convolutions as exporters do. `picture` uint8
 * `[batch, 3, 224, 224]`, as pictures are sent, `logits` float32 `[batch, 1000]`.
 */
export function encodeResnet(seed: number): Uint8Array {
  const graph = buildGraph(seed);
  const pixels = graph.node('Cast', ['picture'], { to: 1 });
  const scaled = graph.node('Sub', [graph.node('Div', [pixels, graph.floats([1], [127.5])]), graph.floats([1], [1])]);
  const stem = relu(graph, convolve(graph, scaled, { from: PICTURE_SHAPE[0], to: 64, kernel: 7, stride: 2 }));
  let value = graph.node('MaxPool', [stem], { kernel_shape: [3, 3], strides: [2, 2], pads: [1, 1, 1, 1] });
  let from = 64;
  for (const { blocks, channels, stride } of STAGES) {
    for (let block = 0; block < blocks; block++) {
      value = bottleneck(graph, value, from, channels, block === 0 ? stride : 1);
      from = EXPANSION * channels;
    }
  }
  const pooled = graph.node('Flatten', [graph.node('GlobalAveragePool', [value])], { axis: 1 });
  graph.node('Gemm', [pooled, graph.weights([from, CLASSES], from), graph.weights([CLASSES], 100)], {}, 'logits');
  return graph.encode(
    [{ name: 'picture', datatype: 'UINT8', shape: ['batch', ...PICTURE_SHAPE] }],
    [{ name: 'logits', datatype: 'FP32', shape: ['batch', CLASSES] }],
  );
}

interface Convolution {
  readonly from: number;
  readonly to: number;
  readonly kernel: number;
  readonly stride?: number;
  /** Beside the weights of a kernel. @default 1: the output is as large as the input */
  readonly fanIn?: number;
}

function convolve(
  graph: GraphBuilder,
  value: string,
  { from, to, kernel, stride = 1, fanIn = 1 }: Convolution,
): string {
  const weights = graph.weights([to, from, kernel, kernel], (fanIn * kernel ** 2 * from) / 2);
  const pad = (kernel - 1) / 2;
  const attributes = { kernel_shape: [kernel, kernel], strides: [stride, stride], pads: [pad, pad, pad, pad] };
  return graph.node('Conv', [value, weights, graph.weights([to], 100)], attributes);
}

/** A block: to fewer channels, over the picture, and to more again, added to what came in. */
function bottleneck(graph: GraphBuilder, value: string, from: number, channels: number, stride: number): string {
  const to = EXPANSION * channels;
  const narrow = relu(graph, convolve(graph, value, { from, to: channels, kernel: 1 }));
  const over = relu(graph, convolve(graph, narrow, { from: channels, to: channels, kernel: 3, stride }));
  const branch = convolve(graph, over, { from: channels, to, kernel: 1, fanIn: BRANCH_FAN_IN });
  const straight = from === to ? value : convolve(graph, value, { from, to, kernel: 1, stride, fanIn: 2 });
  return relu(graph, graph.node('Add', [branch, straight]));
}

function relu(graph: GraphBuilder, value: string): string {
  return graph.node('Relu', [value]);
}
