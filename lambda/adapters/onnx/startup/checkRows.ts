import { messageOf } from '../../../core/contract/failure.ts';
import {
  type Model,
  ModelUnavailableError,
  OutOfMemoryError,
  RunAbandonedError,
} from '../../../core/contract/model.ts';
import type { Part } from '../../../core/plan/microBatch.ts';
import type { Difference, Tolerance } from '../../../core/tensor/difference.ts';
import { runTogether, type TogetherRun } from './runTogether.ts';
import { type Answer, createSightings, type Mismatch, moreThanRounding, type Sightings } from './sightings.ts';

/** Rows of one trailing shape, four at most, that the model is tried with. */
export interface ProbeSet {
  /** As the start log calls them. */
  readonly name: string;
  readonly probes: readonly Part[];
}

export interface RowCheck {
  /** `unknown`: no probe could be run, all were answered alike, answers are random, or time ran out before the first comparison. */
  readonly verdict: 'independent' | 'dependent' | 'unknown';
  /** What was found, or why nothing was. */
  readonly finding: string;
  /** The difference that neighbours made; undefined unless dependent. */
  readonly mismatch?: Difference | undefined;
}

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
  sets: readonly (readonly ProbeSet[])[],
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
  for (const count of laterCounts) {
    const elapsedMs = now() - startedAt;
    if (elapsedMs > limitMs) {
      skipped.push(count);
      continue;
    }
    for (const { probes } of elapsedMs > thoroughMs ? usable.slice(0, 1) : usable) {
      const dependent = await compareAt(count, model, probes, sightings);
      if (dependent !== undefined) return dependent;
    }
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
  };
}

function describeLargest(sightings: Sightings): string {
  const largest = sightings.largest();
  return largest === undefined ? 'nothing' : `${largest.share.toExponential(0)} at most (output '${largest.output}')`;
}

/** Odd and even counts, fewer and more rows than a vector has lanes; the rungs where there is a ladder. */
const ROW_COUNTS = [3, 8, 2, 32];

/** The row counts at which a row has neighbours, the first of them the one that tells most for its time. */
function rowCountsOf({ ladder, maxBatchRows }: Model): number[] {
  const counts = ladder.length > 0 ? ladder : ROW_COUNTS;
  return counts.filter((count) => count > 1 && count <= maxBatchRows);
}

/** The first set whose probes run one by one, their answers entered; else why the last did not. */
async function firstThatRuns(
  model: Model,
  alternatives: readonly ProbeSet[],
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
      return {
        verdict: 'dependent',
        finding: `it runs with each row alone, and not with ${count}: ${messageOf(error)}`,
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

/** Beyond this share not even a chaotic model's rounding goes, for most rows. */
const ROW_COUNT_ALONE: Tolerance = { FP16: 0.1, OTHER: 0.1 };

/** Whether a mismatch is random, rounding by another row count alone, or what other rows do. */
async function judge(
  mismatch: Mismatch,
  company: readonly Part[],
  run: TogetherRun,
  model: Model,
  probes: readonly Part[],
  sightings: Sightings,
): Promise<RowCheck | undefined> {
  const again = await runTogether(model, company);
  const isRandom = company.some((_, row) => differs(run.answers[row], again.answers[row], SAME_AGAIN));
  if (isRandom) return { verdict: 'unknown', finding: 'it answers the same run differently each time' };
  const { difference, changed } = mismatch;
  const dependent: RowCheck = { verdict: 'dependent', finding: describeMismatch(mismatch), mismatch: difference };
  if (changed !== 'row count') return dependent;
  let changedByCount = 0;
  for (const probe of probes) {
    const { answers } = await runTogether(model, new Array<Part>(company.length).fill(probe));
    if (answers.some((answer) => differs(answer, answers[0], SAME_AGAIN))) return dependent;
    const place = company.indexOf(probe);
    if (place >= 0 && differs(answers[place], run.answers[place], SAME_AGAIN)) return dependent;
    if (differs(answers[0], sightings.firstOf(probe), ROW_COUNT_ALONE)) changedByCount += 1;
  }
  return 2 * changedByCount > probes.length ? dependent : undefined;
}

const SAME_AGAIN: Tolerance = { FP16: 1e-2, OTHER: 1e-4 };

function differs(a: Answer | undefined, b: Answer | undefined, tolerance: Tolerance): boolean {
  return a !== undefined && b !== undefined && moreThanRounding(a, b, tolerance) !== undefined;
}

function describeMismatch({ difference, changed, rowCounts: [before, now] }: Mismatch): string {
  const where = {
    neighbours: `with other neighbours in a run of ${now} rows`,
    place: `at another place in a run of ${now} rows`,
    'row count': `in runs of ${before} and ${now} rows`,
  }[changed];
  return `output '${difference.output}': expected one answer to a row, got ${difference.detail} ${where}`;
}
