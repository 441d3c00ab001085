import { describe, expect, it } from '@jest/globals';
import type { MessageRecord } from '../../../../lambda/core/record.ts';
import { scoreRecords } from '../../../../lambda/core/scoreRecords.ts';
import { lineModel, repositoryOf } from '../../../helpers/models.ts';
import { lineRequest, standardRecords } from '../../../helpers/records.ts';
import { enoughTime, scoringDependencies } from '../../../helpers/scoring.ts';
import { statuses } from './answers.ts';

/** Records that come for the n-th time, one of `receives` each. */
function receivedRecords(receives: readonly number[]): MessageRecord[] {
  return standardRecords(receives.map((_, index) => lineRequest([index]))).map((record, index) => ({
    ...record,
    attributes: { ...record.attributes, ApproximateReceiveCount: String(receives[index]) },
  }));
}

describe('records that came before', () => {
  it('are run after first-timers, those that came four times alone', async () => {
    const runs: number[][] = [];
    const models = repositoryOf(lineModel({ before: ([x]) => void runs.push(Array.from(x?.data as Float32Array)) }));
    const deps = scoringDependencies({ models });
    const records = receivedRecords([4, 2, 1, 2, 4, 1]);
    expect(statuses(await scoreRecords(records, deps, enoughTime()))).toEqual(new Array(6).fill('answered'));
    expect(runs.map((rows) => rows.toSorted())).toEqual([[2, 5], [1, 3], [0], [4]]);
  });

  it('are run when what was answered before is acknowledged', async () => {
    const happened: string[] = [];
    const models = repositoryOf(
      lineModel({ before: ([x]) => void happened.push(`run ${Array.from(x?.data as Float32Array)}`) }),
    );
    const acknowledge = async (records: readonly MessageRecord[]) =>
      void happened.push(`acknowledge ${records.map(({ messageId }) => messageId.slice(-1))}`);
    const deps = scoringDependencies({ models, acknowledge });
    const records = [...receivedRecords([1, 1, 2])];
    await scoreRecords(records, deps, enoughTime());
    expect(happened).toEqual(['run 0,1', 'acknowledge 0,1', 'run 2']);
  });

  it('cost nothing where there are none: nothing is acknowledged early', async () => {
    const acknowledge = async () => {
      throw new Error('expected no early acknowledgement');
    };
    const deps = scoringDependencies({ acknowledge });
    expect(statuses(await scoreRecords(receivedRecords([1, 1]), deps, enoughTime()))).toEqual(['answered', 'answered']);
  });
});
