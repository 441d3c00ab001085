import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { readCost } from '../../../lambda/adapters/onnx/config/profile.ts';
import { REPOSITORY, runScript } from '../../helpers/command.ts';

const profile = (args: readonly string[], cwd: string) =>
  runScript('cli/batchscore.ts', ['profile', ...args, '--json', '--max-rows', '4', '--seconds', '1'], { cwd });

describe('what was measured', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'batchscore-kept-'));
    cpSync(join(REPOSITORY, 'models/digits/1/model.onnx'), join(folder, 'digits/1/model.onnx'));
  });
  afterEach(() => {
    rmSync(folder, { recursive: true });
  });

  it('is kept beside the model, in place of what was, and says what runs cost on this machine', async () => {
    const path = join(folder, 'digits/1/profile.json');
    writeFileSync(path, 'of another schema');
    const { code, stdout, stderr } = await profile(['digits', '--models', '.'], folder);
    expect({ code, stderr }).toEqual({ code: 0, stderr: `wrote ${path}\n` });
    const printed = JSON.parse(stdout);
    const { schemaVersion, recommendation, ...kept } = JSON.parse(readFileSync(path, 'utf8'));
    expect(schemaVersion).toBe(1);
    expect(printed).toMatchObject(kept);
    expect(printed.recommendation).toMatchObject(recommendation);

    const warnings: string[] = [];
    const use = { provider: 'cpu', isRagged: false, warn: (text: string) => void warnings.push(text) };
    const cost = readCost(join(folder, 'digits/1/model.onnx'), use);
    const ofSession = kept.table.filter(({ threads }: { threads: number }) => threads === kept.threads);
    expect(warnings).toEqual([]);
    expect([1, 2, 4].map((rows) => cost?.(rows, 1))).toEqual(
      ofSession.map(({ medianMs }: { medianMs: number }) => medianMs),
    );
  });

  it('of a lone file is kept beside it', async () => {
    cpSync(join(folder, 'digits/1/model.onnx'), join(folder, 'lone.onnx'));
    const { stderr } = await profile(['lone.onnx'], folder);
    expect(stderr).toBe(`wrote ${join(folder, 'profile.json')}\n`);
    expect(JSON.parse(readFileSync(join(folder, 'profile.json'), 'utf8'))).toMatchObject({
      model: 'lone',
      version: '1',
    });
  });

  it('is printed all the same where it cannot be kept, and where it is not to be', async () => {
    cpSync(join(folder, 'digits/1/model.onnx'), join(folder, 'digits/1/profile.json/model.onnx'));
    const { code, stdout } = await profile(['digits', '--models', '.'], folder);
    expect(code).toBe(0);
    expect(JSON.parse(stdout).findings.at(-1)).toMatch(
      /digits\/1\/profile\.json: expected a folder that can be written to, got: .*; what was measured is not kept/,
    );

    rmSync(join(folder, 'digits/1/profile.json'), { recursive: true });
    const second = await profile(['digits', '--models', '.', '--no-write'], folder);
    expect(second).toMatchObject({ code: 0, stderr: '' });
    expect(existsSync(join(folder, 'digits/1/profile.json'))).toBe(false);
  });
});
