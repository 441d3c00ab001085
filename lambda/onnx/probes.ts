import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { messageOf } from '../core/failure.ts';
import { isRefused, type Part, type RequestInput, type ScoringRequest } from '../core/microBatch.ts';
import type { Model } from '../core/model.ts';
import { decodeRequest } from '../core/request.ts';
import { allocate, DATATYPES, type Datatype, elementCount, type TensorData } from '../core/tensor.ts';
import { type AxisSizes, shapesAt } from './contract.ts';
import { MAX_PROBES, type ProbeSet } from './independence.ts';
import { isNotThere } from './modelConfig.ts';
import type { KnownValues, ModelGraph } from './modelFile.ts';

/** Four rows that differ in sign and in scale; integers are small, as they often are indexes into tables. */
const ORDINARY: readonly Manner[] = ['unit', 'large', 'small', 'unit'];
/** Rows whose elements differ in scale among each other, and larger integers. */
const WIDE: readonly Manner[] = ['wide', 'unit', 'wide', 'wide'];
/** The same, integers below 0 among them: no table has such a row. */
const SIGNED: readonly Manner[] = ['signed', 'unit', 'signed', 'signed'];
/** Rows without what another one has: a value below 0, or any but 0, or a value at all. */
const PLAIN: readonly Manner[] = ['positive', 'zeros', 'negative', 'positive'];
const WITH_GAPS: readonly Manner[] = ['positive', 'zeros', 'negative', 'gaps'];
/** Rows near the values at which the model's own operators decide. */
const KNOWN: readonly Manner[] = ['known', 'known', 'known', 'known'];
/** Rows of three of four values each: some lack the smallest there is, or the largest. */
const NARROW: readonly Manner[] = ['narrow', 'narrow', 'narrow', 'narrow'];
/** Infinities, integers and floats that no others are near; and the same as large as fewer models refuse. */
const HUGE: readonly Manner[] = ['unit', 'huge', 'infinite', 'huge'];
const LARGE: readonly Manner[] = ['unit', 'beyond', 'beyond', 'unit'];
/** Operators that may take a value for a size: a huge one would take all the memory there is. */
const SIZING =
  /^(AffineGrid|\w*Window|CenterCropPad|Col2Im|ConstantOfShape|CropAndResize|DFT|Expand\w*|MaxUnpool|MelWeightMatrix|OneHot|Pad|Range|Resize|STFT|Split\w*|Tile|Upsample|\w*Search|Sampling)$/;

/** Zeros and ones alone: integers may be masks, flags or indexes into tables of two. */
const CAUTIOUS: readonly Manner[] = ['ones', 'small', 'ones', 'small'];

/** What axes without a given size are tried at: more than the 1 at which most operators mix nothing along them. */
const SIZES = [4, 32, 128];
/** Of one row's inputs: several open axes of the larger sizes together are more than fits into memory. */
const MAX_ELEMENTS = 262_144;

/**
 * What a model is tried with: its real rows, and made-up ones of ordinary values, of many scales, and of those that its
 * operators know.
 *
 * @param samples real requests
 * @param sizes of symbolic axes at which it is known to run; undefined where it ran at none
 * @param given those of them that its config.json gives
 * @param isThorough whether there are four times as many of each kind. @default false
 * @returns lists of alternatives, of which the first that runs is to be taken; each is made when it is asked for
 */
