import { join } from 'node:path';
import { describe, expect, it, jest } from '@jest/globals';
import { type Measurement, measureModel } from '../../../../cli/profile/measure/measureModel.ts';
import { kneeOf } from '../../../../cli/profile/profileReport.ts';
import { runScript } from '../../../helpers/command.ts';
import { hundredRowsModel, MIXING, mixingAtSixteenModel } from '../../../helpers/mixingModels.ts';
import {
  endlessModel,
  identityModel,
  lookupModel,
  maskedMeanModel,
  rowsOnlyModel,
} from '../../../helpers/onnxModels.ts';
import { modelsDirectory, type RepositoryFiles } from '../../../helpers/openModels.ts';
import { failingModel, farIdsModel, slowerTogetherModel, trappingModel } from '../../../helpers/troubledModels.ts';

// Each test starts a dozen processes or more, on a machine that may be busy with others.
jest.setTimeout(180_000);

const REQUEST = (ids: readonly number[]) =>
  JSON.stringify({ inputs: [{ name: 'ids', datatype: 'INT64', shape: [1, ids.length], data: ids }] });

/** What is measured of a model, in runs of up to so many rows. */
async function measure(files: RepositoryFiles, maxBatchRows = 8): Promise<Measurement> {
  const folder = join(await modelsDirectory(files), 'model');
  const options = { providers: ['cpu'], seconds: 1, onProgress: () => {} };
  return measureModel(folder, { ...options, maxBatchRows });
}

/** The whole command. */
async function profile(files: RepositoryFiles) {
  const directory = await modelsDirectory(files);
  const options = ['--models', directory, '--json', '--seconds', '1', '--max-rows', '4', '--no-write'];
  const { code, stdout, stderr } = await runScript('cli/batchscore.ts', ['profile', 'model', ...options]);
  return { code, stderr, printed: stdout === '' ? undefined : JSON.parse(stdout) };
}

const rowsOf = ({ table }: Measurement) => [...new Set(table.map(({ rows }) => rows))];
const lengthsOf = ({ table }: Measurement) => [...new Set(table.map(({ length }) => length))];

