import { encodeConvnet, encodeEncoder, encodeMlp, IMAGE_SHAPE, VOCABULARY } from './generatedModels.ts';
import type { Random } from './random.ts';

export type RowData = Float32Array | BigInt64Array | Uint8Array | readonly string[];

export interface InputTensor {
  readonly name: string;
  readonly datatype: 'FP32' | 'INT64' | 'UINT8' | 'BYTES';
  /** `[rows, …]` as drawn, with one row. If lengths differ, axis 1 is the length. */
  readonly shape: readonly [number, number, ...number[]];
  readonly data: RowData;
}

export interface Scenario {
  readonly name: string;
  readonly messages: number;
  readonly encodeModel: () => Uint8Array;
  /** Draws the length of a message, if lengths differ. */
  readonly lengths?: (random: Random) => number;
  /** Entries of `config.json` in addition to the row limit. */
  readonly modelConfig?: Readonly<Record<string, unknown>>;
  /** @param length length of the message. 1 if lengths do not differ. */
  drawInputs(random: Random, length: number): readonly InputTensor[];
}

export const MODEL_SEED = 20_261_121;
/** Tokens of a text. The mean is 34. */
const TEXT = { median: 24, sigma: 0.8, shortest: 3, longest: 256 };

export const SCENARIOS: readonly Scenario[] = [
  {
    name: 'mlp-small',
    messages: 2_000,
    encodeModel: () => encodeMlp([64, 128, 64, 10], MODEL_SEED),
    drawInputs: (random) => [drawFloats(random, 'features', [1, 64])],
  },
  {
    // A run is so short that padding costs as much as one more run.
    name: 'encoder',
    messages: 150,
    encodeModel: () => encodeEncoder(MODEL_SEED),
    lengths: drawLength,
    modelConfig: { ragged: { axis: 'sequence', pad: { input_ids: 0, attention_mask: 0 } } },
    drawInputs: drawText,
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

/** Draws the number of tokens of a text. */
export function drawLength(random: Random): number {
  const length = Math.round(TEXT.median * Math.exp(TEXT.sigma * random.normal()));
  return Math.min(TEXT.longest, Math.max(TEXT.shortest, length));
}

export function drawFloats(random: Random, name: string, shape: InputTensor['shape']): InputTensor {
  const data = new Float32Array(shape.reduce((product, dim) => product * dim, 1));
  for (let i = 0; i < data.length; i++) data[i] = 2 * random.next() - 1;
  return { name, datatype: 'FP32', shape, data };
}

export function drawText(random: Random, length: number): InputTensor[] {
  const tokens = BigInt64Array.from({ length }, () => BigInt(1 + random.below(VOCABULARY - 1)));
  return [
    { name: 'input_ids', datatype: 'INT64', shape: [1, length], data: tokens },
    { name: 'attention_mask', datatype: 'INT64', shape: [1, length], data: new BigInt64Array(length).fill(1n) },
  ];
}
