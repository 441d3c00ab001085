import {
  type Difference,
  differenceOf,
  firstDifference,
  gravestDifference,
  isRounding,
  SAME_PLACE,
  SAME_SHAPE,
  type Tolerance,
} from '../core/difference.ts';
import { messageOf } from '../core/failure.ts';
import { elementsPerRowAt, microBatchOf, type Part } from '../core/microBatch.ts';
import { type Model, ModelUnavailableError, OutOfMemoryError, RunOverdueError } from '../core/model.ts';
import { assertBatched, stack, unstack } from '../core/stack.ts';
import type { Tensor } from '../core/tensor.ts';
import { roundedCopies } from '../core/verify.ts';

/** At start more rows tell no more: one probe among others, at several places. */
export const MAX_PROBES = 4;

/** Rows of one trailing shape that the model is tried with. */
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
  /** The largest difference that was taken for rounding, as a share of the answer, where rows are independent. */
  readonly largest?: number | undefined;
  /** The most rows of the runs that were compared, where rows are independent; fewer than a run may have where time ran out. */
  readonly verifiedRows?: number | undefined;
  /** How many rows were run alone and together. */
  readonly probes?: number;
  /** Set where the runs of several rows failed, or where the number of rows alone changes answers: fewer rows may do. */
  readonly because?: 'failed' | 'row count';
  /** Set where fewer rows run well than a run may have: how many, with how many not, and why. */
  readonly fewer?:
    | {
        readonly rows: number;
        readonly tried: number;
        readonly reason: string;
        readonly because: NonNullable<RowCheck['because']>;
      }
    | undefined;
}

interface RowCheckOptions {
  /** Most milliseconds until the verdict; what is not looked at until then is said. */
  readonly limitMs: number;
  readonly now: () => number;
  /** At every allowed row count, at more places, however much a run holds. @default false */
  readonly isThorough?: boolean;
}

/**
 * Whether a row's answer is the same alone and among other rows, at other places and row counts. Of runs of one shape any
 * change is the neighbours' doing; what the row count alone changes by rounding is told from it by runs of copies.
 *
 * @param sets alternatives: of each list the first whose probes run is taken
 * @throws ModelUnavailableError, RunOverdueError
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
  const observations = createObservations(model);
  const usable: ProbeSet[] = [];
  let isCutShort = false;
  let reason = 'made-up values might keep its loop from ending, and there are no samples';
  for (const alternatives of sets) {
    isCutShort = now() - startedAt > limitMs;
    if (isCutShort) break;
    const found = await firstThatRuns(alternatives, usable.length === 0, firstCount, tried, observations);
    if ('reason' in found) ({ reason } = found);
    else if (!('verdict' in found)) usable.push(found);
    else if (tried !== model && found.because === 'failed') return runsOneRow;
    else return { ...found, probes: observations.probes() };
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
    const neighbourSets = neighbourSetsOfPool(pool, count, tried, isThorough);
    let dependent = await compare(neighbourSets, tried, observations);
    if (dependent !== NO_MEMORY && dependent?.because !== undefined && usable.length > 1) {
      // A probe that cannot be run with others, or whose sums lose their digits, says nothing of ordinary ones.
      pool = poolOf(usable.slice(0, 1));
      observations.forget(count);
      dependent = await compare(neighbourSetsOfPool(pool, count, tried, isThorough), tried, observations);
    }
    if (dependent === NO_MEMORY) {
      isCutShort = true;
      break;
    }
    if (dependent?.because !== undefined && tried.allowedSizes.length === 0) {
      // What was taken for rounding at fewer rows may have been the beginning of it.
      const steady =
        dependent.because === 'failed' ? counts : counts.filter((one) => one < observations.unsteadyFrom());
      if (steady.length === 0) return { ...dependent, probes: observations.probes() };
      fewer = { rows: Math.max(...steady), tried: count, reason: dependent.finding, because: dependent.because };
      break;
    }
    if (dependent !== undefined) return { ...dependent, probes: observations.probes() };
    counts.push(count);
    msPerRow = (now() - countStartedAt) / (count * neighbourSets.length);
  }
  const unpadded = runsUnpadded(model) ? await compareUnpadded(pool, model, observations) : undefined;
  if (unpadded !== undefined) return { ...unpadded, probes: observations.probes() };
  const unknown = (finding: string): RowCheck => ({ verdict: 'unknown', finding, probes: observations.probes() });
  if (usable.length === 0) return unknown(reason);
  const names = usable.map(({ name }) => name).join(', ');
  if (!observations.hasVaried()) return unknown(`all ${names} were answered alike`);
  const ms = Math.ceil(now() - startedAt);
  return {
    verdict: 'independent',
    largest: observations.largest()?.share ?? 0,
    finding: `${names} in runs of ${counts.join(', ')} rows differed by ${describeLargest(observations)}, ${ms} ms`,
    fewer,
    verifiedRows: isCutShort ? Math.max(...counts) : undefined,
    probes: observations.probes(),
  };
}

/**
 * A model that is to run one row at a time is tried with a few all the same, unless its file says that it takes no more:
 * it is to be known whether a request of several rows may be cut.
 */
