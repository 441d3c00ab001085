import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from '@jest/globals';
import { SCENARIOS } from '../../../bench/workload/scenarios.ts';
import { checkModelsFolder } from '../../../infra/constructs/image/modelsFolder.ts';
import { readSampleLines } from '../../../lambda/onnx/probes.ts';
import { runScript } from '../../helpers/command.ts';

describe('bench:models', () => {
  const folder = mkdtempSync(join(tmpdir(), 'batchscore-bench-models-'));
  afterAll(() => rmSync(folder, { recursive: true }));

  it('writes every model of the bench as a model repository, with samples where lengths differ', async () => {
    const { code, stdout } = await runScript('bench/writeModels.ts', [folder]);
    expect(code).toBe(0);
    expect(stdout.trim().split('\n')).toEqual(SCENARIOS.map(({ name }) => join(folder, name)));
    expect(() => checkModelsFolder(folder, undefined, 0)).not.toThrow();
    for (const { name, lengths } of SCENARIOS) {
      const { lines } = await readSampleLines(join(folder, name));
      expect([name, lines.length]).toEqual([name, lengths === undefined ? 0 : 16]);
    }
  });
});
