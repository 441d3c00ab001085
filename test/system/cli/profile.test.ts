import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it, jest } from '@jest/globals';
import { Duration, Size } from 'aws-cdk-lib/core';
import { type Measurement, measureModel } from '../../../cli/profile/measure/measureModel.ts';
import { readMeasured } from '../../../lambda/onnx/profileFile.ts';
import { batchscore } from '../../helpers/batchscore.ts';
import { REPOSITORY, runScript } from '../../helpers/command.ts';
import { useFolder } from '../../helpers/folders.ts';
import {
  endlessModel,
  failingModel,
  farIdsModel,
  identityModel,
  slowerTogetherModel,
  trappingModel,
} from '../../helpers/onnxModels.ts';
import { modelsDirectory, type RepositoryFiles } from '../../helpers/openModels.ts';

// A measurement starts a dozen processes, on a machine that may be busy with others.
jest.setTimeout(180_000);

const QUICK = ['--max-rows', '4', '--seconds', '1'];

describe('batchscore profile', () => {
  const inFolder = useFolder();
  beforeEach(() => {
    cpSync(join(REPOSITORY, 'models/digits/1/model.onnx'), inFolder('digits/1/model.onnx'));
  });

  it('prints one object, and keeps what was measured beside the model in place of what was', async () => {
    const path = inFolder('digits/1/profile.json');
    writeFileSync(path, 'of another schema');
    const args = ['profile', 'digits', '--models', inFolder(), '--json', '--arrival-rate', '50', ...QUICK];
    const { code, stdout, stderr } = await batchscore(args);
    const page = inFolder('digits/1/profile.html');
    expect({ code, stderr }).toEqual({ code: 0, stderr: `wrote ${path}\nwrote ${page}\n` });
    const printed = JSON.parse(stdout);
    const { table, recommendation, candidates, knee, coldStart, safety } = printed;
    expect(safety).toMatchObject({ verdict: 'independent', sharesRuns: true });
    // What to do hangs on how busy this machine is now; that it fits what was measured does not.
    const { batchSize, windowSeconds, reason } = recommendation;
    expect([0, batchSize > 1 ? 1 : 0]).toContain(windowSeconds);
    expect(reason).toContain(batchSize > 1 ? 'times the rows a second of one row' : 'batching');
    for (const run of table) {
      expect(run.rowsPerSecond).toBeCloseTo((1000 * run.rows) / run.medianMs, 6);
      expect(run.peakRssBytes).toBeGreaterThan(30e6);
    }
    for (const part of ['processMs', 'libraryMs', 'loadMs', 'warmUpMs']) expect(coldStart[part]).toBeGreaterThan(0);
    expect([...new Set(table.map(({ rows }: { rows: number }) => rows))]).toEqual([1, 2, 4]);
    expect(table).toContainEqual(expect.objectContaining({ rows: knee.rows, length: 1, threads: knee.threads }));
    expect(candidates[0].p99AgeMs).toBeLessThanOrEqual(2000);

    const { schemaVersion, recommendation: recommended, ...kept } = JSON.parse(readFileSync(path, 'utf8'));
    expect(schemaVersion).toBe(1);
    expect(printed).toMatchObject(kept);
    expect(recommendation).toMatchObject(recommended);
    const headline = batchSize === 1 ? 'Do not batch' : `Hand over up to ${batchSize} messages`;
    expect(readFileSync(page, 'utf8')).toContain(headline);
    const refuse = (text: string): never => {
      throw new Error(text);
    };
    const measured = await readMeasured(inFolder('digits/1/model.onnx'), {
      provider: 'cpu',
      isRagged: false,
      warn: refuse,
    });
    const ofSession = kept.table.filter(({ threads }: { threads: number }) => threads === kept.threads);
    expect(measured?.slice(0, 2).map(({ ms }) => ms)).toEqual(
      ofSession.slice(0, 2).map(({ medianMs }: { medianMs: number }) => medianMs),
    );
  });

  it('prints tables that a person reads, also where nothing can be kept, and props to paste', async () => {
    mkdirSync(inFolder('digits/1/profile.json'));
    const args = ['profile', 'digits', '--models', '.', ...QUICK];
    const { code, stdout, stderr } = await runScript('cli/batchscore.ts', args, { cwd: inFolder() });
    expect({ code, stderr }).toEqual({
      code: 0,
      stderr: expect.stringMatching(/^wrote .*profile\.html\n$/),
    });
    expect(stdout).toMatch(/^digits: rows are independent, by the graph of the model/);
    expect(stdout).toMatch(
      /^Cold start \S+ m?s: process \S+ m?s, library \S+ m?s, model \S+ m?s, warm-up and checks \S+ m?s$/m,
    );
    expect(stdout).toMatch(/^rows {2}length {2}threads {2}median ms {2}spread +rows\/s {2}peak MiB$/m);
    expect(stdout).toMatch(/^Knee: .*runs of \d rows? on \d+ threads?, as deployed here.*rows\/s/m);
    expect(stdout).toMatch(/^> +\d.*\$[\d.]+ +\$[\d.,]+$/m);
    expect(stdout).toMatch(
      /profile\.json: expected a folder that can be written to, got: .*; what was measured is not/,
    );
    expect(readFileSync(inFolder('digits/1/profile.html'), 'utf8')).toContain('what was measured is not kept');
    const [, props = ''] = /^Recommended props, for infra\/app\.ts:\n\n([\s\S]*?)\n\nReason: /m.exec(stdout) ?? [];
    const names = ['Duration', 'Size', 'lambdaCompute'];
    const values = [Duration, Size, (options: object) => options];
    const pasted = new Function(...names, `return {${props}}`)(...values);
    expect(Object.keys(pasted)).toEqual(['batchSize', 'window', 'tuning', 'compute']);
    expect(pasted.compute.memorySize).toBeInstanceOf(Size);
  });

  it.each([
    [['digits', '--latency-budget-ms', 'soon'], 2, '--latency-budget-ms: expected a whole number from 1 to 3600000'],
    [
      ['digits', '--arrival-rate', '5', '--rows-per-month', '9'],
      2,
      '--arrival-rate: expected it without --rows-per-month',
    ],
    [['letters'], 1, 'letters'],
    [['test'], 1, 'test: expected a version folder such as 1/ with model.onnx in it, got none'],
  ])('refuses %j with one sentence', async (args, code, message) => {
    const { stderr, ...rest } = await batchscore(['profile', ...args]);
    expect(rest).toMatchObject({ code, stdout: '' });
    expect(stderr).toContain(message);
    expect(stderr.split('\n').length).toBeLessThanOrEqual(3);
  });

  it.each([
    ['has no file', { 'model/1/notes.txt': 'none' }, 'got no file that can be opened; put model.onnx there'],
    ['needs more memory than there is', { 'model/1/model.onnx': endlessModel() }, 'more memory than there is'],
    [
      'takes no made-up values',
      { 'model/1/model.onnx': farIdsModel() },
      '; put real requests into samples.jsonl beside config.json',
    ],
  ] satisfies [string, RepositoryFiles, string][])(
    'refuses a model that %s with one sentence',
    async (_, files, message) => {
      const { code, stdout, stderr } = await profile(files);
      expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
      expect(stderr).toContain(message);
      expect(stderr.trim().split('\n')).toHaveLength(1);
    },
  );
});

