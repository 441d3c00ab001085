import { messageOf } from '../../core/failure.ts';
import type { Part } from '../../core/microBatch.ts';
import { type Model, OutOfMemoryError } from '../../core/model.ts';
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
  const tried = widened(model);
  const [firstCount, ...laterCounts] = rowCountsOf(tried, isThorough);
  const runsOneRow: RowCheck = { verdict: 'independent', finding: 'it is run one row at a time', probes: 0 };
  if (firstCount === undefined) return runsOneRow;
  const startedAt = now();
  const sightings = createSightings(model);
  const usable: ProbeSet[] = [];
  let isCutShort = false;
  let reason = 'made-up values might keep its loop from ending, and there are no samples';
  for (const alternatives of sets) {
    isCutShort = now() - startedAt > limitMs;
    if (isCutShort) break;
    const found = await firstThatRuns(alternatives, usable.length === 0, firstCount, tried, sightings);
    if ('reason' in found) ({ reason } = found);
    else if (!('verdict' in found)) usable.push(found);
    else if (tried !== model && found.because === 'failed') return runsOneRow;
    else return { ...found, probes: sightings.probes() };
  }
  let pool = poolOf(usable);
  let fewer: RowCheck['fewer'];
  const counts = [firstCount];
  let msPerRow = 0;
  for (const count of laterCounts) {
    const countStartedAt = now();
    const isTooMuch = !isThorough && count > MANY_ROWS && elementsOf(pool[0]) * count > MANY_ELEMENTS;
    isCutShort ||= isTooMuch || countStartedAt - startedAt + msPerRow * count > limitMs;
    if (pool.length === 0 || isCutShort) break;
    const companies = companiesOfPool(pool, count, tried, isThorough);
    let dependent = await compare(companies, tried, sightings);
    if (dependent?.because !== undefined && usable.length > 1) {
      // A probe that cannot be run in company, or whose sums lose their digits, says nothing of ordinary ones.
      pool = poolOf(usable.slice(0, 1));
      sightings.forget(count);
      dependent = await compare(companiesOfPool(pool, count, tried, isThorough), tried, sightings);
    }
    if (dependent?.because !== undefined && tried.ladder.length === 0) {
      fewer = { rows: Math.max(...counts), tried: count, reason: dependent.finding, because: dependent.because };
      break;
    }
    if (dependent !== undefined) return { ...dependent, probes: sightings.probes() };
    counts.push(count);
    msPerRow = (now() - countStartedAt) / (count * companies.length);
  }
  const unknown = (finding: string): RowCheck => ({ verdict: 'unknown', finding, probes: sightings.probes() });
  if (usable.length === 0) return unknown(reason);
  const names = usable.map(({ name }) => name).join(', ');
  if (!sightings.hasVaried()) return unknown(`all ${names} were answered alike`);
  const ms = Math.ceil(now() - startedAt);
  return {
    verdict: 'independent',
    largest: sightings.largest()?.share ?? 0,
    finding: `${names} in runs of ${counts.join(', ')} rows differed by ${describeLargest(sightings)}, ${ms} ms`,
    fewer,
    provedRows: isCutShort ? Math.max(...counts) : undefined,
    probes: sightings.probes(),
  };
}

/**
 * A model that is to run one row at a time is tried with a few all the same, unless its file says that it takes no more:
 * it is to be known whether a request of several rows may be cut.
 */
function widened(model: Model): Model {
  const isOpen = model.inputs.every(({ shape: [rows] }) => typeof rows === 'string');
  return model.maxBatchRows > 1 || !isOpen ? model : { ...model, maxBatchRows: FEW_ROWS, ladder: [] };
}

const FEW_ROWS = 3;

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
      const [amongOthers, ...more] = companiesOf(set.probes, count);
      const companies = isFirst ? [amongOthers, ...more] : [amongOthers];
      const dependent = await compare(companies, model, sightings);
      if (dependent === undefined) return set;
      const failed = dependent.because === 'failed' ? await whyNotAlone(set.probes, model, sightings) : undefined;
      if (failed === undefined && (isFirst || dependent.because === undefined)) return dependent;
      reason = `${set.name}: ${failed ?? dependent.finding}`;
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
      return failedAt(company.length, messageOf(error));
    }
    const mismatch = sightings.see(company, run);
    if (mismatch === undefined) continue;
    return await judge(mismatch, company, run, model);
  }
  return undefined;
}

function failedAt(count: number, reason: string): RowCheck {
  return {
    verdict: 'dependent',
    finding: `it runs with each row alone, and not with ${count}: ${reason}`,
    because: 'failed',
  };
}
