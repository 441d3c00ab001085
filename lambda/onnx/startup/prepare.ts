import { OTHER_LENGTH, OTHER_LENGTH_ON_GPU } from '../../core/difference.ts';
import { type Model, RunAbandonedError } from '../../core/model.ts';
import type { ScoringRequest } from '../../core/scoringRequest.ts';
import { checkPadding } from './checkPadding.ts';
import { checkRows } from './checkRows.ts';
import {
  type Batching,
  type Decided,
  decideBatching,
  judgeByGraph,
  notChecked,
  overriddenBatching,
  paddingNotChecked,
} from './decideBatching.ts';
import { withFixedLadder } from './fixedLadder.ts';
import type { ModelGraph } from './modelGraph.ts';
import { paddingProbes } from './paddingProbes.ts';
import { probeSets, realProbes } from './probeSets.ts';
import { rowShapes } from './probes.ts';
import { type RecordedRuns, recordRuns } from './recordRuns.ts';
import { timeSizes } from './timeSizes.ts';
import { timingProbes } from './timingProbes.ts';
import { type WarmUpResult, type WarmUpSizes, warmUp } from './warmUp.ts';
import { zeroRuns } from './zeroRuns.ts';

export interface PrepareOptions {
  /** What config.json says of the warm-up. */
  readonly sizes: WarmUpSizes;
  /** What config.json says of batching; undefined where the checks decide. */
  readonly batching: Batching | undefined;
  readonly graph: ModelGraph;
  /** Real requests of the model. */
  readonly samples: readonly ScoringRequest[];
  /** Milliseconds that loading has taken until now: the checks may take a share of it. */
  readonly loadMs: number;
  readonly now: () => number;
  /** Whether it runs on a GPU, where new shapes are slow and runs of other shapes round otherwise. */
  readonly onGpu: boolean;
  /** Most elements that the inputs of one run hold together. */
  readonly maxElements: number;
  /** A run that takes longer is taken for one that never ends. */
  readonly runLimitMs: number;
  /** Whether to try more probes for longer than a start may take. @default false */
  readonly isThorough?: boolean;
}

export interface Prepared extends Pick<WarmUpResult, 'model' | 'measured' | 'bakedRows'> {
  /** Rows that were run alone and in company. */
  readonly probes: number;
  /** What the checks found, for the start log. */
  readonly found: string;
  /** What works but not as well as it should, and what to do. */
  readonly warnings: readonly string[];
}

/** Runs that are only timed may take this share of the loading before, and at least so long. */
const TIMING_SHARE = 1 / 4;
const LEAST_TIMING_MS = 100;

/** The checks of a slow model may take as long as its loading took, and at least so long. */
const LEAST_CHECK_MS = 100;
/** Of checks that are to be thorough. */
const THOROUGH_CHECK_MS = 10_000;

/**
 * Runs the model as real requests will: warms it up, and checks that neither neighbours nor padding change answers.
 *
 * @returns the model as it can really be run
 * @throws Error when rows have no answers of their own, padding changes answers, or a run does not end
 */
export async function prepare(model: Model, options: PrepareOptions): Promise<Prepared> {
  const { runLimitMs } = options;
  const limitedTo = (card: number): Model => ({
    ...model,
    run: (inputs) => model.run(inputs, AbortSignal.timeout(runLimitMs), card),
  });
  const recorded = recordRuns(limitedTo(0));
  try {
    const prepared = await warmUpAndCheck(recorded.model, limitedTo, options);
    await learnCosts({ ...recorded, model: prepared.model }, options);
    return { ...prepared, model: { ...prepared.model, run: model.run }, measured: recorded.measured() };
  } catch (error) {
    if (!(error instanceof RunAbandonedError)) throw error;
    throw new Error(
      `expected a run of the warm-up to end within ${runLimitMs / 1000} s, it did not; give other sizes of its ` +
        'symbolic axes as "warmup" in config.json, or "warmup": false',
      { cause: error },
    );
  }
}

