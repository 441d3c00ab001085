import { encodeConvnet, IMAGE_SHAPE } from './models/convnet.ts';
import { encodeMlp } from './models/mlp.ts';
import { encodeTransformer, VOCABULARY } from './models/transformer.ts';
import type { Random } from './random.ts';

/** The elements of a row. */
export type RowData = Float32Array | BigInt64Array | Uint8Array;

/** One input of one message: a row. */
export interface InputTensor {
  readonly name: string;
  readonly datatype: 'FP32' | 'INT64' | 'UINT8';
  /** `[1, …]`; where lengths differ, axis 1 is the length. */
  readonly shape: readonly [1, number, ...number[]];
  readonly data: RowData;
}

/** A model, and the messages that are sent to it. */
export interface Scenario {
  readonly name: string;
  /** Messages in the one event. */
  readonly messages: number;
  /** How many of them are also sent one by one. */
  readonly oneByOneMessages: number;
  /** Turns of every contestant, after a warm-up. */
  readonly rounds: number;
  readonly encodeModel: () => Uint8Array;
  /** The lengths of messages, where they differ. */
  readonly lengths?: { readonly typical: number; draw(random: Random): number };
  /** What `config.json` holds beside the row limit. */
  readonly modelConfig?: Readonly<Record<string, unknown>>;
  /** @param length of the message; 1 where lengths do not differ */
  drawInputs(random: Random, length: number): readonly InputTensor[];
  /** Whether to measure how time and memory grow with the messages. */
  readonly showsGrowth?: boolean;
}

/** Weights are drawn from it. */
export const MODEL_SEED = 20_261_121;
const TYPICAL_LENGTH = 32;
const LENGTH_SIGMA = 0.8;
const LONGEST = 512;

export const SCENARIOS: readonly Scenario[] = [
  {
    name: 'mlp-small',
    messages: 10_000,
    oneByOneMessages: 1_000,
    rounds: 7,
    encodeModel: () => encodeMlp([64, 128, 64, 10], MODEL_SEED),
    drawInputs: (random) => [drawFloats(random, 'features', [1, 64])],
    showsGrowth: true,
  },
  {
    name: 'mlp-wide',
    messages: 10_000,
    oneByOneMessages: 300,
    rounds: 3,
    encodeModel: () => encodeMlp([512, 2048, 2048, 1000], MODEL_SEED),
    drawInputs: (random) => [drawFloats(random, 'features', [1, 512])],
  },
  {
    name: 'transformer',
    messages: 300,
    oneByOneMessages: 100,
    rounds: 3,
    encodeModel: () => encodeTransformer(MODEL_SEED),
    lengths: {
      typical: TYPICAL_LENGTH,
      draw: drawLength,
    },
    modelConfig: { ragged: { axis: 'sequence', pad: { input_ids: 0, attention_mask: 0 } } },
    drawInputs: (random, length) => [
      { name: 'input_ids', datatype: 'INT64', shape: [1, length], data: drawTokens(random, length) },
      { name: 'attention_mask', datatype: 'INT64', shape: [1, length], data: new BigInt64Array(length).fill(1n) },
    ],
  },
  {
    name: 'convnet',
    messages: 1_000,
    oneByOneMessages: 300,
    rounds: 3,
    encodeModel: () => encodeConvnet(MODEL_SEED),
    drawInputs: (random) => [drawFloats(random, 'image', [1, ...IMAGE_SHAPE])],
  },
];

/** @throws Error for an unknown name */
export function scenarioNamed(name: string): Scenario {
  const found = SCENARIOS.find((scenario) => scenario.name === name);
  if (found !== undefined) return found;
  throw new Error(`expected a scenario among ${SCENARIOS.map((known) => known.name).join(', ')}, got '${name}'`);
}

/** Log-normal, clamped to what the model takes. */
function drawLength(random: Random): number {
  const length = Math.round(TYPICAL_LENGTH * Math.exp(LENGTH_SIGMA * random.normal()));
  return Math.min(LONGEST, Math.max(1, length));
}

function drawFloats(random: Random, name: string, shape: InputTensor['shape']): InputTensor {
  const data = new Float32Array(shape.reduce((product, dim) => product * dim, 1));
  for (let i = 0; i < data.length; i++) data[i] = 2 * random.next() - 1;
  return { name, datatype: 'FP32', shape, data };
}

function drawTokens(random: Random, length: number): BigInt64Array {
  return BigInt64Array.from({ length }, () => BigInt(1 + random.below(VOCABULARY - 1)));
}
