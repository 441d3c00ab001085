import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { isFailure } from '../../../lambda/core/failure.ts';
import type { Model } from '../../../lambda/core/model.ts';
import { runtimeVersion, thisMachine } from '../../../lambda/onnx/profileFile.ts';
import { modelDigest } from '../../../lambda/onnx/weights.ts';
import { identityModel, modelWithWeightsIn } from '../../helpers/onnxModels.ts';
import { modelsDirectory, openModels, type RepositoryFiles } from '../../helpers/openModels.ts';
import { profileOf } from '../../helpers/profiles.ts';

const MODEL = identityModel('FP32', ['batch', 'length']);
const RAGGED = { ragged: { axis: 'length', pad: { x: 0 } } };
const RUNS = [
  { rows: 1, length: 8, ms: 2 },
  { rows: 3, length: 8, ms: 4 },
  { rows: 1, length: 16, ms: 3 },
];

async function open(
  profile: RepositoryFiles[string],
  config: Readonly<Record<string, unknown>> = RAGGED,
): Promise<{ readonly measured: Model['measured']; readonly warnings: readonly string[] }> {
  const { repository, warnings } = await openModels({
    'model/1/model.onnx': MODEL,
    'model/1/profile.json': profile,
    'model/config.json': config,
  });
  const model = await repository.find(undefined, undefined);
  if (isFailure(model)) throw new Error(model.message);
  return { measured: model.measured, warnings: warnings.filter((warning) => warning.includes('profile.json')) };
}

describe('profile.json', () => {
  it('of this model and this machine says what runs take', async () => {
    const { measured, warnings } = await open({ ...profileOf(MODEL, RUNS), note: 'of a later version' });
    expect(measured).toEqual(RUNS);
    expect(warnings).toEqual([]);
  });

  it('of several lengths says what those of ordinary length take where lengths do not share runs', async () => {
    const { measured } = await open({ ...profileOf(MODEL, RUNS), length: 8 }, {});
    expect(measured).toEqual([
      { rows: 1, length: 1, ms: 2 },
      { rows: 3, length: 1, ms: 4 },
    ]);
  });

  const profile = profileOf(MODEL, RUNS);
  const { cpu, cores, architecture } = thisMachine();
  it.each([
    [
      'processor',
      { machine: { ...profile.machine, cpu: 'Z80' } },
      `(${cpu}, ${cores} cores, ${architecture}), got one of Z80, `,
    ],
    ['provider', { provider: 'cuda' }, 'expected a profile with the provider cpu, got cuda'],
    [
      'ONNX Runtime',
      { versions: { ...profile.versions, onnxruntime: '0.9.1' } },
      `expected a profile with ONNX Runtime ${runtimeVersion()}, got 0.9.1`,
    ],
    [
      'model',
      { digest: `sha256:${'0'.repeat(64)}` },
      `expected a profile of this model (${profile.digest}), got one of`,
    ],
  ])('of another %s is left alone, with a warning that says so', async (_, more, message) => {
    const { measured, warnings } = await open({ ...profile, ...more });
    expect(measured).not.toContainEqual(RUNS[0]);
    expect(warnings).toEqual([expect.stringContaining(message)]);
    expect(warnings[0]).toContain('the cost of runs is measured at start instead');
  });

  const [run] = profile.table;
  it.each([
    ['runs that took longer than a day', { table: [{ ...run, medianMs: 1e308 }] }, 'table.0.medianMs'],
    ['more than it may say', { findings: ['x'.repeat(2 ** 21)] }, 'expected a profile of 2097152 bytes at most, got'],
    ['very many faults', { table: new Array(1_000).fill({}) }, 'and 6990 more'],
  ])('with %s is left alone, with a short warning', async (_, more, message) => {
    const { measured, warnings } = await open({ ...profile, ...more });
    expect(measured).not.toContainEqual(RUNS[0]);
    expect(warnings).toEqual([expect.stringContaining(message)]);
    expect(warnings[0]?.length).toBeLessThan(1_500);
  });

  it('with other threads than config.json has is left alone', async () => {
    const { measured, warnings } = await open(profile, { ...RAGGED, sessionOptions: { intraOpNumThreads: 2 } });
    expect(measured).not.toContainEqual(RUNS[0]);
    expect(warnings[0]).toContain('expected a profile with 2 threads, as config.json says, got 1');
  });

  it('of a patch of ONNX Runtime, or of a machine with more memory, is taken', async () => {
    const [major, minor] = runtimeVersion().split('.');
    const { measured } = await open({
      ...profile,
      versions: { ...profile.versions, onnxruntime: `${major}.${minor}.99` },
      machine: { ...profile.machine, memoryBytes: 1 },
    });
    expect(measured).toEqual(RUNS);
  });

  it.each([
    ['is no JSON', '{', 'expected JSON'],
    [
      'holds no runs with its threads',
      { ...profile, threads: 8 },
      'expected runs with that number of threads in the table',
    ],
  ])('that %s does not stop a start: a warning names the file', async (_, broken, message) => {
    const { measured, warnings } = await open(broken);
    expect(measured).not.toContainEqual(RUNS[0]);
    expect(warnings).toEqual([expect.stringContaining(message)]);
    expect(warnings[0]).toMatch(/model\/1\/profile\.json: .*; the cost of runs is measured at start instead/);
  });
});

describe('the digest of a model', () => {
  it('changes with the weights in other files', async () => {
    const digests = await Promise.all(
      ['twelve bytes', 'other weights'].map(async (weights) => {
        const model = modelWithWeightsIn('weights.bin');
        return modelDigest(join(await modelsDirectory({ 'model.onnx': model, 'weights.bin': weights }), 'model.onnx'));
      }),
    );
    expect(new Set(digests).size).toBe(2);
  });
});
