import { describe, expect, it } from '@jest/globals';
import { ModelUnavailableError } from '../../../lambda/core/model.ts';
import { createRowScoring, type Row } from '../../../lambda/jobs/scoreRows.ts';
import {
  type InMemoryModelOptions,
  lineModel,
  lineRequest,
  repositoryOf,
  scoringDependencies,
} from '../../helpers/scoring.ts';

const { limits } = scoringDependencies();

function scoringWith(options: InMemoryModelOptions) {
  return createRowScoring({ models: repositoryOf(lineModel(options)), limits, checkPercent: 0, observer: {} });
}

function rowsOf(values: readonly number[]): Row[] {
  return values.map((value) => ({ id: `row-${value}`, text: JSON.stringify(lineRequest([value])) }));
}

describe('rows of a file', () => {
  it('are answered in their order, also in the smaller steps of later tries', async () => {
    const values = Array.from({ length: 20 }, (_, index) => index);
    for (const [tries, runs] of [
      [0, 1],
      [1, 1],
      [2, 3],
      [3, 20],
    ] as const) {
      let run = 0;
      const scoring = scoringWith({ before: () => void run++ });
      const { answers } = await scoring.score(rowsOf(values), undefined, { tries });
      const told = answers.map((answer) => answer && JSON.parse(answer.text));
      expect(told.map((one) => [one.message_id, one.outputs[0].data])).toEqual(
        values.map((value) => [`row-${value}`, [2 * value + 1]]),
      );
      expect(run).toBe(runs);
    }
  });

  it('that fail for now have one more try each, alone, and then an error', async () => {
    const runs: number[][] = [];
    const scoring = scoringWith({
      before([x]) {
        const values = Array.from(x?.data as Float32Array);
        runs.push(values);
        if (values.length > 1 || values.includes(2)) throw new ModelUnavailableError('its thread died');
      },
    });
    const { answers } = await scoring.score(rowsOf([1, 2, 3]));
    expect(runs).toEqual([[1, 2, 3], [1], [2], [3]]);
    expect(answers.map((answer) => answer?.failures.map(({ code }) => code))).toEqual([[], ['MODEL_UNAVAILABLE'], []]);
  });
});
