import type { Model } from '../../../core/contract/model.ts';
import type { Part } from '../../../core/plan/microBatch.ts';
import { firstDifference, type Tolerance } from '../../../core/tensor/difference.ts';
import { MOST_PROBES, type RowCheck } from './rowCheck.ts';
import { runTogether, type TogetherRun } from './runTogether.ts';
import type { Answer, Mismatch } from './sightings.ts';

/** Beyond this share not even a chaotic model's rounding goes, for most rows. */
const ROW_COUNT_ALONE: Tolerance = { FP16: 0.1, OTHER: 0.1 };

/**
 * Whether a mismatch is random, rounding by another row count alone, or what other rows do.
 *
 * @param run of the company in which it was found
 */
export async function judge(
  mismatch: Mismatch,
  company: readonly Part[],
  run: TogetherRun,
  model: Model,
): Promise<RowCheck | undefined> {
  const again = await runTogether(model, company);
  const isRandom = [...run.answers].some(([place, answer]) => differs(answer, again.answers.get(place), SAME_AGAIN));
  if (isRandom) return { verdict: 'unknown', finding: 'it answers the same run differently each time' };
  const dependent: RowCheck = { verdict: 'dependent', finding: describeMismatch(mismatch) };
  if (mismatch.changed !== 'row count') return dependent;
  let changedByCount = 0;
  const probes = [...new Set(company)].slice(0, MOST_PROBES);
  for (const probe of probes) {
    const { answers } = await runTogether(model, new Array<Part>(company.length).fill(probe));
    if ([...answers.values()].some((answer) => differs(answer, answers.get(0), SAME_AGAIN))) return dependent;
    const place = company.indexOf(probe);
    if (differs(answers.get(place), run.answers.get(place), SAME_AGAIN)) return dependent;
    const alone = await runTogether(model, [probe]);
    if (differs(answers.get(0), alone.answers.get(0), ROW_COUNT_ALONE)) changedByCount += 1;
  }
  return 2 * changedByCount > probes.length ? dependent : undefined;
}

const SAME_AGAIN: Tolerance = { FP16: 1e-2, OTHER: 1e-4 };

function differs(a: Answer | undefined, b: Answer | undefined, tolerance: Tolerance): boolean {
  return a !== undefined && b !== undefined && firstDifference(a, b, tolerance) !== undefined;
}

function describeMismatch({ difference, changed, rowCounts: [before, now] }: Mismatch): string {
  const where = {
    neighbours: `with other neighbours in a run of ${now} rows`,
    place: `at another place in a run of ${now} rows`,
    'row count': `in runs of ${before} and ${now} rows`,
  }[changed];
  return `output '${difference.output}': expected one answer to a row, got ${difference.detail} ${where}`;
}
