import { describe, expect, it } from '@jest/globals';
import { ModelUnavailableError } from '../../../lambda/core/model.ts';
import { type Rows, requestRows } from '../../../lambda/jobs/rows.ts';
import { createRowScoring } from '../../../lambda/jobs/scoreRows.ts';
import {
  type InMemoryModelOptions,
  lineModel,
  lineRequest,
  repositoryOf,
  scoreModels,
  scoringDependencies,
} from '../../helpers/scoring.ts';

const { limits } = scoringDependencies();

function scoringWith(options: InMemoryModelOptions) {
  return createRowScoring({ score: scoreModels(repositoryOf(lineModel(options)), limits), observer: {} });
}

function rowsOf(values: readonly number[]): Rows {
  const texts = values.map((value) => JSON.stringify(lineRequest([value])));
  return requestRows(
    values.map((value) => `row-${value}`),
    texts,
  );
}

describe('rows of a file', () => {
  it('are answered in their order', async () => {
    const values = Array.from({ length: 20 }, (_, index) => index);
    const { single } = await scoringWith({}).score(rowsOf(values));
    const told = single.map((result) => result && JSON.parse(result.text));
    expect(told.map((one) => [one.message_id, one.outputs[0].data])).toEqual(
      values.map((value) => [`row-${value}`, [2 * value + 1]]),
    );
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
    const { single } = await scoring.score(rowsOf([1, 2, 3]));
    expect(runs).toEqual([[1, 2, 3], [1], [2], [3]]);
    expect(single.map((result) => result?.failures.map(({ code }) => code))).toEqual([[], ['MODEL_UNAVAILABLE'], []]);
  });
});
