import { buildGraph, type Precision } from '../workload/encodeModel.ts';
import {
  BERT_BASE,
  encodeEncoder,
  encodeMlp,
  encodeResnet,
  encodeTrees,
  PICTURE_SHAPE,
  TABLE_CITIES,
  TABLE_NUMBERS,
} from '../workload/generatedModels.ts';
import type { Random } from '../workload/random.ts';
import {
  drawFloats,
  drawLength,
  drawText,
  type InputTensor,
  MODEL_SEED,
  type Scenario,
} from '../workload/scenarios.ts';

/** Model of the bench for GPUs. Its messages have one row each, in the binary form. */
export interface GpuScenario extends Scenario {
  /** True if it runs on the processor whatever the provider is. */
  readonly isOnProcessor?: boolean;
  /** Limit of the elements of a run. @default that of a deployment */
  readonly maxBatchElements?: number;
  /** Requests in a packed message, which has at most 1 MiB. */
  readonly requestsPerMessage: number;
}

export interface GpuExtent {
  /** Messages of an event, and rows of a bare run. */
  readonly batches: readonly number[];
  /** True for networks of the same layers, but few of them. */
  readonly isSmall: boolean;
}

const PIXELS = PICTURE_SHAPE.reduce((product, dim) => product * dim, 1);
/** Encoder with few layers, to rehearse on a processor. */
const SMALL_ENCODER = { layers: 1, hidden: 192, heads: 12 };
/** Padded lengths of a text on a GPU. Each is a shape to warm up with each number of rows. */
const LENGTHS = [16, 32, 64, 128, 256];

/** Bytes that pictures are cut out of, because drawing each pixel would take minutes in all. */
const POOL_BYTES = 8 * 1024 * 1024;
let pool: Uint8Array | undefined;

function drawPicture(random: Random): InputTensor {
  pool ??= Uint8Array.from({ length: POOL_BYTES }, () => random.below(256));
  const from = random.below(POOL_BYTES - PIXELS);
  return { name: 'picture', datatype: 'UINT8', shape: [1, ...PICTURE_SHAPE], data: pool.subarray(from, from + PIXELS) };
}

/** Returns the models by part of the bench. */
export function gpuScenarios({ batches, isSmall }: GpuExtent): GpuScenario[] {
  const maxBatchRows = Math.max(...batches);
  const messages = 2 * maxBatchRows;
  const inBoth = (make: (precision: Precision, suffix: string) => GpuScenario) => [
    make('FP32', ''),
    make('FP16', '-fp16'),
  ];
  return [
    {
      name: 'mlp',
      messages,
      requestsPerMessage: 100,
      modelConfig: { maxBatchRows },
      encodeModel: () => encodeMlp([64, 128, 64, 10], MODEL_SEED),
      drawInputs: (random) => [drawFloats(random, 'features', [1, 64])],
    },
    ...inBoth((precision, suffix) => ({
      name: `encoder${suffix}`,
      messages,
      requestsPerMessage: 100,
      modelConfig: {
        maxBatchRows,
        ragged: { axis: 'sequence', pad: { input_ids: 0, attention_mask: 0 }, allowedSizes: LENGTHS },
      },
      encodeModel: () => encodeEncoder(MODEL_SEED, isSmall ? SMALL_ENCODER : BERT_BASE, precision),
      lengths: drawLength,
      drawInputs: drawText,
    })),
    ...inBoth((precision, suffix) => ({
      name: `convnet${suffix}`,
      messages,
      requestsPerMessage: 5,
      modelConfig: { maxBatchRows },
      maxBatchElements: maxBatchRows * PIXELS,
      encodeModel: () => encodeResnet(MODEL_SEED, isSmall ? 1 : undefined, precision),
      drawInputs: (random): InputTensor[] => [drawPicture(random)],
    })),
    {
      name: 'trees',
      messages,
      isOnProcessor: true,
      requestsPerMessage: 100,
      modelConfig: { maxBatchRows, providers: ['cpu'] },
      encodeModel: () => encodeTrees(MODEL_SEED),
      drawInputs: (random): InputTensor[] => [
        ...TABLE_NUMBERS.map((name) => drawFloats(random, name, [1, 1])),
        {
          name: 'city',
          datatype: 'BYTES',
          shape: [1, 1],
          data: [TABLE_CITIES[random.below(TABLE_CITIES.length)] as string],
        },
      ],
    },
  ];
}

/**
 * Encodes a model with the inputs of another one that reads all of them and computes next to nothing: its runs take the
 * time of copies and of starting kernels. `largest` is float32 `[batch, 1]`.
 */
export function encodeCopies(inputs: readonly InputTensor[]): Uint8Array {
  const graph = buildGraph(MODEL_SEED);
  const overColumns = graph.integers([1]);
  const largest = inputs.map(({ name }) => {
    const flat = graph.node('Flatten', [graph.node('Cast', [name], { to: graph.elementType })], { axis: 1 });
    return graph.node('ReduceMax', [flat, overColumns]);
  });
  graph.node('Max', largest, {}, 'largest');
  return graph.encode(
    inputs.map(({ name, datatype, shape }) => ({
      name,
      datatype,
      shape: datatype === 'INT64' ? ['batch', 'sequence'] : ['batch', ...shape.slice(1)],
    })),
    [{ name: 'largest', datatype: 'FP32', shape: ['batch', 1] }],
  );
}
