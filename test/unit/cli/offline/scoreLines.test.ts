import { describe, expect, it } from '@jest/globals';
import { createOfflineScoring } from '../../../../cli/offline/scoreCommand.ts';
import { type Model, ModelUnavailableError, OutOfMemoryError } from '../../../../lambda/core/model.ts';
import type { Tensor } from '../../../../lambda/core/tensor.ts';
import type { Results } from '../../../../lambda/jobs/results.ts';
import { requestRows } from '../../../../lambda/jobs/rows.ts';
import { lineModel, repositoryOf, scoreModels } from '../../../helpers/scoring.ts';
import { rowModel, SHARE_OF_LARGEST } from '../../core/scoreRecords/mixingModels.ts';

const LIMITS = {
  maxRequestRows: 100,
  maxRequestsPerMessage: 100,
  maxAnswerCharacters: 10_000,
  maxBatchElements: 1000,
  deadlineMarginMs: 0,
};
const LINES = requestRows(
  [1, 2, 3],
  [1, 2, 3].map((number) => `{"id":"${number}","instances":[[${number}]]}`),
);

const documents = ({ single }: Results) => single.map((result) => JSON.parse(result?.text ?? ''));

/** A model whose first runs fail as it does when its thread dies. */
function dyingModel(deaths: number): Model {
  let runs = 0;
  const before = (): void => {
    runs += 1;
    if (runs <= deaths) throw new ModelUnavailableError('the thread died');
  };
  return lineModel({ before });
}

/** A model that has memory for so many rows at once. */
function tightModel(maxRows: number): Model {
  const before = ([x]: readonly Tensor[]): void => {
    if (Number(x?.shape[0]) > maxRows) throw new OutOfMemoryError('the run needed more memory than there is');
  };
  return lineModel({ before });
}

/** Runs that take hardly longer for more rows. */
const ROWS = [1, 2, 4].map((rows) => ({ rows, length: 1, ms: 1 + rows / 10 }));

function failOnWarning(message: string): never {
  throw new Error(message);
}

describe('scoring lines without a queue', () => {
  it('answers a line that fails alone too with its code, and scores the next', async () => {
    const scoring = createOfflineScoring(scoreModels(repositoryOf(dyingModel(2)), LIMITS), failOnWarning);
    const [first, ...others] = documents(await scoring.score(LINES));
    expect(first).toEqual({ message_id: '1', id: '1', code: 'MODEL_UNAVAILABLE', error: 'the thread died' });
    expect(others.map(({ predictions }) => predictions)).toEqual([[[5]], [[7]]]);
    expect(scoring.summary).toMatchObject({ lines: 3, scored: 2, errors: { MODEL_UNAVAILABLE: 1 } });
  });

  it('scores lines in smaller runs where there is no memory for all of them at once', async () => {
    const scoring = createOfflineScoring(scoreModels(repositoryOf(tightModel(2)), LIMITS), failOnWarning);
    const results = documents(await scoring.score(LINES)).map(({ predictions }) => predictions);
    expect(results).toEqual([[[3]], [[5]], [[7]]]);
    expect(scoring.summary).toMatchObject({ lines: 3, scored: 3, errors: {} });
  });

  it('warns of a model whose rows depend on each other, and scores them one by one', async () => {
    const warnings: string[] = [];
    const { model } = rowModel(SHARE_OF_LARGEST, { sharing: 'compared', measured: ROWS });
    const scoring = createOfflineScoring(
      scoreModels(repositoryOf(model), LIMITS, 100),
      (message) => void warnings.push(message),
    );
    const results = documents(await scoring.score(LINES)).map(({ predictions }) => predictions);
    expect(results).toEqual([[[1]], [[1]], [[1]]]);
    expect(warnings).toEqual([
      expect.stringMatching(/^model 'line\/1': 'y' of line \d .*score again with --max-rows 1$/),
    ]);
  });

  it('says in the result why a bug kept a line from being scored', async () => {
    const models = {
      find: () => {
        throw new Error('the repository is broken');
      },
    };
    const scoring = createOfflineScoring(scoreModels(models, LIMITS), failOnWarning);
    const results = await scoring.score(requestRows([4], ['{"instances":[[1]]}']));
    expect(documents(results)).toEqual([
      {
        message_id: '4',
        code: 'INTERNAL',
        error: expect.stringMatching(/scoring it threw: the repository is broken$/),
      },
    ]);
  });
});
