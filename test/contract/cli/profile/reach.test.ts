import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { measureModel } from '../../../../cli/profile/measure/measureModel.ts';
import { identityModel } from '../../../helpers/onnxModels.ts';
import { modelsDirectory } from '../../../helpers/openModels.ts';

describe('what a model is run at', () => {
  it('ends where a run holds more than one may, and its memory is that of a process that ran no more rows', async () => {
    const files = { 'model/1/model.onnx': identityModel('FP32', ['batch', 500_000]) };
    const options = { maxBatchRows: 16, providers: ['cpu'], seconds: 1, onProgress: () => {} };
    const { table } = await measureModel(join(await modelsDirectory(files), 'model'), options);
    const peaks = new Map(table.map(({ rows, peakRssBytes }) => [rows, peakRssBytes]));
    expect([...peaks.keys()]).toEqual([1, 2, 4, 8]);
    // 7 more rows of 2 MB, as input and as output.
    expect((peaks.get(8) as number) - (peaks.get(1) as number)).toBeGreaterThan(20e6);
    expect(peaks.get(1)).toBeLessThan(250e6);
  });
});
