import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { readCost } from '../../../../lambda/onnx/profileFile.ts';
import { REPOSITORY, runScript } from '../../../helpers/command.ts';

const profile = (args: readonly string[], cwd: string, env = {}) =>
  runScript('cli/batchscore.ts', ['profile', ...args, '--json', '--max-rows', '2', '--seconds', '1'], { cwd, env });

/** As where the package vega is not installed. */
const WITHOUT_VEGA = `--import=data:text/javascript,${encodeURIComponent(`
  import { registerHooks } from 'node:module';
  registerHooks({
    resolve(name, context, next) {
      if (name === 'vega') throw Object.assign(new Error('not found'), { code: 'ERR_MODULE_NOT_FOUND' });
      return next(name, context);
    },
  });`)}`;

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
    expect({ code, stderr }).toEqual({
      code: 0,
      stderr: `wrote ${path}\nwrote ${join(folder, 'digits/1/profile.html')}\n`,
    });
    const printed = JSON.parse(stdout);
    const { schemaVersion, recommendation, ...kept } = JSON.parse(readFileSync(path, 'utf8'));
    expect(schemaVersion).toBe(1);
    expect(printed).toMatchObject(kept);
    expect(printed.recommendation).toMatchObject(recommendation);
    expect(readFileSync(join(folder, 'digits/1/profile.html'), 'utf8')).toContain(
      recommendation.batchSize === 1 ? 'Do not batch' : `Hand over up to ${recommendation.batchSize} messages`,
    );

    const warnings: string[] = [];
    const use = { provider: 'cpu', isRagged: false, warn: (text: string) => void warnings.push(text) };
    const cost = readCost(join(folder, 'digits/1/model.onnx'), use);
    const ofSession = kept.table.filter(({ threads }: { threads: number }) => threads === kept.threads);
    expect(warnings).toEqual([]);
    expect([1, 2].map((rows) => cost?.(rows, 1))).toEqual(
      ofSession.map(({ medianMs }: { medianMs: number }) => medianMs),
    );
  });

  it('of a lone file is kept beside it', async () => {
    cpSync(join(folder, 'digits/1/model.onnx'), join(folder, 'lone.onnx'));
    const { stderr } = await profile(['lone.onnx'], folder);
    expect(stderr).toBe(`wrote ${join(folder, 'profile.json')}\nwrote ${join(folder, 'profile.html')}\n`);
    expect(JSON.parse(readFileSync(join(folder, 'profile.json'), 'utf8'))).toMatchObject({
      model: 'lone',
      version: '1',
    });
  });

  it('is printed all the same where it cannot be kept', async () => {
    cpSync(join(folder, 'digits/1/model.onnx'), join(folder, 'digits/1/profile.json/model.onnx'));
    const { code, stdout } = await profile(['digits', '--models', '.'], folder, { NODE_OPTIONS: WITHOUT_VEGA });
    expect(code).toBe(0);
    const [ofProfile, ofPage] = JSON.parse(stdout).findings.slice(-2);
    expect(ofProfile).toMatch(
      /digits\/1\/profile\.json: expected a folder that can be written to, got: .*; what was measured is not kept/,
    );
    expect(ofPage).toMatch(
      /digits\/1\/profile\.html: expected the package vega, which draws the charts, got none; run npm install vega/,
    );
  });
});
