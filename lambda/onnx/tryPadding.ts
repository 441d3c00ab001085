import { type Difference, firstDifference } from '../core/difference.ts';
import { messageOf } from '../core/failure.ts';
import { elementsPerRowAt, type Part } from '../core/microBatch.ts';
import { axisInModel, type Model, type RaggedAxis } from '../core/model.ts';
import { DATATYPES, type Datatype, type Tensor, type TensorData } from '../core/tensor.ts';
import { asProbe, type Manner, makeUp } from './probes.ts';
import { isNotTheRuns, runTogether } from './tryRows.ts';

interface PaddingOptions {
  /** Makes requests of one row whose ragged axis has this length. Their values are on both sides of the padding. */
  readonly probesOf: (length: number) => readonly Part[];
  readonly size: number;
  /** Real rows of any lengths. */
  readonly samples: readonly Part[];
  /** Time after which no further row is tried, if one was. */
  readonly limitMs: number;
  readonly now: () => number;
}

export interface PaddingTrial {
  /** Reason why nothing could be tried, and advice. */
  readonly problem?: string;
  readonly seen: string;
}

/** Maximum number of input elements of one run: 4 MiB as float32. */
const MANY_ELEMENTS = 1_048_576;

/**
 * Runs rows unpadded and padded, and compares the answers. A model that does not mask its padding gives other answers
 * whenever requests differ in length.
 *
 * @throws Error naming the output and the effect of padding; RunOverdueError if a run did not end in its time
 */
export async function tryPadding(
  model: Model,
  ragged: RaggedAxis,
  { probesOf, size, samples, limitMs, now }: PaddingOptions,
): Promise<PaddingTrial> {
  const startedAt = now();
  let reason = 'there was nothing to run it with';
  let tried = 0;
  for (const { probe, padded } of casesOf(ragged, probesOf, size, samples)) {
    const isEnough = now() - startedAt > limitMs || elementsPerRowAt(probe.request, padded) > MANY_ELEMENTS;
    if (tried > 0 && isEnough) continue;
    try {
      const difference = await differenceByPadding(model, probe, padded);
      tried += 1;
      if (difference === undefined) continue;
      throw new PaddingChangesAnswers(inModel(difference, model), ragged, probe.request.length, padded);
    } catch (error) {
      if (error instanceof PaddingChangesAnswers || isNotTheRuns(error)) throw error;
      reason = messageOf(error);
    }
  }
  if (tried > 0) return { seen: `padding '${ragged.name}' changed none of ${tried} rows` };
  const problem = `padding '${ragged.name}' could not be tried: ${reason}`;
  const cure = 'give the sizes that it runs at as "warmup" in config.json, or requests in samples.jsonl';
  return { problem: `${problem}; ${cure}`, seen: problem };
}

interface PaddingCase {
  readonly probe: Part;
  readonly padded: number;
}

/** Returns real rows first, then one made-up row of each length, then another of each. */
function casesOf(
  ragged: RaggedAxis,
  probesOf: PaddingOptions['probesOf'],
  size: number,
  samples: readonly Part[],
): PaddingCase[] {
  const lengths = samples.map(({ request }) => request.length);
  const longest = Math.max(...lengths);
  const real = samples.map((probe) => ({ probe, padded: paddedLengthOf(ragged, probe.request.length, longest) }));
  // Real rows of different lengths are sufficient. Made-up ones may be unrealistic.
  if (new Set(lengths).size > 1) return real;
  const made = lengthsOf(ragged, size).map(([length, padded]) => probesOf(length).map((probe) => ({ probe, padded })));
  const max = Math.max(...made.map((ofLength) => ofLength.length));
  return [
    ...real,
    ...Array.from({ length: max }, (_, index) => made.flatMap((ofLength) => ofLength[index] ?? [])).flat(),
  ];
}

const SHORT_LENGTH = 4;

/** Returns lengths and padded lengths: from below an allowed size up to it, and from one allowed size to the next. */
function lengthsOf({ allowedSizes }: RaggedAxis, size: number): [length: number, padded: number][] {
  const [lowest, second] = allowedSizes;
  if (lowest === undefined) {
    const length = Math.max(size, SHORT_LENGTH);
    return [
      [length, 2 * length],
      [length - 1, 8 * length],
      [1, length],
    ];
  }
  const below = new Set([Math.ceil(lowest / 2), lowest - 1]);
  const upToIt = [...below]
    .filter((length) => length > 0 && length < lowest)
    .map((length) => [length, lowest] as const);
  return (second === undefined ? upToIt : [[lowest, second] as const, ...upToIt]).map(([from, to]) => [from, to]);
}

/** Returns the padded length of a real row: the next allowed size, or at least the longest real row. */
function paddedLengthOf({ allowedSizes }: RaggedAxis, length: number, longest: number): number {
  if (allowedSizes.length > 0) return allowedSizes.find((size) => size > length) ?? length;
  return Math.max(longest, length + 1);
}

