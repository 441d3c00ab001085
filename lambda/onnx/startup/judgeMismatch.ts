import { firstDifference, SAME_SHAPE } from '../../core/difference.ts';
import type { Part } from '../../core/microBatch.ts';
import type { Model } from '../../core/model.ts';
import type { RowCheck } from './rowCheck.ts';
import { runTogether, type TogetherRun } from './runTogether.ts';
import type { Answer, Mismatch } from './sightings.ts';

/**
 * Whether a mismatch is random, made by the number of rows alone, or what other rows do. A run of the same shape that
 * holds copies of the row tells: what it gets there its neighbours did not do.
 *
 * @param run of the company in which it was found
 */
export async function judge(
  mismatch: Mismatch,
  company: readonly Part[],
  run: TogetherRun,
  model: Model,
): Promise<RowCheck> {
  const again = await runTogether(model, company);
  const isRandom = [...run.answers].some(([place, answer]) => differs(answer, again.answers.get(place)));
  if (isRandom) return { verdict: 'unknown', finding: 'it answers the same run differently each time' };
  const dependent: RowCheck = { verdict: 'dependent', finding: describeMismatch(mismatch) };
  if (mismatch.changed !== 'row count') return dependent;
  const probe = company[mismatch.place] as Part;
  const { answers } = await runTogether(model, new Array<Part>(company.length).fill(probe));
  const isOthersDoing =
    [...answers.values()].some((answer) => differs(answer, answers.get(0))) ||
    differs(answers.get(mismatch.place), run.answers.get(mismatch.place));
  return isOthersDoing ? dependent : { ...dependent, because: 'row count' };
}

function differs(a: Answer | undefined, b: Answer | undefined): boolean {
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