describe('a model', () => {
  it('that ends its process at some size is measured below it, and that is a finding', async () => {
    // Other processors than x86 divide without a trap.
    const most = process.arch === 'x64' ? 4 : 8;
    const measured = await measure({ 'model/1/model.onnx': trappingModel() });
    expect(Math.max(...rowsOf(measured))).toBe(most);
    expect(measured.safety.verdict).toBe('independent');
    const findings = measured.findings.join('\n');
    if (most === 8) return;
    expect(findings).toContain('a start with runs of up to 8 rows ended its process (SIGFPE), as it would end a host');
    expect(findings).toContain('a run of 8 rows ended its process (SIGFPE)');
    expect(findings).toContain('set "maxBatchRows" to 4 in config.json');
  });

  it.each([
    ['few rows', failingModel, 8, 4],
    ['many rows', hundredRowsModel, 128, 64],
  ])('that fails with %s is measured below it, and that is a finding', async (_, model, asked, most) => {
    const measured = await measure({ 'model/1/model.onnx': model() }, asked);
    expect(Math.max(...rowsOf(measured))).toBe(most);
    expect(measured.safety.verdict).toBe('independent');
    const finding = `a run of ${2 * most} rows failed: .*; set "maxBatchRows" to ${most} in config\\.json`;
    expect(measured.findings.join('\n')).toMatch(new RegExp(finding));
  });

  it('that no made-up values satisfy is refused with a sentence, and measured with real requests', async () => {
    const alone = await profile({ 'model/1/model.onnx': farIdsModel() });
    expect(alone).toMatchObject({ code: 1, printed: undefined });
    expect(alone.stderr).toMatch(
      /^batchscore: expected the model to run with made-up values, got: .*; put real requests into samples\.jsonl beside config\.json\n$/,
    );
    const samples = `${REQUEST([4_950, 5_001])}\n${REQUEST([5_060, 4_990])}\n`;
    const real = await measure({ 'model/1/model.onnx': farIdsModel(), 'model/samples.jsonl': samples });
    expect(rowsOf(real)).toEqual([1, 2, 4, 8]);
    expect(real.safety).toMatchObject({ verdict: 'independent', probes: 2 });
  });

  it('whose table is shorter than made-up ids usually are is measured with smaller ones', async () => {
    const measured = await measure({ 'model/1/model.onnx': lookupModel() });
    expect(rowsOf(measured)).toEqual([1, 2, 4, 8]);
    expect(measured.findings.join('\n')).not.toContain('maxBatchRows');
  });

  it('with a fixed batch is measured at that, and that is a finding', async () => {
    const files = { 'model/1/model.onnx': identityModel('FP32', [8, 3]) };
    const measured = await measure(files);
    expect(rowsOf(measured)).toEqual([8]);
    expect(measured.findings[0]).toContain('the batch axis is baked to 8: every run takes exactly 8 rows');
  });

  it('whose axis is dynamic in name alone is measured at the rows that it runs with', async () => {
    const measured = await measure({ 'model/1/model.onnx': rowsOnlyModel(4) });
    expect(rowsOf(measured)).toEqual([4]);
    expect(measured.findings[0]).toContain('the batch axis is baked to 4');
  });

  it('that is slower batched is not to be batched, and that is a finding', async () => {
    const { printed } = await profile({ 'model/1/model.onnx': slowerTogetherModel() });
    expect(printed.findings.join('\n')).toMatch(/rows gain nothing from sharing a run: 4 of them give 0\.\d+ times/);
    expect(printed.knee.rows).toBe(1);
    expect(printed.recommendation).toMatchObject({ batchSize: 1, windowSeconds: 0, maxBatchRows: 1 });
    expect(printed.recommendation.reason).toContain('batching does not pay');
  });

  it('whose rows depend on each other runs them alone, and only that is timed', async () => {
    const mixing = MIXING[Object.keys(MIXING)[0] as string] as () => Uint8Array;
    const measured = await measure({ 'model/1/model.onnx': mixing() });
    expect(measured.safety).toMatchObject({ verdict: 'dependent', maxDifference: null });
    expect(rowsOf(measured)).toEqual([1]);
    expect(measured.findings[0]).toContain('requests run one at a time');
  });

  it('whose rows depend on each other in runs that no start tries is found out', async () => {
    const measured = await measure({ 'model/1/model.onnx': mixingAtSixteenModel() }, 33);
    expect(measured.safety.verdict).toBe('dependent');
    expect(measured.findings.join('\n')).toContain('more probes than at start find that rows depend on each other');
    expect(rowsOf(measured)).toEqual([1]);
  });

  it('with a ragged axis is measured at several lengths, of its samples where there are some', async () => {
    const config = { ragged: { axis: 'length', pad: { values: 0, mask: 0 } } };
    const files = { 'model/1/model.onnx': maskedMeanModel(), 'model/config.json': config };
    const usual = await measure(files, 2);
    expect(lengthsOf(usual)).toEqual([8, 32, 128]);
    expect(kneeOf(usual).length).toBe(32);

    const request = (length: number) => {
      const data = Array.from({ length }, (_, index) => index + 1);
      const inputs = ['values', 'mask'].map((name) => ({ name, datatype: 'FP32', shape: [1, length], data }));
      return `${JSON.stringify({ inputs })}\n`;
    };
    const samples = [5, 40, 7].map(request).join('');
    const real = await measure({ ...files, 'model/samples.jsonl': samples }, 2);
    expect(lengthsOf(real)).toEqual([5, 7, 40]);
    expect(real.length).toBe(7);

    const ladder = { ragged: { ...config.ragged, ladder: [4, 6, 16, 64] } };
    const rungs = await measure({ ...files, 'model/config.json': ladder }, 2);
    expect(lengthsOf(rungs)).toEqual([4, 6, 64]);
  });

  it.each([
    ['is not there', {}, 'model'],
    [
      'has no file in its folder',
      { 'model/1/notes.txt': 'none' },
      'got no file that can be opened; put model.onnx there',
    ],
    ['is no ONNX', { 'model/1/model.onnx': 'a model' }, 'got a file that is not ONNX; export the model anew'],
    ['needs more memory than there is', { 'model/1/model.onnx': endlessModel() }, 'more memory than there is'],
    ['has a broken config.json', { 'model/1/model.onnx': identityModel(), 'model/config.json': '{' }, 'expected JSON'],
  ])('that %s is refused with one sentence', async (_, files, message) => {
    const { code, stderr, printed } = await profile(files as RepositoryFiles);
    expect({ code, printed }).toEqual({ code: 1, printed: undefined });
    expect(stderr).toContain(message);
    expect(stderr.trim().split('\n')).toHaveLength(1);
  });
});