export function probeSets(
  model: Model,
  samples: readonly ScoringRequest[],
  sizes: AxisSizes | undefined,
  given: AxisSizes,
  graph: ModelGraph,
  isThorough = false,
): Iterable<ProbeSet>[] {
  const times = isThorough ? MORE_PROBES : 1;
  const real = realProbes(samples, times * MAX_PROBES);
  const fromSamples: ProbeSet[][] = real.length === 0 ? [] : [[{ name: `${real.length} samples`, probes: real }]];
  // What it is given decides when a loop ends: made-up values may have it never end.
  if (graph.operators.has('Loop')) return fromSamples;
  const shapes = shapesToTry(model, real, sizes, given);
  function* made(...kinds: readonly (readonly [string, readonly Manner[]])[]): Generator<ProbeSet> {
    for (const [name, manners] of kinds) {
      const repeated = Array.from({ length: times }, () => manners).flat();
      for (const shape of shapes) yield { name, probes: makeUp(model, shape, repeated, graph) };
    }
  }
  return [
    ...fromSamples,
    made(['ordinary probes', ORDINARY], ['probes of 0 and 1', CAUTIOUS]),
    ...(model.inputs.every(({ datatype }) => DATATYPES[datatype].kind === 'float')
      ? []
      : [made(['probes of three values each', NARROW])]),
    made(['probes of one sign and NaN', WITH_GAPS], ['probes of one sign', PLAIN]),
    made(['probes of many scales', SIGNED], ['probes of many scales', WIDE]),
    ...(graph.words.length + graph.numbers.length === 0 ? [] : [made(["probes of the model's own values", KNOWN])]),
    ...(mayTakeValuesForSizes(model, graph) ? [] : [made(['huge probes', HUGE], ['large probes', LARGE])]),
  ];
}

function mayTakeValuesForSizes({ inputs }: Model, { operators }: ModelGraph): boolean {
  const mayHoldSizes =
    inputs.some(({ datatype }) => DATATYPES[datatype].kind !== 'float') ||
    operators.has('Cast') ||
    operators.has('CastLike') ||
    operators.has('Range');
  return mayHoldSizes && [...operators.keys()].some((name) => SIZING.test(name));
}

const MORE_PROBES = 4;

/** Rows of real requests, all of the first one's trailing shape apart from the ragged axis; a row is a probe of its own. */
export function realProbes(samples: readonly ScoringRequest[], max = MAX_PROBES): Part[] {
  const [first] = samples;
  if (first === undefined) return [];
  const signature = signatureOf(first);
  const rows = samples
    .filter((sample) => signatureOf(sample) === signature)
    .flatMap((request) =>
      Array.from({ length: request.rows }, (_, row) => ({ request, fromRow: row, toRow: row + 1 })),
    );
  return rows.slice(0, max);
}

function signatureOf({ model: { ragged }, inputs }: ScoringRequest): string {
  return inputs
    .map(({ shape }, index) => shape.filter((_, axis) => axis > 0 && axis !== ragged?.inputs[index]?.axis).join())
    .join(';');
}

/** The shapes of real rows where there are some; else larger ones than zeros were run at, which tell more, come first. */
function shapesToTry(
  model: Model,
  [real]: readonly Part[],
  sizes: AxisSizes | undefined,
  given: AxisSizes,
): (readonly number[])[][] {
  if (real !== undefined) return [real.request.inputs.map(({ shape }) => [1, ...shape.slice(1)])];
  const allowedSizes = model.ragged?.allowedSizes ?? [];
  const [smallest] = allowedSizes;
  const known =
    model.ragged === undefined || smallest === undefined ? given : { ...given, [model.ragged.name]: smallest };
  const [few = 1, ...more] = SIZES;
  const at = (size: number) => rowShapes(model, known, size);
  const surest = sizes === undefined ? at(few) : rowShapes(model, sizes, 1);
  const tried = [at(few), surest, ...more.map(at)].filter((shapes) => shapes === surest || isSmall(shapes));
  // Where no axis is open they are one.
  return [...new Map(tried.map((shapes) => [shapes.join(';'), shapes])).values()];
}

function isSmall(shapes: readonly (readonly number[])[]): boolean {
  return shapes.reduce((sum, shape) => sum + elementCount(shape), 0) <= MAX_ELEMENTS;
}

/** Numbers from 0 up to 1. */
type Random = () => number;

