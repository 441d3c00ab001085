import type { Model } from '../../core/contract/model.ts';
import type { RequestInput, ScoringRequest } from '../../core/contract/request.ts';
import type { Part } from '../../core/plan/microBatch.ts';
import { allocate, DATATYPES, type Datatype, type TensorData } from '../../core/tensor/datatype.ts';
import { elementCount } from '../../core/tensor/tensor.ts';
import { type AxisSizes, shapesAt } from './axes.ts';

/** Values that a model's operators know: the words of its vocabularies, the thresholds of its trees. */
export interface KnownValues {
  readonly words: readonly string[];
  readonly numbers: readonly number[];
}

/**
 * How the elements of a probe are made up: `unit` near 1, `large` and `small` a hundred times more and less, `wide` from
 * 0.001 to a billion in one row, `huge` beyond a trillion and integers up to the largest of 32 bits, `beyond` above a billion
 * and integers up to 65,535, `infinite` ordinary but for an infinity in places, `signed` as `wide` with integers below 0, `positive` and `negative` of one sign, `gaps` with NaN in places, `known` from the values that the model's operators
 * know, `ones` integers of 1 alone.
 */
export type Manner =
  | 'unit'
  | 'large'
  | 'small'
  | 'wide'
  | 'signed'
  | 'positive'
  | 'negative'
  | 'zeros'
  | 'gaps'
  | 'known'
  | 'huge'
  | 'beyond'
  | 'infinite'
  | 'ones';

/**
 * Made-up requests of one row, the same at every start.
 *
 * @param shapes of one row of each input, `[1, …]`
 * @param manners one for each probe
 */
export function makeUp(
  model: Model,
  shapes: readonly (readonly number[])[],
  manners: readonly Manner[],
  known: KnownValues,
): Part[] {
  const random = createRandom(SEED);
  return manners.map((manner) => {
    const inputs = model.inputs.map(({ datatype }, index): RequestInput => {
      const shape = shapes[index] as readonly number[];
      const data = elementsOf(datatype, elementCount(shape), manner, known, random);
      return { datatype, shape, data };
    });
    return asProbe(model, inputs);
  });
}

/** A request of one row as a part of a micro-batch. */
export function asProbe(model: Model, inputs: readonly RequestInput[]): Part {
  const index = model.ragged?.inputs.findIndex((input) => input !== undefined) ?? -1;
  const length = inputs[index]?.shape[model.ragged?.inputs[index]?.axis ?? 0] ?? 1;
  const outputs = model.outputs.map((_, output) => output);
  const request: ScoringRequest = {
    record: 0,
    position: 0,
    id: undefined,
    model,
    rows: 1,
    length,
    inputs,
    outputs,
    reply: 'json',
  };
  return { request, fromRow: 0, toRow: 1 };
}

/** Shapes of one row of each input: symbolic axes have the size that is given by name, or `size`. */
export function rowShapes(model: Model, sizes: AxisSizes, size: number): number[][] {
  return shapesAt(model, 1, sizes, size);
}

function elementsOf(
  datatype: Datatype,
  count: number,
  manner: Manner,
  known: KnownValues,
  random: () => number,
): TensorData {
  const data = allocate(datatype, count);
  const { kind } = DATATYPES[datatype];
  for (let index = 0; index < count; index++) {
    if (kind === 'string') (data as string[])[index] = wordOf(manner, known.words, random);
    else if (kind === 'boolean') (data as Uint8Array)[index] = random() < 0.5 ? 0 : 1;
    else if (kind === 'float') (data as Float32Array)[index] = floatOf(datatype, manner, known.numbers, random);
    else if (kind === 'bigint') (data as BigInt64Array)[index] = BigInt(integerOf(datatype, manner, known, random));
    else (data as Int32Array)[index] = integerOf(datatype, manner, known, random);
  }
  return data;
}

/** Numbers as words too: some models cast their strings. */
const WORDS = ['1', '2', '3.5', '0', '10', '-1'];

