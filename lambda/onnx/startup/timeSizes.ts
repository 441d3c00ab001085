import { elementsPerRowAt, type Part, paddedLengthOf } from '../../core/microBatch.ts';
import type { MeasuredRun, Model } from '../../core/model.ts';
import { capacityOf } from '../../core/plan.ts';
import type { RecordedRuns } from './recordRuns.ts';
import { isNotTheRuns, runTogether } from './runTogether.ts';

export interface TimeSizesOptions {
  /** Requests of one row, of one length or of several. */
  readonly probes: readonly Part[];
  /** Most elements that the inputs of one run hold together. */
  readonly maxElements: number;
  /** So many milliseconds, and then no further run is begun. */
  readonly limitMs: number;
  readonly now: () => number;
}

/** A size is run so often: the first run is slow, and others may be held up. */
const TIMES = 3;
/** A row of a run that takes longer than the best by this factor: yet larger runs gain nothing. */
const CLEARLY_WORSE = 1.5;

/** A probe in so many rows. */
interface Size {
  readonly probe: Part;
  readonly rows: number;
}

/**
 * Runs probes in 1, 2, 4, … rows, small runs first, so that the plan knows what runs cost. What the model was run at
 * before is not run again as often. Sizes at which it fails, or a row takes clearly longer than in smaller runs, are left
 * out, and so are those larger.
 *
 * @param recorded the model, and what was measured of it until now
 * @throws ModelUnavailableError, RunAbandonedError
 */
export async function timeSizes(
  { model, measured, timesAt }: RecordedRuns,
  { probes, maxElements, limitMs, now }: TimeSizesOptions,
): Promise<void> {
  const endsAt = now() + limitMs;
  const sizes = probes
    .flatMap((probe) => rowCountsOf(model, probe, maxElements).map((rows): Size => ({ probe, rows })))
    .toSorted((a, b) => elementsOf(a) - elementsOf(b));
  const most = new Map<Part, number>();
  for (let times = 1; times <= TIMES; times++) {
    for (const { probe, rows } of sizes) {
      const length = paddedLengthOf(model, probe.request.length);
      if (rows > (most.get(probe) ?? rows) || timesAt(rows, length) >= times) continue;
      if (now() + expectedMs(measured(), rows, length) > endsAt) continue;
      try {
        await runTogether(model, new Array<Part>(rows).fill(probe));
      } catch (error) {
        if (isNotTheRuns(error)) throw error;
        most.set(probe, rows - 1);
      }
      if (times > 1 && isClearlyWorse(measured(), rows, length)) most.set(probe, rows);
    }
  }
}

function rowCountsOf(model: Model, { request }: Part, maxElements: number): number[] {
  if (model.ladder.length > 0) return [...model.ladder];
  const { rows } = capacityOf(model, elementsPerRowAt(request, paddedLengthOf(model, request.length)), { maxElements });
  return Array.from({ length: Math.floor(Math.log2(rows)) + 1 }, (_, power) => 2 ** power);
}

function elementsOf({ probe: { request }, rows }: Size): number {
  return rows * request.length;
}

/** As long as at the nearest smaller size, in proportion; nothing is known of the first. */
function expectedMs(measured: readonly MeasuredRun[], rows: number, length: number): number {
  const known = measured.filter((run) => run.rows <= rows && run.length <= length);
  const nearest = known.toSorted((a, b) => b.rows * b.length - a.rows * a.length)[0];
  return nearest === undefined ? 0 : (nearest.ms * rows * length) / (nearest.rows * nearest.length);
}

function isClearlyWorse(measured: readonly MeasuredRun[], rows: number, length: number): boolean {
  const perRow = measured.filter((run) => run.length === length && run.rows <= rows).map((run) => run.ms / run.rows);
  const own = measured.find((run) => run.rows === rows && run.length === length);
  return own !== undefined && own.ms / rows > CLEARLY_WORSE * Math.min(...perRow);
}
