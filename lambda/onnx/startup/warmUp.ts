import type { MeasuredRun, Model } from '../../core/contract/model.ts';
import { type AxisSizes, elementsAt, emptyPast, freeAxes, symbolicAxes } from './axes.ts';
import { type ZeroRuns, zeroRuns } from './zeroRuns.ts';

/** Sizes of symbolic axes by name; `true` is 1 for each, `false` is no warm-up. */
export type WarmUpSizes = boolean | Readonly<Record<string, number>>;

export interface WarmUpResult {
  /** The model as it can really be run. */
  readonly model: Model;
  /** What its runs took: the faster of two where they are short, as the first run of a shape is slow. */
  readonly measured: readonly MeasuredRun[];
  /** The sizes of symbolic axes, by name, that it ran at; undefined where it did not run, or was not asked to. */
  readonly sizes?: AxisSizes | undefined;
  /** Set when the model declares its batch axis dynamic and yet runs at this size only. */
  readonly bakedRows?: number;
  /** What kept the warm-up from being complete, and what to do. */
  readonly problem?: string;
}

/** What axes without a size are tried at, one after the other, until the model runs. */
const SIZES = [1, 4, 32, 128];
/** Of the inputs of such a run: several open axes of the larger sizes together are more than fits into memory. */
const MOST_ELEMENTS = 4_194_304;

/** What is tried where a model does not run at 1 row: it may be baked to one of these. */
const BAKED_ROWS = [2, 4, 8, 16, 32, 64];

/**
 * Runs the model on zeros at every rung, or at 1 and 2 rows where it has no ladder: the first run of a shape is
 * slow, and an axis that is dynamic in name only fails at 2 rows.
 *
 * @param onGpu whether the first run of a shape is slow however long it takes
 * @throws Error when an output has no batch axis, a size names no axis of the model, or a run does not end
 */
export async function warmUp(model: Model, sizes: WarmUpSizes, onGpu = false): Promise<WarmUpResult> {
  if (sizes === false) return { model, measured: [] };
  refuseUnknownAxes(model, sizes);
  const runs = zeroRuns(model, onGpu);
  return { ...(await runEveryRung(model, sizes === true ? {} : sizes, runs)), measured: runs.measured };
}

async function runEveryRung(model: Model, given: AxisSizes, runs: ZeroRuns): Promise<Omit<WarmUpResult, 'measured'>> {
  const [smallest = 1, ...others] =
    model.ladder.length > 0 ? model.ladder : [1, ...(model.maxBatchRows > 1 ? [2] : [])];
  const found = await findSizes(model, smallest, given, runs);
  if ('reason' in found) {
    const baked = smallest === 1 && model.ladder.length === 0 ? await findBakedRows(model, given, runs) : undefined;
    if (baked !== undefined) return baked;
    const hint = 'give the sizes of its symbolic axes as "warmup" in config.json, or "warmup": false';
    return { model, problem: `warm-up with ${smallest} rows of zeros failed: ${found.reason}; ${hint}` };
  }
  const { sizes } = found;
  for (const rows of others) {
    const reason = await runs.tryAt(rows, sizes);
    if (reason === undefined) continue;
    if (smallest === 1 && model.ladder.length === 0) {
      return {
        model: { ...model, maxBatchRows: 1, ladder: [1] },
        sizes,
        bakedRows: 1,
        problem: `with 2 rows: ${reason}`,
      };
    }
    throw new Error(`expected the model to run at ${rows} rows, a rung of its ladder, got: ${reason}`);
  }
  return { model, sizes };
}

/** The sizes at which it runs, or why it did not at the first of them. */
async function findSizes(
  model: Model,
  rows: number,
  given: AxisSizes,
  runs: ZeroRuns,
): Promise<{ readonly sizes: AxisSizes } | { readonly reason: string }> {
  const open = freeAxes(model).filter((name) => given[name] === undefined);
  const past = emptyPast(model);
  let first: string | undefined;
  for (const size of open.length === 0 ? [1] : SIZES) {
    const ofOneSize = Object.fromEntries(open.map((name) => [name, size]));
    for (const some of [ofOneSize, ...(past === undefined ? [] : [{ ...ofOneSize, ...past }])]) {
      const sizes = { ...some, ...given };
      if (size > 1 && elementsAt(model, rows, sizes) > MOST_ELEMENTS) break;
      const reason = await runs.tryAt(rows, sizes);
      if (reason === undefined) return { sizes };
      first ??= reason;
    }
  }
  return { reason: first ?? '' };
}

/** A model whose axis 0 is dynamic in name only: it runs at one row count, and not at twice that. */
async function findBakedRows(
  model: Model,
  given: AxisSizes,
  runs: ZeroRuns,
): Promise<Omit<WarmUpResult, 'measured'> | undefined> {
  for (const rows of BAKED_ROWS.filter((count) => count <= model.maxBatchRows)) {
    const found = await findSizes(model, rows, given, runs);
    if ('reason' in found) continue;
    const { sizes } = found;
    if ((await runs.tryAt(2 * rows, sizes)) === undefined) return undefined;
    return { model: { ...model, maxBatchRows: rows, ladder: [rows] }, sizes, bakedRows: rows };
  }
  return undefined;
}

function refuseUnknownAxes(model: Model, sizes: WarmUpSizes): void {
  if (typeof sizes === 'boolean') return;
  const axes = symbolicAxes(model);
  const unknown = Object.keys(sizes).filter((name) => !axes.includes(name));
  if (unknown.length > 0) {
    throw new Error(
      `config.json, warmup: expected symbolic axes of the model (${axes.join(', ') || 'it has none'}), got ${unknown.join(', ')}`,
    );
  }
}
