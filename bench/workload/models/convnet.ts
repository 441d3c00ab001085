import { buildGraph } from './graph.ts';

/** What an image is: channels, height, width. */
export const IMAGE_SHAPE = [3, 32, 32] as const;

const CLASSES = 10;

/** Output channels and stride of each convolution. */
const LAYERS = [
  { channels: 64, stride: 1 },
  { channels: 64, stride: 1 },
  { channels: 128, stride: 2 },
  { channels: 128, stride: 1 },
  { channels: 256, stride: 2 },
] as const;

/**
 * 3×3 convolutions with so much arithmetic per weight that one image keeps every core busy: a batch gains nothing. `image` float32 `[batch, 3, 32, 32]`, `logits` float32 `[batch, 10]`.
 */
export function encodeConvnet(seed: number): Uint8Array {
  const graph = buildGraph(seed);
  let value = 'image';
  let channelsBefore: number = IMAGE_SHAPE[0];
  for (const { channels, stride } of LAYERS) {
    const weights = graph.weights([channels, channelsBefore, 3, 3], (9 * channelsBefore) / 2);
    const attributes = { kernel_shape: [3, 3], strides: [stride, stride], pads: [1, 1, 1, 1] };
    value = graph.node('Relu', [graph.node('Conv', [value, weights, graph.weights([channels], 100)], attributes)]);
    channelsBefore = channels;
  }
  const pooled = graph.node('Flatten', [graph.node('GlobalAveragePool', [value])], { axis: 1 });
  graph.node('Gemm', [pooled, graph.weights([channelsBefore, CLASSES], channelsBefore)], {}, 'logits');
  return graph.encode(
    [{ name: 'image', datatype: 'FP32', shape: ['batch', ...IMAGE_SHAPE] }],
    [{ name: 'logits', datatype: 'FP32', shape: ['batch', CLASSES] }],
  );
}