function widened(model: Model): Model {
  return model.maxBatchRows > 1 || !takesAnyCount(model)
    ? model
    : { ...model, maxBatchRows: FEW_ROWS, allowedSizes: [] };
}

const FEW_ROWS = 3;

function takesAnyCount({ inputs }: Model): boolean {
  return inputs.every(({ shape: [rows] }) => typeof rows === 'string');
}

/** Of a model with one allowed size runs of that size tell nothing of the number of rows. A GPU compiles for each. */
function runsUnpadded(model: Model): boolean {
  const [size = 1, ...others] = model.allowedSizes.filter((one) => one <= model.maxBatchRows);
  return size > 1 && others.length === 0 && takesAnyCount(model) && model.isCoarse !== true;
}

/** What padding a row with others up to the only allowed size changes; undefined where that is nothing, or it runs at no other. */
async function compareUnpadded(pool: readonly Part[], model: Model, observations: Observations) {
  const alone = pool.slice(0, MAX_PROBES).map((probe) => [probe]);
  const found = await compare(alone, { ...model, allowedSizes: [] }, observations);
  return found === NO_MEMORY || found?.because === 'failed' ? undefined : found;
}

function describeLargest(observations: Observations): string {
  const largest = observations.largest();
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
  observations: Observations,
): Promise<ProbeSet | RowCheck | { readonly reason: string }> {
  let reason = 'there was nothing to run it with';
  for (const set of alternatives) {
    const [p, q = p] = set.probes as readonly [Part, ...Part[]];
    const refused = await whyNotAlone([p, q], model, observations);
    if (refused === undefined) {
      const [amongOthers, ...more] = neighbourSetsOf(set.probes, count);
      const neighbourSets = isFirst ? [amongOthers, ...more] : [amongOthers];
      const dependent = await compare(neighbourSets, model, observations);
      if (dependent === undefined) return set;
      if (dependent === NO_MEMORY) {
        reason = `${set.name}: ${NO_MEMORY}`;
        continue;
      }
      const failed = dependent.because === 'failed' ? await whyNotAlone(set.probes, model, observations) : undefined;
      if (failed === undefined && (isFirst || dependent.because === undefined)) return dependent;
      reason = `${set.name}: ${failed ?? dependent.finding}`;
    } else reason = `${set.name}: ${refused}`;
  }
  return { reason };
}

/** Why one of the probes does not run alone; undefined where all do. */
async function whyNotAlone(
  probes: readonly Part[],
  model: Model,
  observations: Observations,
): Promise<string | undefined> {
  try {
    for (const probe of probes) observations.see([probe], await runTogether(model, [probe]));
    return undefined;
  } catch (error) {
    if (isNotTheRuns(error)) throw error;
    return messageOf(error);
  }
}

/** Such a run says nothing of its rows, here or where there is more memory. */
const NO_MEMORY = 'there is no memory for a run';

