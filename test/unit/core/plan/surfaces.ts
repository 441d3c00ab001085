import type { MeasuredRun } from '../../../../lambda/core/model.ts';

/** The milliseconds that a run takes, in truth. */
export type Surface = (rows: number, length: number) => number;

/** Models as they are found: what costs how much. */
export const SURFACES = {
  affine: (rows, length) => 1.6 + 0.075 * rows * length,
  knee: (rows, length) => 1 + 0.06 * rows * length + 0.03 * Math.max(0, rows * length - 300),
  leap: (rows, length) => 0.3 + (rows * length > 400 ? 0.09 : 0.055) * rows * length,
  rowsGainNothing: (rows, length) => rows * (0.5 + 0.05 * length),
  superlinear: (rows, length) => 1 + 0.04 * rows * length + 0.0004 * rows * length * length,
  recurrent: (rows, length) => 0.2 + length * (0.03 + 0.004 * rows),
} as const satisfies Record<string, Surface>;

export const SURFACE_NAMES = Object.keys(SURFACES) as (keyof typeof SURFACES)[];

/** What every run costs outside of ONNX Runtime. */
export const OUTSIDE_MS = 0.1;

export function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31;
    return (state + 1) / (2 ** 31 + 1);
  };
}

/** Lengths as texts have them: log-normal, 3 to 256, 34 on average. */
export function textLengths(count: number, random: () => number): number[] {
  return Array.from({ length: count }, () => {
    const normal = Math.sqrt(-2 * Math.log(random())) * Math.cos(2 * Math.PI * random());
    return Math.min(256, Math.max(3, Math.round(26 * Math.exp(0.75 * normal))));
  });
}

/** What a short start measures: few sizes, none that takes long. */
export function measuredAtStart(surface: Surface, lengths: readonly number[] = [8, 32, 128]): MeasuredRun[] {
  return lengths.flatMap((length) =>
    Array.from({ length: 10 }, (_, power) => ({ rows: 2 ** power, length, ms: surface(2 ** power, length) })).filter(
      ({ ms }, index) => index < 2 || ms < 15,
    ),
  );
}

/** A run of so many rows, padded to a length. */
export interface Run {
  readonly rows: number;
  readonly length: number;
}

export function msOf(runs: readonly Run[], surface: Surface): number {
  return runs.reduce((sum, { rows, length }) => sum + OUTSIDE_MS + surface(rows, length), 0);
}

/** The least that texts of these lengths can take, one row each, in runs of neighbours by length. */
export function minMs(lengths: readonly number[], surface: Surface, maxRows = 512): number {
  const sorted = lengths.toSorted((a, b) => a - b);
  const min = [0];
  for (const [index, length] of sorted.entries()) {
    const fewest = Math.max(0, index + 1 - maxRows);
    const ways = min.slice(fewest).map((ms, way) => ms + OUTSIDE_MS + surface(index + 1 - fewest - way, length));
    min.push(Math.min(...ways));
  }
  return min.at(-1) as number;
}
