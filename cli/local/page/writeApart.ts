import { failure } from '../../../lambda/core/failure.ts';
import type { Result, ResultWriter, WriteVerdict } from '../../../lambda/core/record.ts';

interface Writers {
  readonly own: ResultWriter;
  readonly others: ResultWriter;
}

/** Writes some results through a writer of their own. Verdicts align with `results` by index. */
export async function writeApart(
  results: readonly Result[],
  isOwn: (result: Result) => boolean,
  writers: Writers,
  signal: AbortSignal,
): Promise<readonly WriteVerdict[]> {
  const own = results.filter(isOwn);
  if (own.length === 0) return writers.others.write(results, signal);
  if (own.length === results.length) return writers.own.write(results, signal);
  const others = results.filter((result) => !isOwn(result));
  const [ofOwn, ofOthers] = await Promise.all([writers.own.write(own, signal), writers.others.write(others, signal)]);
  const verdicts = new Map<Result, WriteVerdict | undefined>([
    ...own.map((result, index) => [result, ofOwn[index]] as const),
    ...others.map((result, index) => [result, ofOthers[index]] as const),
  ]);
  return results.map((result) => verdicts.get(result) ?? failure('WRITE_FAILED', 'expected a verdict, got none'));
}
