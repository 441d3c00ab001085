import { failure } from '../core/contract/failure.ts';
import type { MessageRecord } from '../core/contract/record.ts';
import type { Outcome } from '../core/contract/result.ts';
import type { TimeLimit } from '../core/contract/timeLimit.ts';
import { type ScoringDependencies, scoreRecords } from '../core/scoreRecords.ts';

/** A throw would lose the verdict on every record: a bug hands back what it met instead. */
export async function scoreOrHandBack(
  records: readonly MessageRecord[],
  scoring: ScoringDependencies,
  time: TimeLimit,
): Promise<Outcome[]> {
  try {
    return await scoreRecords(records, scoring, time);
  } catch (error) {
    scoring.observer.problem(error);
    return records.map(() => ({ status: 'retry', failure: failure('INTERNAL', 'scoring the records threw') }));
  }
}
