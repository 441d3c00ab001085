import { messageOf } from '../../../core/contract/failure.ts';
import {
  type Model,
  ModelUnavailableError,
  OutOfMemoryError,
  RunAbandonedError,
} from '../../../core/contract/model.ts';
import { elementsPerRowAt, type Part } from '../../../core/plan/microBatch.ts';
import { judge } from './judgeMismatch.ts';
import type { ProbeSet, RowCheck } from './rowCheck.ts';
import { runTogether, type TogetherRun } from './runTogether.ts';
import { createSightings, type Sightings } from './sightings.ts';

export interface RowCheckOptions {
  /** Most milliseconds until the verdict; what is not looked at until then is said. */
  readonly limitMs: number;
  /** After so many milliseconds later row counts are compared with the first set of probes alone. */
  readonly thoroughMs: number;
  readonly now: () => number;
}

/**
 * Whether a row's answer is the same alone and among other rows, at other places and row counts. Of runs of one shape any
 * change is the neighbours' doing; what the row count alone changes by rounding is told from it by runs of copies.
 *
 * @param sets alternatives: of each list the first whose probes run one by one is taken
 * @throws ModelUnavailableError, RunAbandonedError
 * @see docs/adr/0015-rows-are-proved-independent.md
 */
export async function checkRows(
  model: Model,
  sets: readonly Iterable<ProbeSet>[],
  { limitMs, thoroughMs, now }: RowCheckOptions,
): Promise<RowCheck> {
  const [firstCount, ...laterCounts] = rowCountsOf(model);
  if (firstCount === undefined) return { verdict: 'independent', finding: 'it is run one row at a time' };
  const startedAt = now();
  const sightings = createSightings(model);
  const usable: ProbeSet[] = [];
  const skipped: number[] = [];
  let reason = 'made-up values might keep its loop from ending, and there are no samples';
  for (const alternatives of sets) {
    if (now() - startedAt > limitMs) break;
    const found = await firstThatRuns(model, alternatives, sightings);
    if (typeof found === 'string') {
      reason = found;
      continue;
    }
    const dependent = await compareAt(firstCount, model, found.probes, sightings);
    if (dependent !== undefined) return dependent;
    usable.push(found);
  }
  let fewer: RowCheck['fewer'];
  let msPerRow = 0;
  const isTooMuch = (rows: number): boolean =>
    now() - startedAt + msPerRow * rows > limitMs ||
    usable.some(({ probes: [probe] }) => elementsOf(probe) * rows > MANY_ELEMENTS);
  for (const count of laterCounts) {
    const countStartedAt = now();
    const elapsedMs = countStartedAt - startedAt;
    if (elapsedMs > limitMs || (count > MANY_ROWS && isTooMuch(count))) {
      skipped.push(count);
      continue;
    }
    const some = elapsedMs > thoroughMs || count > MANY_ROWS ? usable.slice(0, 1) : usable;
    for (const { probes } of some) {
      const dependent = await compareAt(count, model, probes, sightings);
      if (dependent === undefined) continue;
      if (dependent.fewer === undefined) return dependent;
      ({ fewer } = dependent);
      skipped.push(count);
    }
    msPerRow = (now() - countStartedAt) / (count * Math.max(1, some.length));
  }
  const unknown = (finding: string): RowCheck => ({ verdict: 'unknown', finding });
  if (usable.length === 0) return unknown(reason);
  const names = usable.map(({ name }) => name).join(', ');
  if (!sightings.hasVaried()) return unknown(`all ${names} were answered alike`);
  const counts = [firstCount, ...laterCounts].filter((count) => !skipped.includes(count)).join(', ');
  const cut = skipped.length === 0 ? '' : `; cut short before runs of ${skipped.join(', ')} rows`;
  const ms = Math.ceil(now() - startedAt);
  return {
    verdict: 'independent',
    finding: `${names} in runs of ${counts} rows differed by ${describeLargest(sightings)}, ${ms} ms${cut}`,
    fewer,
  };
}

function describeLargest(sightings: Sightings): string {
  const largest = sightings.largest();
  return largest === undefined ? 'nothing' : `${largest.share.toExponential(0)} at most (output '${largest.output}')`;
}

/** Odd and even counts, fewer and more rows than a vector has lanes, and the most there are; else the ladder's rungs. */
const ROW_COUNTS = [3, 8, 2, 32];
const MANY_ROWS = 32;
/** Of the inputs of one run: as many float32 take 4 MiB. */
const MANY_ELEMENTS = 1_048_576;

function elementsOf(probe: Part | undefined): number {
  if (probe === undefined) return 0;
  return elementsPerRowAt(probe.request, probe.request.length);
}

/** The row counts at which a row has neighbours, the first of them the one that tells most for its time. */
function rowCountsOf({ ladder, maxBatchRows }: Model): number[] {
  const counts = ladder.length > 0 ? ladder : [...ROW_COUNTS, ...(maxBatchRows > MANY_ROWS ? [maxBatchRows] : [])];
  return counts.filter((count) => count > 1 && count <= maxBatchRows);
}

/** The first set whose probes run one by one, their answers entered; else why the last did not. */
async function firstThatRuns(
  model: Model,
  alternatives: Iterable<ProbeSet>,
  sightings: Sightings,
): Promise<ProbeSet | string> {
  let reason = 'there was nothing to run it with';
  for (const set of alternatives) {
    try {
      for (const probe of set.probes) sightings.see([probe], await runTogether(model, [probe]));
      return set;
    } catch (error) {
      if (isNotTheRuns(error)) throw error;
      reason = `${set.name}: ${messageOf(error)}`;
    }
  }
  return reason;
}

function isNotTheRuns(error: unknown): boolean {
  return error instanceof RunAbandonedError || error instanceof ModelUnavailableError;
}

/** Compares probes in runs of `count` rows; undefined where their answers stay what they were. */
async function compareAt(
  count: number,
  model: Model,
  probes: readonly Part[],
  sightings: Sightings,
): Promise<RowCheck | undefined> {
  for (const company of companiesOf(probes, count)) {
    let run: TogetherRun;
    try {
      run = await runTogether(model, company);
    } catch (error) {
      if (error instanceof OutOfMemoryError) return undefined;
      if (isNotTheRuns(error)) throw error;
      const reason = messageOf(error);
      return {
        verdict: 'dependent',
        finding: `it runs with each row alone, and not with ${count}: ${reason}`,
        fewer: count > MANY_ROWS && model.ladder.length === 0 ? { rows: MANY_ROWS, reason } : undefined,
      };
    }
    const mismatch = sightings.see(company, run);
    if (mismatch === undefined) continue;
    const judged = await judge(mismatch, company, run, model, probes, sightings);
    if (judged !== undefined) return judged;
  }
  return undefined;
}

/** One probe among copies of another, among others, and at the end. */
function companiesOf(probes: readonly Part[], count: number): Part[][] {
  const [p, q = p, r = q, s = r] = probes as [Part, ...Part[]];
  const fill = (first: Part, others: readonly Part[]): Part[] =>
    Array.from({ length: count }, (_, index) => (index === 0 ? first : (others[(index - 1) % others.length] as Part)));
  return [fill(p, [q]), fill(p, [r, s, q]), fill(p, [q, s]).reverse()];
}
