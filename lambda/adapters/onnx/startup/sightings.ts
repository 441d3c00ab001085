import type { Model } from '../../../core/contract/model.ts';
import type { Part } from '../../../core/plan/microBatch.ts';
import {
  type Difference,
  differenceOf,
  isMoreThanRounding,
  OTHER_SHAPE,
  SAME_PLACE,
  SAME_SHAPE,
  type Tolerance,
} from '../../../core/tensor/difference.ts';
import type { Tensor } from '../../../core/tensor/tensor.ts';
import type { TogetherRun } from './runTogether.ts';

export type Answer = readonly Tensor[];

/** Where and among whom a probe was answered. */
interface Sighting {
  readonly answer: Answer;
  readonly paddedRows: number;
  readonly place: number;
}

/** A probe's answer that is not the one it got before. */
export interface Mismatch {
  readonly probe: Part;
  readonly difference: Difference;
  /** What differed between the two runs. With another row count, neighbours and place may differ too. */
  readonly changed: 'neighbours' | 'place' | 'row count';
  /** The rows of the two runs. */
  readonly rowCounts: readonly [number, number];
  readonly place: number;
}

/** The answers that probes got, each compared with those that the same probe got before. */
export interface Sightings {
  /** Enters the answers of a run. Gives one that differs by more than rounding, by more than the row count where there is one. */
  see(parts: readonly Part[], run: TogetherRun): Mismatch | undefined;
  /** What a probe was answered in its first run of all. */
  firstOf(probe: Part): Answer | undefined;
  /** The largest difference that was taken for rounding, if there was any. */
  largest(): Difference | undefined;
  /** Whether two probes got different answers: a model that answers all probes alike could mix rows unseen. */
  hasVaried(): boolean;
}

export function createSightings({ outputs }: Model): Sightings {
  const sightings = new Map<Part, Sighting[]>();
  let largest: Difference | undefined;
  const compare = (probe: Part, before: Sighting, now: Sighting): Mismatch | undefined => {
    const [changed, tolerance] = whatChanged(before, now);
    const difference = moreThanRounding(before.answer, now.answer, tolerance, (small) => {
      if (small.share > (largest?.share ?? 0)) largest = small;
    });
    if (difference === undefined) return undefined;
    return { probe, difference, changed, rowCounts: [before.paddedRows, now.paddedRows], place: now.place };
  };
  return {
    see(parts, { answers, paddedRows }) {
      const mismatches: Mismatch[] = [];
      for (const [place, probe] of parts.entries()) {
        const now: Sighting = { answer: answers[place] as Answer, paddedRows, place };
        const known = sightings.get(probe) ?? [];
        sightings.set(probe, [...known, now]);
        const alike = known.filter((sighting) => sighting.paddedRows === paddedRows);
        const before = alike.find((sighting) => sighting.place === place) ?? alike[0] ?? known[0];
        const mismatch = before === undefined ? undefined : compare(probe, before, now);
        if (mismatch !== undefined) mismatches.push(mismatch);
      }
      return mismatches.find(({ changed }) => changed !== 'row count') ?? mismatches[0];
    },
    firstOf: (probe) => sightings.get(probe)?.[0]?.answer,
    largest: () => largest,
    hasVaried() {
      const firsts = [...sightings.values()].flatMap(([first]) => (first === undefined ? [] : [first.answer]));
      return outputs.some((_, index) =>
        firsts.some((answer) => differenceOf(firsts[0]?.[index] as Tensor, 0, answer[index] as Tensor, 0).share > 0),
      );
    },
  };
}

function whatChanged(before: Sighting, now: Sighting): [Mismatch['changed'], Tolerance] {
  if (before.paddedRows !== now.paddedRows) return ['row count', OTHER_SHAPE];
  return before.place === now.place ? ['neighbours', SAME_PLACE] : ['place', SAME_SHAPE];
}

/** The first output that differs by more than rounding; `onRounding` is told of the differences that do not. */
export function moreThanRounding(
  a: Answer,
  b: Answer,
  tolerance: Tolerance,
  onRounding: (difference: Difference) => void = () => {},
): Difference | undefined {
  for (const [index, output] of a.entries()) {
    const difference = differenceOf(output, 0, b[index] as Tensor, 0);
    if (isMoreThanRounding(difference, output.datatype, tolerance)) return difference;
    onRounding(difference);
  }
  return undefined;
}
