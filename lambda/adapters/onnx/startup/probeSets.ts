import type { Model } from '../../../core/contract/model.ts';
import type { ScoringRequest } from '../../../core/contract/request.ts';
import type { Part } from '../../../core/plan/microBatch.ts';
import type { ModelGraph } from './modelGraph.ts';
import { KNOWN, type Manner, makeUp, ORDINARY, PLAIN, rowShapes, WIDE, WITH_GAPS } from './probes.ts';
import type { ProbeSet } from './rowCheck.ts';
import type { AxisSizes } from './warmUp.ts';

/** More tell no more: one probe among others, at several places. */
const MOST_PROBES = 4;

/** Zeros and ones alone: integers may be masks, flags or indexes into tables of two. */
const CAUTIOUS: readonly Manner[] = ['ones', 'small', 'ones', 'small'];

/** What axes without a given size are tried at: more than the 1 at which most operators mix nothing along them. */
const SIZES = [4, 32, 128];

/**
 * What a model is tried with: its real rows, and made-up ones of ordinary values, of many scales, and of those that its
 * operators know.
 *
 * @param samples real requests
 * @param sizes of symbolic axes at which it is known to run; undefined where it ran at none
 * @param given those of them that its config.json gives
 * @returns lists of alternatives, of which the first that runs is to be taken
 */
export function probeSets(
  model: Model,
  samples: readonly ScoringRequest[],
  sizes: AxisSizes | undefined,
  given: AxisSizes,
  graph: ModelGraph,
): ProbeSet[][] {
  const real = realProbes(samples);
  const fromSamples: ProbeSet[][] = real.length === 0 ? [] : [[{ name: `${real.length} samples`, probes: real }]];
  // What it is given decides when a loop ends: made-up values may have it never end.
  if (graph.operators.has('Loop')) return fromSamples;
  const shapes = shapesToTry(model, real, sizes, given);
  const made = (manners: readonly Manner[], name: string): ProbeSet[] =>
    shapes.map((shape) => ({ name, probes: makeUp(model, shape, manners, graph) }));
  return [
    ...fromSamples,
    [...made(ORDINARY, 'ordinary probes'), ...made(CAUTIOUS, 'probes of 0 and 1')],
    [...made(WITH_GAPS, 'probes of one sign and NaN'), ...made(PLAIN, 'probes of one sign')],
    made(WIDE, 'probes of many scales'),
    ...(graph.words.length + graph.numbers.length === 0 ? [] : [made(KNOWN, "probes of the model's own values")]),
  ];
}

/** Rows of real requests, all of the first one's trailing shape apart from the ragged axis; a row is a probe of its own. */
export function realProbes(samples: readonly ScoringRequest[]): Part[] {
  const [first] = samples;
  if (first === undefined) return [];
  const signature = signatureOf(first);
  const rows = samples
    .filter((sample) => signatureOf(sample) === signature)
    .flatMap((request) =>
      Array.from({ length: request.rows }, (_, row) => ({ request, fromRow: row, toRow: row + 1 })),
    );
  return rows.slice(0, MOST_PROBES);
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
  const tried = SIZES.map((size) => rowShapes(model, known, size));
  return sizes === undefined ? tried : [...tried.slice(0, 1), rowShapes(model, sizes, 1), ...tried.slice(1)];
}