function wordOf(manner: Manner, words: readonly string[], random: () => number): string {
  if (words.length === 0) return pick(WORDS, random);
  return manner === 'wide' || manner === 'signed'
    ? `${pick(words, random)} ${pick(words, random)}`
    : pick(words, random);
}

const SCALES = { unit: 1, large: 100, small: 0.01, ones: 1, zeros: 0, huge: 1e15, beyond: 1e10, infinite: 1 } as const;
/** Beyond it a product of two is no FP16 any more. */
const MOST_OF_FP16 = 100;

function floatOf(datatype: Datatype, manner: Manner, numbers: readonly number[], random: () => number): number {
  const value = anyFloat(manner, numbers, random);
  return datatype === 'FP16' && Number.isFinite(value) ? Math.max(-MOST_OF_FP16, Math.min(MOST_OF_FP16, value)) : value;
}

function anyFloat(manner: Manner, numbers: readonly number[], random: () => number): number {
  // Between two thresholds, or well below or above one.
  if (manner === 'known' && numbers.length > 0) {
    const one = pick(numbers, random);
    return random() < 0.25 ? (one + pick(numbers, random)) / 2 : one * (0.5 + random());
  }
  if (manner === 'wide' || manner === 'signed' || manner === 'known')
    return (random() < 0.5 ? -1 : 1) * 10 ** (random() * 12 - 3);
  if (manner === 'positive') return random();
  if (manner === 'negative') return -random();
  if (manner === 'gaps') return random() < 0.5 ? Number.NaN : random();
  if (manner === 'infinite' && random() < 0.25) return random() < 0.5 ? -Infinity : Infinity;
  // About as a normal distribution has it.
  return SCALES[manner] * (random() + random() + random() - 1.5) * 2;
}

function integerOf(datatype: Datatype, manner: Manner, { numbers }: KnownValues, random: () => number): number {
  switch (manner) {
    case 'ones':
      return 1;
    case 'zeros':
      return 0;
    case 'wide':
      return Math.floor(random() * (datatype === 'INT8' ? 100 : 256));
    case 'signed':
      return integerOf(datatype, 'wide', NOTHING_KNOWN, random) * (isSigned(datatype) && random() < 0.5 ? -1 : 1);
    case 'known':
      return numbers.length === 0
        ? Math.floor(random() * 32)
        : withinDatatype(datatype, Math.round(pick(numbers, random)));
    case 'small':
      return random() < 0.5 ? 0 : 1;
    case 'beyond':
      return largest(datatype, 256 + Math.floor(random() * (MAX_UINT16 - 255)));
    case 'huge':
      return largest(datatype, random() < 0.5 ? MAX_INT32 : MAX_UINT16 + Math.floor(random() * MAX_UINT16));
    default:
      return Math.floor(random() * 4);
  }
}

const MAX_UINT16 = 65_535;
const MAX_INT32 = 2 ** 31 - 1;

/** The value, or the largest that the datatype holds. */
function largest(datatype: Datatype, value: number): number {
  const info = DATATYPES[datatype];
  return info.kind === 'integer' || info.kind === 'bigint' ? Math.min(value, Number(info.max)) : value;
}

const NOTHING_KNOWN: KnownValues = { words: [], numbers: [] };

/** Whether it holds integers below 0. */
function isSigned(datatype: Datatype): boolean {
  const info = DATATYPES[datatype];
  return (info.kind === 'integer' || info.kind === 'bigint') && Number(info.min) < 0;
}

function withinDatatype(datatype: Datatype, value: number): number {
  const info = DATATYPES[datatype];
  if (info.kind === 'string') return 0;
  return Math.max(Math.max(Number(info.min), -1e6), Math.min(Math.min(Number(info.max), 1e6), value));
}

function pick<T>(list: readonly T[], random: () => number): T {
  return list[Math.floor(random() * list.length)] as T;
}

const SEED = 20_011;

/** Numbers from 0 up to 1, always the same ones: an xorshift generator of 32 bits. */
function createRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) / 2 ** 32;
  };
}
