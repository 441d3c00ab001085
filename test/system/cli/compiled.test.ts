import { writeFileSync } from 'node:fs';
import { expect, it } from '@jest/globals';
import { runScript } from '../../helpers/command.ts';
import { useFolder } from '../../helpers/folders.ts';
import { identityModel } from '../../helpers/onnxModels.ts';

const inFolder = useFolder();

it('batchscore score compiles nothing when it starts again, and loads no Parquet for CSV', async () => {
  writeFileSync(inFolder('model.onnx'), identityModel('FP32', ['batch']));
  writeFileSync(inFolder('rows.csv'), 'x\n1\n');
  const env = { NODE_COMPILE_CACHE: inFolder('compiled'), NODE_DEBUG_NATIVE: 'COMPILE_CACHE' };
  const score = () => runScript('cli/bin.js', ['score', inFolder('model.onnx'), inFolder('rows.csv')], { env });
  const first = await score();
  expect(first.stderr).toMatch(/no transpile cache for StrippedTypeScript .*sessionWorker\.ts/);
  const again = await score();
  expect(again.stderr).toMatch(/retrieving transpile cache for StrippedTypeScript .*sessionWorker\.ts/);
  expect(again.stderr).not.toMatch(/no transpile cache|was not initialized/);
  expect(again.stderr).not.toMatch(/hyparquet/);
});
