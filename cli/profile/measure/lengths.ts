import type { Model } from '../../../lambda/core/model.ts';

export interface Lengths {
  /** Ascending. */
  readonly lengths: readonly number[];
  /** One of them. */
  readonly ordinary: number;
}

/** Of real rows. */
export interface RealLengths {
  readonly shortest: number;
  readonly ordinary: number;
  readonly longest: number;
}

/** Short, ordinary and long texts. */
const USUAL = [8, 32, 128];

/**
 * A few lengths, from short to long: of the ragged axis' ladder, else of real rows, else about those that config.json
 * gives for the warm-up, else usual ones.
 *
 * @param isOpen whether any axis is
 * @param given sizes of axes by name, for the warm-up
 */
export function lengthsToTry(
  { ragged }: Model,
  isOpen: boolean,
  given: Readonly<Record<string, number>>,
  real?: RealLengths,
): Lengths {
  if (!isOpen) return { lengths: [1], ordinary: 1 };
  const ladder = ragged?.ladder ?? [];
  if (ladder.length > 0) return ofLadder(ladder, real?.ordinary);
  if (real !== undefined) {
    const { shortest, ordinary, longest } = real;
    const short = shortest === longest ? Math.ceil(ordinary / 4) : shortest;
    return sorted([short, ordinary, longest], ordinary);
  }
  const size = ragged === undefined ? undefined : given[ragged.name];
  if (size !== undefined) return sorted([Math.ceil(size / 16), Math.ceil(size / 4), size], Math.ceil(size / 4));
  return sorted(USUAL, 32);
}

/** Its ends and its middle, and the rung of ordinary rows. */
function ofLadder(ladder: readonly number[], real: number | undefined): Lengths {
  const middle = ladder[(ladder.length - 1) >> 1] as number;
  const ordinary = real === undefined ? middle : (ladder.find((rung) => rung >= real) ?? (ladder.at(-1) as number));
  return sorted([ladder[0] as number, middle, ordinary, ladder.at(-1) as number], ordinary);
}

function sorted(lengths: readonly number[], ordinary: number): Lengths {
  return { lengths: [...new Set(lengths)].toSorted((a, b) => a - b), ordinary };
}
