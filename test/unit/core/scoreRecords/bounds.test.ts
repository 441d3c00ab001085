import { describe, expect, it } from '@jest/globals';
import { scoreRecords } from '../../../../lambda/hosts/records.ts';
import { echoModel, enoughTime, repositoryOf, scoringDependencies, standardRecords } from '../../../helpers/scoring.ts';
import { answerTo, statuses } from './answers.ts';

describe('an answer', () => {
  it('that can only be too large is refused before it is spelled, alone and in parts', async () => {
    const wide = echoModel('FP32', [1000], { maxBatchRows: 4 });
    const deps = scoringDependencies({ models: repositoryOf(wide), limits: { maxAnswerCharacters: 8000 } });
    const rows = (count: number) => ({
      inputs: [{ name: 'in', datatype: 'FP32', shape: [count, 1000], data: new Array(count * 1000).fill(0) }],
    });
    const records = standardRecords([rows(4), rows(9), rows(3)]);
    expect(statuses(await scoreRecords(records, deps, enoughTime()))).toEqual(['answered', 'answered', 'answered']);
    expect([0, 1].map((index) => answerTo(deps.writer, index))).toEqual(['RESULT_TOO_LARGE', 'RESULT_TOO_LARGE']);
    expect(answerTo(deps.writer, 2)).toHaveLength(3000);
  });
});
