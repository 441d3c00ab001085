import {
  type Difference,
  differenceOf,
  firstDifference,
  OTHER_SHAPE,
  SAME_PLACE,
  SAME_SHAPE,
  type Tolerance,
} from '../../core/difference.ts';
import type { Part } from '../../core/microBatch.ts';
import type { Model } from '../../core/model.ts';
import type { Tensor } from '../../core/tensor.ts';
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
  readonly difference: Difference;
  /** What differed between the two runs. With another row count, neighbours and place may differ too. */
  readonly changed: 'neighbours' | 'place' | 'row count';
  /** The rows of the two runs. */
  readonly rowCounts: readonly [number, number];
  /** Of the probe, in the run of now. */
  readonly place: number;
}

/** The answers that probes got, each compared with those that the same probe got before. */
export interface Sightings {
  /** Enters the answers of a run. Gives one that differs by more than rounding, by more than the row count where there is one. */
  see(parts: readonly Part[], run: TogetherRun): Mismatch | undefined;
  /** Forgets what was seen in runs of so many rows: it is compared with what other runs gave once more. */
  forget(paddedRows: number): void;
  /** The largest difference that was taken for rounding, if there was any. */
  largest(): Difference | undefined;
  /** How many probes were answered. */
  probes(): number;
  /** Whether two probes got different answers: a model that answers all probes alike could mix rows unseen. */
  hasVaried(): boolean;
}

/** What is known of a probe: its first answer of all, and by row count the first one and that of each place. */
interface Known {
  readonly first: Sighting;
  readonly byCount: Map<number, { readonly first: Sighting; readonly byPlace: Map<number, Sighting> }>;
}

export function createSightings({ outputs }: Model): Sightings {
  const sightings = new Map<Part, Known>();
  let largest: Difference | undefined;
  const compare = (before: Sighting, now: Sighting): Mismatch | undefined => {
    const [changed, tolerance] = whatChanged(before, now);
    const difference = firstDifference(before.answer, now.answer, tolerance, (small) => {
      if (small.share > (largest?.share ?? 0)) largest = small;
    });
    return difference && { difference, changed, rowCounts: [before.paddedRows, now.paddedRows], place: now.place };
  };
  return {
    see(parts, { answers, paddedRows }) {
      const mismatches: Mismatch[] = [];
      for (const [place, answer] of answers) {
        const probe = parts[place] as Part;
        const now: Sighting = { answer, paddedRows, place };
        const before = remember(sightings, probe, now);
        const mismatch = before === undefined ? undefined : compare(before, now);
        if (mismatch !== undefined) mismatches.push(mismatch);
      }
      return mismatches.find(({ changed }) => changed !== 'row count') ?? mismatches[0];
    },
    forget(paddedRows) {
      for (const { byCount } of sightings.values()) byCount.delete(paddedRows);
    },
    largest: () => largest,
    probes: () => sightings.size,
    hasVaried() {
      const firsts = [...sightings.values()].map(({ first }) => first.answer);
      return outputs.some((_, index) =>
        firsts.some((answer) => differenceOf(firsts[0]?.[index] as Tensor, 0, answer[index] as Tensor, 0).share > 0),
      );
    },
  };
}

/** Enters a sighting. Gives the one before that is most like it; undefined where there is none. */
function remember(sightings: Map<Part, Known>, probe: Part, now: Sighting): Sighting | undefined {
  const known = sightings.get(probe);
  const ofCount = known?.byCount.get(now.paddedRows);
  if (ofCount === undefined) {
    const { byCount } = known ?? { byCount: new Map() };
    byCount.set(now.paddedRows, { first: now, byPlace: new Map([[now.place, now]]) });
    if (known === undefined) sightings.set(probe, { first: now, byCount });
    return known?.first;
  }
  const before = ofCount.byPlace.get(now.place);
  if (before === undefined) ofCount.byPlace.set(now.place, now);
  return before ?? ofCount.first;
}

function whatChanged(before: Sighting, now: Sighting): [Mismatch['changed'], Tolerance] {
  if (before.paddedRows !== now.paddedRows) return ['row count', OTHER_SHAPE];
  return before.place === now.place ? ['neighbours', SAME_PLACE] : ['place', SAME_SHAPE];
}
