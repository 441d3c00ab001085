import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { withTensorsForMaps } from '../../../lambda/onnx/zipMaps.ts';
import { zipMapModel } from '../../helpers/axisModels.ts';
import { useFolder } from '../../helpers/folders.ts';
import { identityModel } from '../../helpers/onnxModels.ts';
import { openOnly } from '../../helpers/openModels.ts';
import { bodyOf, given, score } from './asAlone.ts';

function read(output: object = {}): object {
  return { ...output, data: 'data' in output && Float32Array.from(output.data as number[]) };
}

describe('a classifier whose probabilities are maps', () => {
  it.each([
    ['of operators of classical models alone', false],
    ['with operators of ONNX beside them', true],
  ])('%s answers a tensor with a column for each class', async (_, hasOthers) => {
    const opened = await openOnly(zipMapModel(hasOthers));
    const requests = [1, 2, 3, 2].map((rows, seed) => given('x', 0, [rows, 3], seed));

    const { answers } = await score(
      opened,
      requests.map((request) => bodyOf('flat', [request])),
    );

    expect(opened).toMatchObject({ warnings: [], model: { sharing: 'compared' } });
    // The scores of the classes are the three numbers of a row.
    expect(answers.map(({ outputs }) => read(outputs?.[1]))).toEqual(
      requests.map(({ shape, data }) => ({ name: 'probabilities', datatype: 'FP32', shape, data })),
    );
  });

  it('is asked for the other outputs alone, as any model is', async () => {
    const opened = await openOnly(zipMapModel(), { outputs: ['label'] });
    const { answers } = await score(opened, [bodyOf('flat', [given('x', 0, [1, 3], 1)])]);
    expect(answers[0]?.outputs?.map(({ name }) => name)).toEqual(['label']);
  });
});

describe('withTensorsForMaps', () => {
  const folder = useFolder();

  it('leaves every other model to ONNX Runtime as it is', () => {
    const path = join(folder(), 'model.onnx');
    writeFileSync(path, identityModel('FP32'));
    expect(withTensorsForMaps(path)).toBeUndefined();
  });
});
