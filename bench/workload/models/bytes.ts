import { buildGraph } from './graph.ts';

const BYTES = 256;
const EMBEDDING = 32;
const CHANNELS = [64, 64, 64] as const;
const KERNEL = 5;
const CLASSES = 8;

/** Numbers of ONNX element types, for casts. */
const CAST_TO = { FP32: 1, INT32: 6, BOOL: 9 } as const;

/**
 * Sorts texts by their bytes, with convolutions along them. `bytes` uint8 `[batch, length]`, padded with zeros,
 * `logits` float32 `[batch, 8]`. The convolutions take row after row, so that a batch gains little.
 */
export function encodeBytes(seed: number): Uint8Array {
  const graph = buildGraph(seed);
  const kept = graph.node('Cast', [graph.node('Cast', ['bytes'], { to: CAST_TO.BOOL })], { to: CAST_TO.FP32 });
  const mask = graph.node('Unsqueeze', [kept, graph.integers([1])]);
  const masked = (value: string): string => graph.node('Mul', [value, mask]);
  const numbers = graph.node('Cast', ['bytes'], { to: CAST_TO.INT32 });
  const embedded = graph.node('Gather', [graph.weights([BYTES, EMBEDDING], 1), numbers]);
  let value = masked(graph.node('Transpose', [embedded], { perm: [0, 2, 1] }));
  let before = EMBEDDING;
  for (const channels of CHANNELS) {
    const weights = graph.weights([channels, before, KERNEL], (KERNEL * before) / 2);
    const attributes = { kernel_shape: [KERNEL], pads: [KERNEL >> 1, KERNEL >> 1] };
    const convolved = graph.node('Conv', [value, weights, graph.weights([channels], 100)], attributes);
    value = masked(graph.node('Relu', [convolved]));
    before = channels;
  }
  const most = graph.node('ReduceMax', [value, graph.integers([2])], { keepdims: 0 });
  graph.node('Gemm', [most, graph.weights([before, CLASSES], before), graph.weights([CLASSES], 100)], {}, 'logits');
  return graph.encode(
    [{ name: 'bytes', datatype: 'UINT8', shape: ['batch', 'length'] }],
    [{ name: 'logits', datatype: 'FP32', shape: ['batch', CLASSES] }],
  );
}