/** How the elements of a probe are made up. Integers are cut to what the datatype holds. */
interface Recipe {
  readonly float: (random: Random, numbers: readonly number[]) => number;
  /** @default from 0 to 3 */
  readonly integer?: (random: Random, numbers: readonly number[]) => number;
}

/** About as a normal distribution has it. */
const around = (scale: number) => (random: Random) => scale * (random() + random() + random() - 1.5) * 2;
const below = (max: number) => (random: Random) => Math.floor(random() * max);
const anyScale: Recipe['float'] = (random) => (random() < 0.5 ? -1 : 1) * 10 ** (random() * 12 - 3);
const MAX_UINT16 = 65_535;
const MAX_INT32 = 2 ** 31 - 1;
/** Integers beyond are no thresholds. */
const MAX_KNOWN = 1e6;

const RECIPES = {
  unit: { float: around(1) },
  large: { float: around(100) },
  small: { float: around(0.01), integer: below(2) },
  ones: { float: around(1), integer: () => 1 },
  zeros: { float: around(0), integer: () => 0 },
  narrow: { float: around(1) },
  positive: { float: (random) => random() },
  negative: { float: (random) => -random() },
  gaps: { float: (random) => (random() < 0.5 ? Number.NaN : random()) },
  /** From 0.001 to a billion in one row. */
  wide: { float: anyScale, integer: below(256) },
  /** The same, with integers below 0. */
  signed: { float: anyScale, integer: (random) => below(256)(random) * (random() < 0.5 ? -1 : 1) },
  /** From the values that the model's operators know: between two thresholds, or well below or above one. */
  known: {
    float: (random, numbers) => {
      if (numbers.length === 0) return anyScale(random, numbers);
      const one = pick(numbers, random);
      return random() < 0.25 ? (one + pick(numbers, random)) / 2 : one * (0.5 + random());
    },
    integer: (random, numbers) =>
      numbers.length === 0
        ? below(32)(random)
        : Math.max(-MAX_KNOWN, Math.min(MAX_KNOWN, Math.round(pick(numbers, random)))),
  },
  /** Beyond a trillion, and integers up to the largest of 32 bits. */
  huge: {
    float: around(1e15),
    integer: (random) => (random() < 0.5 ? MAX_INT32 : MAX_UINT16 + below(MAX_UINT16)(random)),
  },
  /** Above a billion, and integers up to 65,535. */
  beyond: { float: around(1e10), integer: (random) => 256 + below(MAX_UINT16 - 255)(random) },
  /** Ordinary but for an infinity in places. */
  infinite: {
    float: (random) => {
      if (random() < 0.25) return random() < 0.5 ? -Infinity : Infinity;
      return around(1)(random);
    },
  },
} satisfies Readonly<Record<string, Recipe>>;