async function profile(files: RepositoryFiles) {
  return batchscore(['profile', 'model', '--models', await modelsDirectory(files), '--json', '--no-write', ...QUICK]);
}

/** These models do something else for many rows, which their graphs tell. */
const TRUSTED = { batching: 'trust' };

/** What is measured of a model, in runs of up to so many rows. */
async function measure(model: Uint8Array, maxBatchRows: number): Promise<Measurement> {
  const path = join(await modelsDirectory({ 'model/1/model.onnx': model, 'model/config.json': TRUSTED }), 'model');
  return measureModel(path, { providers: ['cpu'], seconds: 1, maxBatchRows, onProgress: () => {} });
}

const maxRowsOf = ({ table }: Measurement) => Math.max(...table.map(({ rows }) => rows));

describe('a model', () => {
  it('that ends its process at some size is measured below it', async () => {
    // Other processors than x86 divide without a trap.
    if (process.arch !== 'x64') return;
    await expect(measure(trappingModel(), 8)).rejects.toThrow(
      /expected the model to start, its process ended \(SIGFPE\), as a host's would; if fewer rows in a run help, give --max-rows/,
    );
    expect(maxRowsOf(await measure(trappingModel(), 4))).toBe(4);
  });

  it('that fails with more rows is measured below them, and that is a finding', async () => {
    const measured = await measure(failingModel(), 8);
    expect(maxRowsOf(measured)).toBe(4);
    const finding = /a run of 8 rows failed: .*; set "maxBatchRows" to 4 in config\.json/;
    expect(measured.findings.join('\n')).toMatch(finding);
  });

  it('that is slower batched is not to be batched', async () => {
    const { stdout } = await profile({
      'model/1/model.onnx': slowerTogetherModel(),
      'model/config.json': TRUSTED,
    });
    const { knee, recommendation } = JSON.parse(stdout);
    expect(knee.rows).toBe(1);
    expect(recommendation).toMatchObject({ batchSize: 1, windowSeconds: 0, maxBatchRows: 1 });
    expect(recommendation.reason).toContain('batching does not pay');
  });

  it('has as its memory at a size that of a process that ran no more rows', async () => {
    const { table } = await measure(identityModel('FP32', ['batch', 500_000]), 4);
    const peakAt = (rows: number) =>
      Math.max(...table.filter((one) => one.rows === rows).map((one) => one.peakRssBytes));
    const max = Math.max(...table.map(({ rows }) => rows));
    // Each row has 2 MB, as input and as output.
    expect(peakAt(max) - peakAt(1)).toBeGreaterThan((max - 1) * 3e6);
  });
});