/** @param modelOn the model on another of its cards: on the first it is checked, and on all of them warm */
async function warmUpAndCheck(
  model: Model,
  modelOn: (card: number) => Model,
  options: PrepareOptions,
): Promise<Omit<Prepared, 'measured'>> {
  const { sizes, batching, graph, samples, now, isThorough = false } = options;
  const startedAt = now();
  const warm = await warmEveryRung(model, options);
  await warmOtherCards(warm, modelOn, options.maxElements);
  const { bakedRows } = warm;
  const problems = [warm.problem, options.onGpu ? openLengths(warm.model) : undefined].filter(
    (one) => one !== undefined,
  );
  const given = typeof sizes === 'boolean' ? {} : sizes;
  const loadMs = options.loadMs + now() - startedAt;
  const limitMs = Math.max(isThorough ? THOROUGH_CHECK_MS : LEAST_CHECK_MS, loadMs);
  let probes = 0;
  const decide = async (): Promise<Decided> => {
    if (batching !== undefined) return overriddenBatching(warm.model, batching);
    const byGraph = judgeByGraph(warm.model, graph);
    if (byGraph !== undefined) return decideBatching(warm.model, byGraph, graph);
    if (sizes === false) return notChecked(warm.model);
    const sets = probeSets(warm.model, samples, warm.sizes, given, graph, isThorough);
    const check = await checkRows(warm.model, sets, { limitMs, now, isThorough });
    probes = check.probes ?? 0;
    return decideBatching(warm.model, check, graph);
  };
  const decided = withLadder(await decide());
  const prepared = { model: decided.model, bakedRows, probes };
  const { ragged } = decided.model;
  if (ragged === undefined || (decided.model.independence === 'dependent' && ragged.ladder.length === 0)) {
    return { ...prepared, found: decided.found, warnings: [...problems, ...decided.warnings] };
  }
  if (sizes === false) {
    return { ...prepared, found: decided.found, warnings: [...decided.warnings, paddingNotChecked(ragged)] };
  }
  const padding = await checkPadding(decided.model, ragged, {
    probesOf(length) {
      const shapes = rowShapes(decided.model, { ...warm.sizes, ...given, [ragged.name]: length }, 4);
      return graph.operators.has('Loop') ? [] : paddingProbes(decided.model, shapes, graph);
    },
    size: warm.sizes?.[ragged.name] ?? 1,
    samples: realProbes(samples),
    graph,
    tolerance: options.onGpu ? OTHER_LENGTH_ON_GPU : OTHER_LENGTH,
    limitMs,
    now,
  });
  const unchecked = padding.problem === undefined ? [] : [padding.problem];
  const found = `${decided.found}; ${padding.finding}`;
  return { ...prepared, found, warnings: [...problems, ...decided.warnings, ...unchecked] };
}

/** Times runs of several sizes, where rows may share runs and nothing else says what that costs. */
async function learnCosts(recorded: RecordedRuns, options: PrepareOptions): Promise<void> {
  const { sizes, samples, graph, loadMs, maxElements, onGpu, now } = options;
  const { model } = recorded;
  const { independence = 'trusted' } = model;
  const mayShare = model.maxBatchRows > 1 && (independence === 'proved' || independence === 'trusted');
  if (!mayShare || model.ladder.length === 1 || model.cost !== undefined || onGpu || sizes === false) return;
  const limitMs = Math.max(LEAST_TIMING_MS, TIMING_SHARE * loadMs);
  await timeSizes(recorded, { probes: timingProbes(model, samples, graph), maxElements, limitMs, now });
}

/** On a GPU also at the rungs of a ladder that it has there by default. */
async function warmEveryRung(
  model: Model,
  { sizes, batching, onGpu, maxElements }: PrepareOptions,
): Promise<WarmUpResult> {
  const warm = await warmUp(model, sizes, onGpu);
  return onGpu && batching !== 'alone' ? withFixedLadder(warm, maxElements) : warm;
}

/** The shapes that ran on the first card, on all the others at the same time. */
async function warmOtherCards(
  { model, measured, sizes }: WarmUpResult,
  modelOn: (card: number) => Model,
  maxElements: number,
): Promise<void> {
  if (sizes === undefined) return;
  const warmCard = async (card: number): Promise<void> => {
    const runs = zeroRuns({ ...model, run: modelOn(card).run }, true, maxElements);
    for (const rows of new Set(measured.map((run) => run.rows))) {
      const reason = await runs.tryAt(rows, sizes);
      if (reason === undefined) continue;
      throw new Error(
        `expected the model to run at ${rows} rows on each of its cards, got on the ${card + 1}. of them: ${reason}`,
      );
    }
  };
  const others = Array.from({ length: (model.cards ?? 1) - 1 }, (_, index) => index + 1);
  await Promise.all(others.map(warmCard));
}

function openLengths({ ragged }: Model): string | undefined {
  if (ragged === undefined || ragged.ladder.length > 0) return undefined;
  return (
    `'${ragged.name}' may have any size, and on a GPU the first run at each is slow; give the sizes that it may be run ` +
    'at as "ladder" within "ragged" in config.json'
  );
}

function withLadder(decided: Decided): Decided {
  const { ladder } = decided.model;
  return ladder.length < 2 ? decided : { ...decided, found: `its ladder is ${ladder.join(', ')}; ${decided.found}` };
}