export type Manner = keyof typeof RECIPES;

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
  return manners.map((manner, number) => {
    const inputs = model.inputs.map(({ datatype }, index): RequestInput => {
      const shape = shapes[index] as readonly number[];
      const count = elementCount(shape);
      const data =
        manner === 'narrow'
          ? narrow(datatype, count, known, number)
          : elementsOf(datatype, count, manner, known, random);
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
    bodyIndex: 0,
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

function elementsOf(datatype: Datatype, count: number, manner: Manner, known: KnownValues, random: Random): TensorData {
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

/** Of four words or whole numbers from 0 on, or as many as a model knows, three in turn: the first probes lack the first or the second. */
function narrow(datatype: Datatype, count: number, { words }: KnownValues, number: number): TensorData {
  const data = allocate(datatype, count);
  const { kind } = DATATYPES[datatype];
  const all = words.length === 0 ? WORDS : words;
  for (let index = 0; index < count; index++) {
    const which = number + 2 + (index % 3);
    if (kind === 'string') (data as string[])[index] = all[which % all.length] as string;
    else if (kind === 'bigint') (data as BigInt64Array)[index] = BigInt(which % 4);
    else (data as Float32Array)[index] = which % (kind === 'boolean' ? 2 : 4);
  }
  return data;
}

/** Numbers as words too: some models cast their strings. */
const WORDS = ['1', '2', '3.5', '0', '10', '-1'];

function wordOf(manner: Manner, words: readonly string[], random: Random): string {
  if (words.length === 0) return pick(WORDS, random);
  return manner === 'wide' || manner === 'signed'
    ? `${pick(words, random)} ${pick(words, random)}`
    : pick(words, random);
}

/** Beyond it a product of two is no FP16 any more. */
const MAX_OF_FP16 = 100;

function floatOf(datatype: Datatype, manner: Manner, numbers: readonly number[], random: Random): number {
  const value = RECIPES[manner].float(random, numbers);
  return datatype === 'FP16' && Number.isFinite(value) ? Math.max(-MAX_OF_FP16, Math.min(MAX_OF_FP16, value)) : value;
}

function integerOf(datatype: Datatype, manner: Manner, { numbers }: KnownValues, random: Random): number {
  const { integer = below(4) }: Recipe = RECIPES[manner];
  const value = integer(random, numbers);
  const info = DATATYPES[datatype];
  if (info.kind !== 'integer' && info.kind !== 'bigint') return value;
  const min = Number(info.min);
  return Math.max(min, Math.min(Number(info.max), min < 0 ? value : Math.abs(value)));
}

function pick<T>(list: readonly T[], random: Random): T {
  return list[Math.floor(random() * list.length)] as T;
}

const SEED = 20_011;

/** Numbers from 0 up to 1, always the same ones: an xorshift generator of 32 bits. */
function createRandom(seed: number): Random {
  let state = seed;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) / 2 ** 32;
  };
}

/** Real requests of a model, beside its versions: one a line, as producers send them. */
export const SAMPLES_FILE = 'samples.jsonl';

/** What is read of the file: enough for the checks at start. */
const MAX_SAMPLES = 16;

const LIMITS = { maxRequestRows: 10_000, maxRequestsPerMessage: 1 };

/** The first lines of a model's samples, with where each stands. */
export interface SampleLines {
  readonly path: string;
  readonly lines: readonly { readonly line: string; readonly number: number }[];
}

/** The first lines of `samples.jsonl`; none where there is no such file. Blank ones are left out, and a byte order mark. */
export async function readSampleLines(folder: string): Promise<SampleLines> {
  const path = join(folder, SAMPLES_FILE);
  try {
    const texts = (await readFile(path, 'utf8')).split('\n');
    // A byte order mark and \r are white space too.
    const lines = texts.map((text, index) => ({ line: text.trim(), number: index + 1 }));
    return { path, lines: lines.filter(({ line }) => line !== '').slice(0, MAX_SAMPLES) };
  } catch (cause) {
    if (isNotThere(cause)) return { path, lines: [] };
    throw new Error(`${path}: expected lines of JSON, got a file that cannot be read: ${messageOf(cause)}`, { cause });
  }
}

/**
 * Samples, decoded as the requests of producers are.
 *
 * @throws Error naming the line that is no valid request of the model, and what is wrong with it
 */
export async function decodeSamples({ path, lines }: SampleLines, model: Model): Promise<ScoringRequest[]> {
  const models = { find: () => model };
  const place = { path: 'body', bodyIndex: 0, position: 0 };
  const samples: ScoringRequest[] = [];
  for (const { line, number } of lines) {
    const where = `${path}:${number}`;
    const decoded = await decodeRequest(parse(line, where), place, { models, limits: LIMITS });
    if (isRefused(decoded)) throw new Error(`${where}: expected a request of the model: ${decoded.failure.message}`);
    samples.push(decoded);
  }
  return samples;
}

function parse(line: string, where: string): unknown {
  try {
    return JSON.parse(line);
  } catch (cause) {
    throw new Error(`${where}: expected a request as JSON, got something else; fix the line or delete it`, { cause });
  }
}
