import type { Model } from '../../core/contract/model.ts';
import type { ScoringRequest } from '../../core/contract/request.ts';
import type { Part } from '../../core/plan/microBatch.ts';
import { DATATYPES } from '../../core/tensor/datatype.ts';
import { elementCount } from '../../core/tensor/tensor.ts';
import type { AxisSizes } from './axes.ts';
import type { ModelGraph } from './modelGraph.ts';
import { type Manner, makeUp, rowShapes } from './probes.ts';
import { MOST_PROBES, type ProbeSet } from './rowCheck.ts';

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
const MOST_ELEMENTS = 262_144;

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
  const real = realProbes(samples, times * MOST_PROBES);
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
export function realProbes(samples: readonly ScoringRequest[], most = MOST_PROBES): Part[] {
  const [first] = samples;
  if (first === undefined) return [];
  const signature = signatureOf(first);
  const rows = samples
    .filter((sample) => signatureOf(sample) === signature)
    .flatMap((request) =>
      Array.from({ length: request.rows }, (_, row) => ({ request, fromRow: row, toRow: row + 1 })),
    );
  return rows.slice(0, most);
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
  const rungs = model.ragged?.ladder ?? [];
  const [rung] = rungs;
  const known = model.ragged === undefined || rung === undefined ? given : { ...given, [model.ragged.name]: rung };
  const [few = 1, ...more] = SIZES;
  const at = (size: number) => rowShapes(model, known, size);
  const surest = sizes === undefined ? at(few) : rowShapes(model, sizes, 1);
  const tried = [at(few), surest, ...more.map(at)].filter((shapes) => shapes === surest || isSmall(shapes));
  // Where no axis is open they are one.
  return [...new Map(tried.map((shapes) => [shapes.join(';'), shapes])).values()];
}

function isSmall(shapes: readonly (readonly number[])[]): boolean {
  return shapes.reduce((sum, shape) => sum + elementCount(shape), 0) <= MOST_ELEMENTS;
}
