import type { MeasuredRun, Model } from '../../core/contract/model.ts';
import { tableCost } from '../../core/plan/cost.ts';
import { elementsAt } from './axes.ts';
import { rungsUpTo } from './companies.ts';
import type { WarmUpResult } from './warmUp.ts';
import { zeroRuns } from './zeroRuns.ts';

/**
 * The model with a ladder of 1, 2, 4, … and the most rows, unless it has one, each rung run on zeros: on a GPU the first
 * run of a shape is slow, and real ones should not be it. Rungs whose inputs hold more elements than a run may are left
 * out, and so are those at which it does not run. What its runs took says what they cost, where no profile does.
 *
 * @param warm the model at 1 and 2 rows, or at the rungs that it has
 * @param maxElements most elements that the inputs of one run hold together
 */
export async function withFixedLadder(warm: WarmUpResult, maxElements: number): Promise<WarmUpResult> {
  const { model, sizes } = warm;
  if (model.ladder.length > 0 || model.maxBatchRows === 1) return { ...warm, model: costed(model, warm.measured) };
  const ladder = rungsUpTo(model.maxBatchRows);
  if (sizes === undefined) return { ...warm, model: { ...model, ladder } };

  const isWarm = (rows: number): boolean => warm.measured.some((run) => run.rows === rows);
  const shortest = { ...sizes, ...shortestLength(model) };
  const runs = zeroRuns(model, true, maxElements);
  const good: number[] = [];
  let problem = warm.problem;
  for (const rows of ladder) {
    if (!isWarm(rows)) {
      if (elementsAt(model, rows, shortest) > maxElements) break;
      const reason = await runs.tryAt(rows, sizes);
      if (reason !== undefined) {
        problem = `a run has ${good.at(-1)} rows at most, because one of ${rows} failed: ${reason}`;
        break;
      }
    }
    good.push(rows);
  }
  const measured = [...warm.measured, ...runs.measured];
  const most = problem === undefined ? model.maxBatchRows : (good.at(-1) as number);
  return { ...warm, problem, measured, model: costed({ ...model, ladder: good, maxBatchRows: most }, measured) };
}

function shortestLength({ ragged }: Model): Readonly<Record<string, number>> {
  const [length] = ragged?.ladder ?? [];
  return ragged === undefined || length === undefined ? {} : { [ragged.name]: length };
}

/** Where lengths are open, what a run of one length took says too little of others. */
function costed(model: Model, measured: readonly MeasuredRun[]): Model {
  const { cost, ladder, ragged } = model;
  const lengths = ragged === undefined ? [1] : ragged.ladder;
  const isComplete = ladder.every((rows) => measured.some((run) => run.rows === rows));
  if (cost !== undefined || ladder.length < 2 || lengths.length === 0 || !isComplete) return model;
  return { ...model, cost: tableCost(lengths.flatMap((length) => costsAt(length, ladder, measured))) };
}

/**
 * What the rungs took at one length: a run takes no more than one of more rows, so that a single slow one counts for
 * nothing; one too large to be measured takes as long in proportion as the largest that was.
 */
function costsAt(length: number, ladder: readonly number[], measured: readonly MeasuredRun[]): MeasuredRun[] {
  const ofLength = measured.filter((run) => run.length === length).toSorted((a, b) => b.rows - a.rows);
  const [largest] = ofLength;
  if (largest === undefined) return [];
  let least = Number.POSITIVE_INFINITY;
  return ladder.toReversed().map((rows) => {
    const run = ofLength.find((one) => one.rows === rows);
    const ms = run?.ms ?? (largest.ms * rows) / largest.rows;
    least = Math.min(least, ms);
    return { rows, length, ms: least };
  });
}
