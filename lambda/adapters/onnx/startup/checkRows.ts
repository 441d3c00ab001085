import { messageOf } from '../../../core/contract/failure.ts';
import { type Model, OutOfMemoryError } from '../../../core/contract/model.ts';
import { elementsPerRowAt, type Part } from '../../../core/plan/microBatch.ts';
import { judge } from './judgeMismatch.ts';
import type { ProbeSet, RowCheck } from './rowCheck.ts';
import { isNotTheRuns, MANY_ELEMENTS, runTogether, type TogetherRun } from './runTogether.ts';
import { createSightings, type Sightings } from './sightings.ts';

export interface RowCheckOptions {
  /** Most milliseconds until the verdict; what is not looked at until then is said. */
  readonly limitMs: number;
  readonly now: () => number;
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
  { limitMs, now }: RowCheckOptions,
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
    const tried = await firstThatRuns(alternatives, usable.length === 0, firstCount, model, sightings);
    if ('verdict' in tried) return tried;
    if ('reason' in tried) ({ reason } = tried);
    else usable.push(tried);
  }
  const pool = poolOf(usable);
  const isRung = model.ladder.length > 0;
  let fewer: RowCheck['fewer'];
  let msPerRow = 0;
  for (const count of laterCounts) {
    const countStartedAt = now();
    const isTooMuch = count > MANY_ROWS && elementsOf(pool[0]) * count > MANY_ELEMENTS;
    if (pool.length === 0 || isTooMuch || countStartedAt - startedAt + msPerRow * count > limitMs) {
      skipped.push(count);
      continue;
    }
    const companies =
      count < MANY_ROWS || isRung ? [fill(pool, count), fill(pool.toReversed(), count)] : [fill(pool, count)];
    const dependent = await compare(companies, model, sightings);
    if (dependent !== undefined && dependent.fewer === undefined) return dependent;
    if (dependent !== undefined) {
      ({ fewer } = dependent);
      skipped.push(count);
    }
    msPerRow = (now() - countStartedAt) / (count * companies.length);
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
    largest: sightings.largest()?.share ?? 0,
    finding: `${names} in runs of ${counts} rows differed by ${describeLargest(sightings)}, ${ms} ms${cut}`,
    fewer,
  };
}

function describeLargest(sightings: Sightings): string {
  const largest = sightings.largest();
  return largest === undefined ? 'nothing' : `${largest.share.toExponential(0)} at most (output '${largest.output}')`;
}

/** An odd and an even count, fewer and more rows than a vector has lanes, and the most there are; else the ladder's rungs. */
const ROW_COUNTS = [3, 8, 32];
const MANY_ROWS = 32;

function elementsOf(probe: Part | undefined): number {
  if (probe === undefined) return 0;
  return elementsPerRowAt(probe.request, probe.request.length);
}

/** The row counts at which a row has neighbours, the first of them the one that tells most for its time. */
function rowCountsOf({ ladder, maxBatchRows }: Model): number[] {
  const counts = ladder.length > 0 ? ladder : [...ROW_COUNTS, ...(maxBatchRows > MANY_ROWS ? [maxBatchRows] : [])];
  const several = counts.filter((count) => count > 1 && count <= maxBatchRows);
  return several.length === 0 && maxBatchRows > 1 ? [maxBatchRows] : several;
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

/** One probe among copies of another, among others, and at the end. */
function companiesOf(probes: readonly Part[], count: number): [copies: Part[], others: Part[], last: Part[]] {
  const [p, q = p, r = q, s = r] = probes as [Part, ...Part[]];
  const behind = (first: Part, others: readonly Part[]): Part[] => [first, ...fill(others, count - 1)];
  return [behind(p, [q]), behind(p, [r, s, q]), behind(p, [q, s]).reverse()];
}

/** So many rows, the parts one after the other again and again. */
function fill(parts: readonly Part[], count: number): Part[] {
  return Array.from({ length: count }, (_, index) => parts[index % parts.length] as Part);
}

/** The probes of all sets in turn, as far as they can share a run: those of the first one's trailing shapes. */
function poolOf(sets: readonly ProbeSet[]): Part[] {
  const [first] = sets;
  if (first === undefined) return [];
  const alike = sets.filter(({ probes }) => shapeOf(probes[0]) === shapeOf(first.probes[0]));
  const longest = Math.max(...alike.map(({ probes }) => probes.length));
  return Array.from({ length: longest }, (_, index) => alike.flatMap(({ probes }) => probes[index] ?? [])).flat();
}

function shapeOf(probe: Part | undefined): string {
  return probe?.request.inputs.map(({ shape }) => shape.slice(1).join()).join(';') ?? '';
}
