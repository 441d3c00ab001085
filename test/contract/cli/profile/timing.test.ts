import { join } from 'node:path';
import { expect, it } from '@jest/globals';
import { timeAll } from '../../../../cli/profile/measure/measureModel.ts';
import { failingModel } from '../../../helpers/onnxModels.ts';
import { modelsDirectory } from '../../../helpers/openModels.ts';

it('times the other sizes where one fails that ran before, and says so', async () => {
  const path = join(await modelsDirectory({ 'model/1/model.onnx': failingModel() }), 'model');
  const sizes = [1, 8, 2].map((rows) => ({ rows, length: 1 }));
  const limits = { allowedSizes: [], slowMs: 1_000 };
  const target = { path, maxBatchRows: 8, providers: ['cpu'] };
  const findings: string[] = [];
  const find = (finding: string) => void findings.push(finding);
  const timed = await timeAll(target, sizes, [1], limits, 200, find, () => {});
  expect(timed.map(({ rows }) => rows)).toEqual([1, 2]);
  expect(findings[0]).toMatch(/^with 1 threads, 8 rows of length 1 failed after runs of other sizes, .*not timed/);
});
