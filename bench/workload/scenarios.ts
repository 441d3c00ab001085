import {
  encodeBytes,
  encodeConvnet,
  encodeMlp,
  encodeTransformer,
  IMAGE_SHAPE,
  VOCABULARY,
} from './generatedModels.ts';
import type { Random } from './random.ts';

export type RowData = Float32Array | BigInt64Array | Uint8Array;

/** One input of one message: a row. */
export interface InputTensor {
  readonly name: string;
  readonly datatype: 'FP32' | 'INT64' | 'UINT8';
  /** `[rows, …]`, one row as drawn; where lengths differ, axis 1 is the length. */
  readonly shape: readonly [number, number, ...number[]];
  readonly data: RowData;
}

/** A model, and the messages that are sent to it. */
export interface Scenario {
  readonly name: string;
  readonly messages: number;
  /** How many of them are scored where every call of a fresh process takes rows alone as well. @default all */
  readonly gainMessages?: number;
  readonly encodeModel: () => Uint8Array;
  /** The lengths of messages, where they differ. */
  readonly lengths?: { readonly typical: number; draw(random: Random): number };
  /** What `config.json` holds beside the row limit. */
  readonly modelConfig?: Readonly<Record<string, unknown>>;
  /** @param length of the message; 1 where lengths do not differ */
  drawInputs(random: Random, length: number): readonly InputTensor[];
  /** True if only the calls of fresh processes and a lone message are measured, and no contest in one process. */
  readonly onlyFresh?: boolean;
}

/** Weights are drawn from it. */
const MODEL_SEED = 20_261_121;
const LENGTH_SIGMA = 0.8;
const SHORTEST_TEXT = 3;
const LONGEST_TEXT = 256;
const LETTERS = 4;
const RAGGED_TEXT = { ragged: { axis: 'sequence', pad: { input_ids: 0, attention_mask: 0 } } };

export const SCENARIOS: readonly Scenario[] = [
  {
    name: 'mlp-small',
    messages: 10_000,
    gainMessages: 2_000,
    encodeModel: () => encodeMlp([64, 128, 64, 10], MODEL_SEED),
    drawInputs: (random) => [drawFloats(random, 'features', [1, 64])],
  },
  {
    name: 'mlp-wide',
    messages: 1_500,
    gainMessages: 500,
    encodeModel: () => encodeMlp([512, 2048, 2048, 1000], MODEL_SEED),
    drawInputs: (random) => [drawFloats(random, 'features', [1, 512])],
  },
  {
    name: 'transformer',
    messages: 40,
    encodeModel: () => encodeTransformer(MODEL_SEED),
    lengths: logNormal(32, SHORTEST_TEXT, LONGEST_TEXT),
    modelConfig: RAGGED_TEXT,
    drawInputs: drawText,
  },
  {
    // Half the layers: a run is so short that padding and one more run cost alike.
    name: 'encoder',
    messages: 150,
    encodeModel: () => encodeTransformer(MODEL_SEED, 3),
    // 34 tokens on average.
    lengths: logNormal(24, SHORTEST_TEXT, LONGEST_TEXT),
    modelConfig: RAGGED_TEXT,
    drawInputs: drawText,
    onlyFresh: true,
  },
  {
    name: 'bytes',
    messages: 500,
    encodeModel: () => encodeBytes(MODEL_SEED),
    lengths: logNormal(120, 8, 1024),
    modelConfig: { ragged: { axis: 'length', pad: { bytes: 0 } } },
    drawInputs: (random, length) => [drawLetters(random, length)],
    onlyFresh: true,
  },
  {
    name: 'convnet',
    messages: 100,
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

/** @param typical the median */
function logNormal(typical: number, shortest: number, longest: number): Scenario['lengths'] {
  return {
    typical,
    draw(random) {
      const length = Math.round(typical * Math.exp(LENGTH_SIGMA * random.normal()));
      return Math.min(longest, Math.max(shortest, length));
    },
  };
}

function drawFloats(random: Random, name: string, shape: InputTensor['shape']): InputTensor {
  const data = new Float32Array(shape.reduce((product, dim) => product * dim, 1));
  for (let i = 0; i < data.length; i++) data[i] = 2 * random.next() - 1;
  return { name, datatype: 'FP32', shape, data };
}

/** As texts of one language: of few letters. */
function drawLetters(random: Random, length: number): InputTensor {
  const first = 1 + random.below(255 - LETTERS);
  const data = Uint8Array.from({ length }, () => first + random.below(LETTERS));
  return { name: 'bytes', datatype: 'UINT8', shape: [1, length], data };
}

function drawText(random: Random, length: number): InputTensor[] {
  const tokens = BigInt64Array.from({ length }, () => BigInt(1 + random.below(VOCABULARY - 1)));
  return [
    { name: 'input_ids', datatype: 'INT64', shape: [1, length], data: tokens },
    { name: 'attention_mask', datatype: 'INT64', shape: [1, length], data: new BigInt64Array(length).fill(1n) },
  ];
}
