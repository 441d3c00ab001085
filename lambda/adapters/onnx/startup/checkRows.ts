import { messageOf } from '../../../core/contract/failure.ts';
import { type Model, OutOfMemoryError } from '../../../core/contract/model.ts';
import type { Part } from '../../../core/plan/microBatch.ts';
import { companiesOf, companiesOfPool, elementsOf, MANY_ROWS, poolOf, rowCountsOf } from './companies.ts';
import { judge } from './judgeMismatch.ts';
import type { ProbeSet, RowCheck } from './rowCheck.ts';
import { isNotTheRuns, MANY_ELEMENTS, runTogether, type TogetherRun } from './runTogether.ts';
import { createSightings, type Sightings } from './sightings.ts';

export interface RowCheckOptions {
  /** Most milliseconds until the verdict; what is not looked at until then is said. */
  readonly limitMs: number;
  readonly now: () => number;
  /** At every row count of a ladder, at more places, however much a run holds. @default false */
  readonly isThorough?: boolean;
}

/**
 * Whether a row's answer is the same alone and among other rows, at other places and row counts. Of runs of one shape any
 * change is the neighbours' doing; what the row count alone changes by rounding is told from it by runs of copies.
 *
 * @param sets alternatives: of each list the first whose probes run is taken
 * @throws ModelUnavailableError, RunAbandonedError
 * @see docs/adr/0015-rows-are-proved-independent.md
 */
export async function checkRows(
  model: Model,
  sets: readonly Iterable<ProbeSet>[],
  { limitMs, now, isThorough = false }: RowCheckOptions,
): Promise<RowCheck> {
  const [firstCount, ...laterCounts] = rowCountsOf(model, isThorough);
  if (firstCount === undefined) return { verdict: 'independent', finding: 'it is run one row at a time', probes: 0 };
  const startedAt = now();
  const sightings = createSightings(model);
  const usable: ProbeSet[] = [];
  const skipped: number[] = [];
  let reason = 'made-up values might keep its loop from ending, and there are no samples';
  for (const alternatives of sets) {
    if (now() - startedAt > limitMs) break;
    const tried = await firstThatRuns(alternatives, usable.length === 0, firstCount, model, sightings);
    if ('verdict' in tried) return { ...tried, probes: sightings.probes() };
    if ('reason' in tried) ({ reason } = tried);
    else usable.push(tried);
  }
  const pool = poolOf(usable);
  let fewer: RowCheck['fewer'];
  let msPerRow = 0;
  for (const count of laterCounts) {
    const countStartedAt = now();
    const isTooMuch = !isThorough && count > MANY_ROWS && elementsOf(pool[0]) * count > MANY_ELEMENTS;
    if (pool.length === 0 || isTooMuch || countStartedAt - startedAt + msPerRow * count > limitMs) {
      skipped.push(count);
      continue;
    }
    const companies = companiesOfPool(pool, count, model, isThorough);
    const dependent = await compare(companies, model, sightings);
    if (dependent !== undefined && dependent.fewer === undefined) return { ...dependent, probes: sightings.probes() };
    if (dependent !== undefined) {
      ({ fewer } = dependent);
      skipped.push(count);
    }
    msPerRow = (now() - countStartedAt) / (count * companies.length);
  }
  const unknown = (finding: string): RowCheck => ({ verdict: 'unknown', finding, probes: sightings.probes() });
  if (usable.length === 0) return unknown(reason);
  const names = usable.map(({ name }) => name).join(', ');
  if (!sightings.hasVaried()) return unknown(`all ${names} were answered alike`);
  const counts = [firstCount, ...laterCounts].filter((count) => !skipped.includes(count)).join(', ');
  const cut = skipped.length === 0 ? '' : `; cut short before runs of ${skipped.join(', ')} rows`;
  const ms = Math.ceil(now() - startedAt);
  return {
    verdict: 'independent',
    largest: sightings.largest()?.share ?? 0,
    finding: `${names} in runs of ${counts} rows differed by ${describeLargest(sightings)}, ${ms} ms${cut}`,
    fewer,
    probes: sightings.probes(),
  };
}

function describeLargest(sightings: Sightings): string {
  const largest = sightings.largest();
  return largest === undefined ? 'nothing' : `${largest.share.toExponential(0)} at most (output '${largest.output}')`;
}

/**
 * The first set whose probes run alone and together with the same answers; a verdict where they run and answer
 * otherwise; else why the last did not run.
 *
 * @param isFirst the first set of all tells most, and has more runs
 */
async function firstThatRuns(
  alternatives: Iterable<ProbeSet>,
  isFirst: boolean,
  count: number,
  model: Model,
  sightings: Sightings,
): Promise<ProbeSet | RowCheck | { readonly reason: string }> {
  let reason = 'there was nothing to run it with';
  for (const set of alternatives) {
    const [p, q = p] = set.probes as readonly [Part, ...Part[]];
    const refused = await whyNotAlone(isFirst ? [p, q] : [p], model, sightings);
    if (refused === undefined) {
      const [amongCopies, amongOthers, last] = companiesOf(set.probes, count);
      const companies = isFirst ? [amongCopies, amongOthers, last] : [amongOthers];
      const dependent = await compare(companies, model, sightings);
      if (dependent === undefined) return set;
      const failed = dependent.failed === true ? await whyNotAlone(set.probes, model, sightings) : undefined;
      if (failed === undefined) return dependent;
      reason = `${set.name}: ${failed}`;
    } else reason = `${set.name}: ${refused}`;
  }
  return { reason };
}

/** Why one of the probes does not run alone; undefined where all do. */
async function whyNotAlone(probes: readonly Part[], model: Model, sightings: Sightings): Promise<string | undefined> {
  try {
    for (const probe of probes) sightings.see([probe], await runTogether(model, [probe]));
    return undefined;
  } catch (error) {
    if (isNotTheRuns(error)) throw error;
    return messageOf(error);
  }
}

/** Runs companies one after the other; undefined where the answers of their rows stay what they were. */
async function compare(
  companies: readonly (readonly Part[])[],
  model: Model,
  sightings: Sightings,
): Promise<RowCheck | undefined> {
  for (const company of companies) {
    let run: TogetherRun;
    try {
      run = await runTogether(model, company);
    } catch (error) {
      if (error instanceof OutOfMemoryError) return undefined;
      if (isNotTheRuns(error)) throw error;
      return failedAt(company.length, messageOf(error), model);
    }
    const mismatch = sightings.see(company, run);
    if (mismatch === undefined) continue;
    const judged = await judge(mismatch, company, run, model);
    if (judged !== undefined) return judged;
  }
  return undefined;
}

function failedAt(count: number, reason: string, { ladder }: Model): RowCheck {
  return {
    verdict: 'dependent',
    finding: `it runs with each row alone, and not with ${count}: ${reason}`,
    failed: true,
    fewer: count > MANY_ROWS && ladder.length === 0 ? { rows: MANY_ROWS, reason } : undefined,
  };
}