async function differenceByPadding(model: Model, probe: Part, padded: number): Promise<Difference | undefined> {
  const unpadded = await answerAt(model, probe, probe.request.length);
  return firstDifference(unpadded, await answerAt(model, probe, padded), model.isCoarse);
}

async function answerAt(model: Model, probe: Part, length: number): Promise<readonly Tensor[]> {
  return (await runTogether(model, [probe], length)).get(0) as readonly Tensor[];
}

/** Converts the axis of a difference to that of config.json. */
function inModel(difference: Difference, { outputs }: Model): Difference {
  const spec = outputs.find(({ name }) => name === difference.output);
  if (spec === undefined || difference.axis === undefined) return difference;
  const { index, sizes } = difference.axis;
  return { ...difference, axis: { index: axisInModel(spec, index), sizes } };
}

class PaddingChangesAnswers extends Error {
  constructor(difference: Difference, { name }: RaggedAxis, length: number, padded: number) {
    const { output, detail } = difference;
    super(
      `output '${output}': expected the same answer with '${name}' padded from ${length} to ${padded}, got ${detail}; ` +
        cureOf(difference, length, padded),
    );
  }
}

function cureOf({ output, axis }: Difference, length: number, padded: number): string {
  if (axis === undefined) return CURE_OF_PADDING;
  if (axis.sizes[0] === length && axis.sizes[1] === padded) {
    return `it keeps the padded length: say where, as "cut": {"${output}": ${axis.index}} within "ragged" in config.json`;
  }
  return 'the shape of its rows must not depend on the padding: export it so, or remove "ragged" from config.json';
}

export const CURE_OF_PADDING =
  'mask the padding in the model, choose other pad values, or remove "ragged" from config.json';

type Pad = number | bigint | string;
type Side = 'any' | 'above' | 'below';

/** Values of probes. The extremes of a row reveal padding only if all values are on its other side. */
const ROWS: readonly (readonly [Manner, Side])[] = [
  ['unit', 'any'],
  ['unit', 'above'],
  ['unit', 'below'],
  ['large', 'any'],
  ['ones', 'any'],
];

/**
 * Makes up requests of one row that reveal padding. No element equals the padding of its input, because a fully masked
 * row has no answer.
 *
 * @param shapes of one row of each input, `[1, …]`
 */
export function paddingProbes(model: Model, shapes: readonly (readonly number[])[]): Part[] {
  const manners = ROWS.map(([manner]) => manner);
  return makeUp(model, shapes, manners).map(({ request }, row) => {
    const [, side] = ROWS[row] as (typeof ROWS)[number];
    const inputs = request.inputs.map((input, index) => {
      const pad = model.ragged?.inputs[index]?.pad;
      const { name } = model.inputs[index] as (typeof model.inputs)[number];
      if (pad === undefined) return input;
      const data = input.data as TensorData;
      if (/mask/i.test(name)) replaceInMask(data, pad);
      else if (side !== 'any') moveToSide(data, input.datatype, pad, side);
      replacePadding(data, pad);
      return input;
    });
    return asProbe(model, inputs);
  });
}

/** Sets a mask that is padded with 0 to 1. Other values have no defined meaning. */
function replaceInMask(data: TensorData, pad: Pad): void {
  if (pad === 0) (data as Float32Array).fill(1);
  if (pad === 0n) (data as BigInt64Array).fill(1n);
}

/** Padding beyond which there are no values on one side, or none that a model takes. */
const FARTHEST_PAD = 1e6;

/** Moves numbers above or below their padding. It leaves them if that side has no realistic values. */
function moveToSide(data: TensorData, datatype: Datatype, padding: Pad, side: 'above' | 'below'): void {
  const info = DATATYPES[datatype];
  const pad = Number(padding);
  if (info.kind === 'string' || info.kind === 'boolean' || !(Math.abs(pad) <= FARTHEST_PAD)) return;
  const elements = data as Pad[];
  for (let index = 0; index < elements.length; index++) {
    const size = Math.abs(Number(elements[index]));
    if (info.kind === 'float') {
      const distance = Math.max(1, Math.abs(pad)) * (0.5 + size);
      elements[index] = side === 'above' ? pad + distance : pad - distance;
      continue;
    }
    // Integers may be indexes into tables, which are not negative.
    if (side === 'below' && pad <= 0) return;
    const moved = side === 'above' ? pad + 1 + size : size % pad;
    if (moved <= Number(info.max)) elements[index] = info.kind === 'bigint' ? BigInt(moved) : moved;
  }
}

function replacePadding(data: TensorData, pad: Pad): void {
  const elements = data as Pad[];
  const other =
    typeof pad === 'bigint' ? (pad === 1n ? 2n : 1n) : typeof pad === 'string' ? `${pad}1` : 1 - Math.sign(pad);
  for (let index = 0; index < elements.length; index++) if (elements[index] === pad) elements[index] = other;
}