/** Runs neighbour sets one after the other; undefined where the answers of their rows stay what they were. */
async function compare(
  neighbourSets: readonly (readonly Part[])[],
  model: Model,
  observations: Observations,
): Promise<RowCheck | typeof NO_MEMORY | undefined> {
  for (const neighbours of neighbourSets) {
    let run: TogetherRun;
    try {
      run = await runTogether(model, neighbours);
    } catch (error) {
      if (error instanceof OutOfMemoryError) return NO_MEMORY;
      if (isNotTheRuns(error)) throw error;
      return failedAt(neighbours.length, messageOf(error));
    }
    for (const mismatch of observations.see(neighbours, run)) {
      const found = await judge(mismatch, neighbours, run, model);
      if (found !== undefined) return found;
      observations.accept(mismatch);
    }
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

/**
 * Odd and even counts, powers of two and none, fewer and more rows than a vector has lanes, and the most there are; else
 * the allowed sizes.
 */
const ROW_COUNTS = [3, 7, 8, 32, 33, 100];
const MANY_ROWS = 32;

function elementsOf(probe: Part | undefined): number {
  if (probe === undefined) return 0;
  return elementsPerRowAt(probe.request, probe.request.length);
}

/**
 * The row counts at which a row has neighbours, the first of them the one that tells most for its time.
 *
 * @param isThorough also at 2, 4, 8, … rows
 */
function rowCountsOf({ allowedSizes, maxBatchRows }: Model, isThorough: boolean): number[] {
  const more = isThorough ? powersOfTwoUpTo(maxBatchRows) : [maxBatchRows];
  const all = allowedSizes.length > 0 ? allowedSizes : [...new Set([...ROW_COUNTS, ...more])].toSorted((a, b) => a - b);
  const counts = all.filter((count) => count > 1 && count <= maxBatchRows);
  const [telling = counts[0]] = counts.filter((count) => count > 2);
  return telling === undefined ? [] : [telling, ...counts.filter((count) => count !== telling)];
}

/** One probe among others, among copies of another, at the end, and among copies of itself. */
function neighbourSetsOf(
  probes: readonly Part[],
  count: number,
): [others: Part[], copies: Part[], last: Part[], equal: Part[]] {
  const [p, q = p, r = q, s = r] = probes as [Part, ...Part[]];
  const behind = (first: Part, others: readonly Part[]): Part[] => [first, ...fill(others, count - 1)];
  return [behind(p, [r, s, q]), behind(p, [q]), behind(p, [q, s]).reverse(), behind(p, [p])];
}

/** All probes in turn, in neighbour sets of so many: forwards and backwards, and beginning at others where it is thorough. */
function neighbourSetsOfPool(
  pool: readonly Part[],
  count: number,
  { allowedSizes }: Model,
  isThorough: boolean,
): (readonly Part[])[] {
  const first = fill(pool, count);
  if (count >= MANY_ROWS && allowedSizes.length === 0 && !isThorough) return [first];
  const both = [first, fill(pool.toReversed(), count)];
  if (!isThorough) return both;
  const turned = [1, 2].map((third) => Math.floor((third * pool.length) / 3)).filter((start) => start > 0);
  return [...both, ...turned.map((start) => fill([...pool.slice(start), ...pool.slice(0, start)], count))];
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

/** So many rows, the parts one after the other again and again. */
function fill(parts: readonly Part[], count: number): Part[] {
  return Array.from({ length: count }, (_, index) => parts[index % parts.length] as Part);
}

/** 1, 2, 4, … below `max`, and `max`. */
export function powersOfTwoUpTo(max: number): number[] {
  const powers = Array.from({ length: Math.ceil(Math.log2(max)) }, (_, power) => 2 ** power);
  return [...powers, max];
}

/**
 * Whether a mismatch is random, made by the number of rows alone, or what other rows do. A run of the same shape that
 * holds copies of the row tells: what it gets there its neighbours did not do.
 *
 * @param run of the neighbour set in which it was found
 * @returns undefined where other kernels round otherwise at that number of rows, and nothing else
 */
async function judge(
  mismatch: Mismatch,
  neighbours: readonly Part[],
  run: TogetherRun,
  model: Model,
): Promise<RowCheck | undefined> {
  const again = await runTogether(model, neighbours);
  const isRandom = [...run.answers].some(([place, answer]) => differs(answer, again.answers.get(place)));
  if (isRandom) return { verdict: 'unknown', finding: 'it answers the same run differently each time' };
  const dependent: RowCheck = { verdict: 'dependent', finding: describeMismatch(mismatch) };
  if (mismatch.changed !== 'row count') return dependent;
  const probe = neighbours[mismatch.place] as Part;
  const { answers } = await runTogether(model, new Array<Part>(neighbours.length).fill(probe));
  const isOthersDoing =
    [...answers.values()].some((answer) => differs(answer, answers.get(0))) ||
    differs(answers.get(mismatch.place), run.answers.get(mismatch.place));
  if (isOthersDoing) return dependent;
  const whenRounded = async (): Promise<readonly Outputs[] | undefined> => {
    const copies = roundedCopies(probe);
    return copies.length < 2 ? undefined : [...(await runTogether(model, copies)).answers.values()];
  };
  const isSound = await isRounding(mismatch.difference, model.isCoarse === true, whenRounded);
  return isSound ? undefined : { ...dependent, because: 'row count' };
}

function differs(a: Outputs | undefined, b: Outputs | undefined): boolean {
  return a !== undefined && b !== undefined && firstDifference(a, b, SAME_SHAPE) !== undefined;
}

function describeMismatch({ difference, changed, rowCounts: [before, now] }: Mismatch): string {
  const where = {
    neighbours: `with other neighbours in a run of ${now} rows`,
    place: `at another place in a run of ${now} rows`,
    'row count': `in runs of ${before} and ${now} rows`,
  }[changed];
  return `output '${difference.output}': expected one answer to a row, got ${difference.detail} ${where}`;
}

export type Outputs = readonly Tensor[];

/** What a probe was answered in a run of so many rows, and at which place in it. */
interface Observation {
  readonly answer: Outputs;
  readonly paddedRows: number;
  readonly place: number;
}

/** A probe's answer that is not the one it got before. */
interface Mismatch {
  readonly difference: Difference;
  /** What differed between the two runs. With another row count, neighbours and place may differ too. */
  readonly changed: 'neighbours' | 'place' | 'row count';
  /** The rows of the two runs. */
  readonly rowCounts: readonly [number, number];
  /** Of the probe, in the later run. */
  readonly place: number;
}

type Observations = ReturnType<typeof createObservations>;

/** The answers that probes got, each compared with the earlier one of the same probe whose run was most like it. */
function createObservations({ outputs }: Model) {
  const ofProbe = new Map<Part, Observation[]>();
  let largest: Difference | undefined;
  let unsteadyFrom = Number.POSITIVE_INFINITY;
  const note = (small: Difference): void => {
    if (small.share > (largest?.share ?? 0)) largest = small;
  };
  const mismatchOf = (before: Observation, now: Observation): Mismatch | undefined => {
    const [changed, tolerance] = whatChanged(before, now);
    const first = firstDifference(before.answer, now.answer, tolerance, note);
    const difference = first && changed === 'row count' ? gravestDifference(before.answer, now.answer) : first;
    return difference && { difference, changed, rowCounts: [before.paddedRows, now.paddedRows], place: now.place };
  };
  return {
    /**
     * Enters the answers of a run.
     *
     * @returns one that differs by more than the row count, where there is one; else the worst that may differ by that
     */
    see(parts: readonly Part[], { answers, paddedRows }: TogetherRun): Mismatch[] {
      const mismatches: Mismatch[] = [];
      for (const [place, answer] of answers) {
        const probe = parts[place] as Part;
        const now: Observation = { answer, paddedRows, place };
        const earlier = ofProbe.get(probe) ?? [];
        const ofCount = earlier.filter((one) => one.paddedRows === paddedRows);
        const samePlace = ofCount.find((one) => one.place === place);
        const before = samePlace ?? ofCount[0] ?? earlier[0];
        if (samePlace === undefined) ofProbe.set(probe, [...earlier, now]);
        const mismatch = before && mismatchOf(before, now);
        if (mismatch !== undefined) mismatches.push(mismatch);
      }
      const ofNeighbours = mismatches.find(({ changed }) => changed !== 'row count');
      if (ofNeighbours !== undefined) return [ofNeighbours];
      return mismatches.toSorted((a, b) => b.difference.share - a.difference.share).slice(0, MAX_JUDGED);
    },
    /** Takes a mismatch for rounding. */
    accept({ difference, rowCounts }: Mismatch): void {
      note(difference);
      unsteadyFrom = Math.min(unsteadyFrom, Math.max(...rowCounts));
    },
    /** The fewest rows at which something had to be accepted. */
    unsteadyFrom: () => unsteadyFrom,
    /** Forgets runs of so many rows: the next of them is compared with runs of other counts once more. */
    forget(paddedRows: number): void {
      for (const [probe, [first, ...later]] of ofProbe) {
        const kept = later.filter((one) => one.paddedRows !== paddedRows);
        ofProbe.set(probe, first === undefined ? kept : [first, ...kept]);
      }
    },
    /** The largest difference that was taken for rounding, if there was any. */
    largest: () => largest,
    /** How many probes were answered. */
    probes: () => ofProbe.size,
    /** Whether two probes got different answers: a model that answers all probes alike could mix rows unseen. */
    hasVaried(): boolean {
      const [first = [], ...others] = [...ofProbe.values()].map(([one]) => one?.answer ?? []);
      return others.some((answer) =>
        outputs.some((_, index) => differenceOf(first[index] as Tensor, 0, answer[index] as Tensor, 0).share > 0),
      );
    },
  };
}

/** Mismatches of one run that are looked at more closely, in three more runs each. */
const MAX_JUDGED = 4;

function whatChanged(before: Observation, now: Observation): [Mismatch['changed'], Tolerance] {
  if (before.paddedRows !== now.paddedRows) return ['row count', SAME_SHAPE];
  return before.place === now.place ? ['neighbours', SAME_PLACE] : ['place', SAME_SHAPE];
}

/** What the parts were answered in a run, one tensor per output of the model, and how many rows were run. */
interface TogetherRun {
  /** By place; of many parts only some are looked at. */
  readonly answers: ReadonlyMap<number, readonly Tensor[]>;
  readonly paddedRows: number;
}

/** Of the inputs of one run: as many float32 take 4 MiB. */
export const MANY_ELEMENTS = 1_048_576;

const MANY_PARTS = 32;

/**
 * Runs parts of requests in one micro-batch, as real ones are: padded up to an allowed size, and cut back.
 *
 * @param lengthOfRun the size that the ragged axis is padded to. @default as for real ones
 * @throws Error when the run fails or an output has no row for each row that was run
 */
export async function runTogether(model: Model, parts: readonly Part[], lengthOfRun?: number): Promise<TogetherRun> {
  const planned = microBatchOf(model, parts, 'end');
  const batch = { ...planned, paddedLength: lengthOfRun ?? planned.paddedLength };
  const { outputs } = await model.run(stack(batch));
  assertBatched(batch, outputs);
  const distance = parts.length > MANY_PARTS ? Math.ceil(parts.length / MANY_PARTS) : 1;
  const answers = new Map<number, readonly Tensor[]>();
  let row = 0;
  for (const [place, part] of parts.entries()) {
    if (place % distance === 0 || place === parts.length - 1) answers.set(place, unstack(batch, part, row, outputs));
    row += part.toRow - part.fromRow;
  }
  return { answers, paddedRows: batch.paddedRows };
}

/** Whether a run failed because there was no model to run it, or it was given up: that says nothing of the rows. */
export function isNotTheRuns(error: unknown): boolean {
  return error instanceof RunOverdueError || error instanceof ModelUnavailableError;
}
