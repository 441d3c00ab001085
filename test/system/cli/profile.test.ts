import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { CONTEXT } from '../../../infra/context.ts';
import { REPOSITORY, runScript } from '../../helpers/command.ts';

const QUICK = ['--max-rows', '8', '--seconds', '1', '--no-write'];
const profile = (args: readonly string[], cwd?: string) =>
  runScript('cli/batchscore.ts', ['profile', ...args], cwd === undefined ? {} : { cwd });

describe('batchscore profile', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'batchscore-profile-'));
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  it('prints one object: the safety, a table of runs, and a recommendation within the budget', async () => {
    const { code, stdout } = await profile(['digits', '--json', ...QUICK, '--arrival-rate', '50']);
    expect(code).toBe(0);
    const printed = JSON.parse(stdout);
    expect(printed).toMatchObject({
      model: 'digits',
      safety: { verdict: 'independent', maxDifference: expect.any(Number) },
      recommendation: {
        batchSize: expect.any(Number),
        windowSeconds: expect.any(Number),
        maxBatchRows: expect.any(Number),
        memoryMb: expect.any(Number),
        reason: expect.any(String),
        dollarsPerMillionRows: expect.any(Number),
      },
    });
    const { table, recommendation, candidates, forms, knee, coldStart, safety } = printed;
    // What to do hangs on how busy this machine is now; that it fits what was measured does not.
    const { batchSize, windowSeconds, reason } = recommendation;
    expect([0, batchSize > 1 ? 1 : 0]).toContain(windowSeconds);
    expect(reason).toContain(batchSize > 1 ? 'times the rows a second of one row' : 'batching');
    for (const run of table) {
      expect(run.rowsPerSecond).toBeCloseTo((1000 * run.rows) / run.medianMs, 6);
      expect(run.peakRssBytes).toBeGreaterThan(30e6);
      expect(run.spread).toBeGreaterThanOrEqual(0);
    }
    expect(safety.probes).toBeGreaterThan(20);
    for (const part of ['processMs', 'libraryMs', 'loadMs', 'warmUpMs']) expect(coldStart[part]).toBeGreaterThan(0);
    expect([...new Set(table.map(({ rows }: { rows: number }) => rows))]).toEqual([1, 2, 4, 8]);
    expect(table).toContainEqual(expect.objectContaining({ rows: knee.rows, length: 1, threads: knee.threads }));
    expect(table.some(({ threads }: { threads: number }) => threads === 1)).toBe(true);
    expect(candidates[0].p99AgeMs).toBeLessThanOrEqual(2000);
    expect(forms.at(-1)).toMatchObject({ dollarsPerMillionRows: null });
  });

  it('prints tables that a person reads', async () => {
    const { code, stdout, stderr } = await profile(['models/digits', ...QUICK]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toMatch(/^digits: rows are independent \(\d+ probes, /);
    expect(stdout).toMatch(/^Cold start \S+ s: process \S+, library \S+, model \S+, warm-up and checks \S+$/m);
    expect(stdout).toMatch(/^rows {2}length {2}threads {2}median ms {2}spread +rows\/s {2}peak MiB$/m);
    expect(stdout).toMatch(/^Knee: runs? of \d rows? give .* a second,? .*on \d+ threads?, as deployed here\.$/m);
    expect(stdout).toMatch(/^> +\d+ +[01] /m);
    expect(stdout).toMatch(/^Not measured: lambda-gpu g4dn\.xlarge, /m);
    expect(stdout).toMatch(/^Recommended: \{"batchSize":\d+,"windowSeconds":[01],/m);
  });

  it('writes what it recommends into cdk.json, in keys of the app, and prices what was measured on a GPU', async () => {
    writeFileSync(join(folder, 'cdk.json'), '{\n  "app": "a",\n  "context": {\n    "models": "models"\n  }\n}\n');
    cpSync(join(REPOSITORY, 'models/digits'), join(folder, 'digits'), { recursive: true });
    const first = await profile(['digits', '--models', '.', '--json', '--apply', ...QUICK], folder);
    expect(first.code).toBe(0);
    const { recommendation } = JSON.parse(first.stdout);
    const { context, ...rest } = JSON.parse(readFileSync(join(folder, 'cdk.json'), 'utf8'));
    expect(rest).toEqual({ app: 'a' });
    expect(context).toEqual({ ...recommendation.context, models: 'models' });
    expect(Object.keys(CONTEXT)).toEqual(expect.arrayContaining(Object.keys(recommendation.context)));

    writeFileSync(join(folder, 'gpu.json'), first.stdout);
    const second = await profile(['digits', '--json', '--gpu-profile', 'g6.xlarge=gpu.json', ...QUICK], folder);
    const { forms } = JSON.parse(second.stdout);
    const priced = forms.filter(
      ({ dollarsPerMillionRows }: { dollarsPerMillionRows: unknown }) => dollarsPerMillionRows,
    );
    expect(priced.map(({ name }: { name: string }) => name)).toEqual(
      expect.arrayContaining(['lambda-gpu g6.xlarge', 'ecs-gpu g6.xlarge']),
    );
  });

  it('looks for cdk.json before it looks at the model', async () => {
    const { code, stdout, stderr } = await profile(['letters', '--apply'], folder);
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    expect(stderr).toContain('--apply: expected cdk.json in the current folder, got: no such file or directory');
  });

  it.each([
    [[], 2, 'expected MODEL, got nothing'],
    [
      ['digits', '--arrival-rate', '0'],
      2,
      "--arrival-rate: expected messages a second, above 0 and up to 1000000, got '0'",
    ],
    [['digits', '--latency-budget-ms', 'soon'], 2, '--latency-budget-ms: expected a whole number from 1 to 3600000'],
    [['digits', '--arrival-rate', '5', '--trace', 't'], 2, '--trace: expected it without --arrival-rate, got both'],
    [['digits', '--architecture', 'arm'], 2, "--architecture: expected arm64 or x86_64, got 'arm'"],
    [['digits', '--seconds', '0'], 2, "--seconds: expected a whole number from 1 to 3600, got '0'"],
    [['digits', '--length', 'long'], 2, '--length: expected a whole number from 1'],
    [['digits', '--requests-per-message', '0'], 2, '--requests-per-message: expected a whole number from 1'],
    [['digits', '--gpu-profile', 'p5=x'], 2, '--gpu-profile: expected TYPE=FILE with a type among g4dn.xlarge'],
    [['digits', '--gpu-profile', 'g5.xlarge=package.json'], 1, 'package.json: expected what batchscore profile'],
    [['digits', '--prices', 'README.md'], 1, 'prices: expected a JSON file, got README.md'],
    [['digits', '--trace', 'no-such-file'], 1, 'no-such-file: expected a file of times'],
    [['letters'], 1, 'letters'],
    [['test'], 1, 'test: expected a version folder such as 1/ with model.onnx in it, got none'],
  ])('refuses %j with one sentence', async (args, code, message) => {
    const { stderr, ...rest } = await profile(args);
    expect(rest).toMatchObject({ code, stdout: '' });
    expect(stderr).toContain(message);
    expect(stderr.split('\n').length).toBeLessThanOrEqual(3);
  });
});
