import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { Duration, Size } from 'aws-cdk-lib';
import { Annotations, Match } from 'aws-cdk-lib/assertions';
import { checkProfiles, type ProfiledHost } from '../../infra/constructs/checks/profiles.ts';
import { readProfiles } from '../../infra/constructs/image/profiles.ts';
import { BatchScoring, lambdaCompute } from '../../infra/index.ts';
import type { MeasuredRun } from '../../lambda/core/model.ts';

import type { ProfileFile } from '../../lambda/onnx/profileFile.ts';
import { identityModel } from '../helpers/onnxModels.ts';
import { profileOf } from '../helpers/profiles.ts';
import { createStack } from '../helpers/stacks.ts';

const MODEL = identityModel();
const PAYS: readonly MeasuredRun[] = [1, 8, 64, 512].map((rows) => ({ rows, length: 1, ms: 10 + rows / 10 }));
const DOES_NOT: readonly MeasuredRun[] = [1, 8, 64].map((rows) => ({ rows, length: 1, ms: 10 * rows }));
const HOST: ProfiledHost = {
  batching: { batchSize: 100, windowSeconds: 1, fifo: false, shards: 1 },
  timeoutSeconds: 60,
  machine: { memoryMb: 1_769, vcpus: 1 },
};
const withPeak = (profile: ProfileFile, mib: number): ProfileFile => ({
  ...profile,
  table: profile.table.map((run) => ({ ...run, peakRssBytes: (run.rows > 64 ? mib : 200) * 1024 * 1024 })),
});

describe('a profile of a deployed model', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'batchscore-profiles-'));
    write('digits/1/model.onnx', MODEL);
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  const write = (file: string, content: string | Uint8Array): void => {
    mkdirSync(dirname(join(folder, file)), { recursive: true });
    writeFileSync(join(folder, file), content);
  };
  /** What synth says, each sentence with its level; or the refusal. */
  const said = (profile: ProfileFile | string, host: Partial<ProfiledHost> = {}): string[] => {
    write('digits/1/profile.json', typeof profile === 'string' ? profile : JSON.stringify(profile));
    const stack = createStack();
    try {
      checkProfiles(stack, readProfiles(folder), { ...HOST, ...host });
    } catch (error) {
      return [`refused: ${(error as Error).message}`];
    }
    const messages = Annotations.fromStack(stack);
    return [...messages.findWarning('*', Match.anyValue()), ...messages.findInfo('*', Match.anyValue())].map(
      ({ level, entry }) => `${level}: ${entry.data}`,
    );
  };

  it('that the deployment fits says nothing, and neither does a model without one', () => {
    expect(said(profileOf(MODEL, PAYS))).toEqual([]);
    rmSync(join(folder, 'digits/1/profile.json'));
    const stack = createStack();
    checkProfiles(stack, readProfiles(folder), HOST);
    Annotations.fromStack(stack).hasNoWarning('*', Match.anyValue());
  });

  it('whose runs take more memory than a host has refuses it, with the sum', () => {
    const profile = withPeak(profileOf(MODEL, PAYS), 2_000);
    expect(said(profile)).toEqual([
      "refused: memoryMb: expected 1.3 × 2000 = 2600 or more, because runs of 'model' took 2000 MiB when it was " +
        'profiled, got 1769; raise it, or lower maxBatchRows',
    ]);
    expect(said(profile, { maxBatchRows: 64 })).toEqual([]);
    expect(said(profile, { machine: undefined })).toEqual([]);
    write('digits/config.json', '{"maxBatchRows": 64}');
    expect(said(profile)).toEqual([]);
  });

  it('whose runs leave little memory warns, with the sum', () => {
    const [warning, ...others] = said(withPeak(profileOf(MODEL, PAYS), 1_500));
    expect(warning).toContain('warning: memoryMb: expected 1.3 × 1500 = 1950 or more');
    expect(others).toEqual([]);
  });

  it('with a run that takes longer than the timeout refuses it', () => {
    const slow = profileOf(MODEL, [{ rows: 1, length: 1, ms: 65_000 }]);
    expect(said(slow)).toEqual([
      "refused: timeoutSeconds: expected more than a run of 1 row of 'model' takes by its profile, 65.0 s on 1 vCPU, " +
        'got 60; raise it, or memoryMb',
    ]);
    expect(said(slow, { timeoutSeconds: 70, batching: { ...HOST.batching, batchSize: 1 } })).toEqual([]);
  });

  it('with a batch that takes longer than the timeout warns, and knows what part of a core a host has', () => {
    const batching = { ...HOST.batching, batchSize: 10_000 };
    const profile = profileOf(MODEL, [
      { rows: 1, length: 1, ms: 10 },
      { rows: 8, length: 1, ms: 40 },
    ]);
    expect(said(profile, { batching })).toEqual([]);
    const machine = { memoryMb: 884, vcpus: 0.5 };
    const [warning] = said(profile, { batching, machine });
    expect(warning).toContain(
      "warning: batchSize: expected a batch of 'model' to be scored within timeoutSeconds, 60, got ",
    );
    expect(warning).toContain('10000 × 10.00 ms = 100 s by its profile on 0.5 vCPU; lower batchSize to 6000, or raise');
  });

  it('of rows that gain nothing from each other notes that batches do not pay', () => {
    const [info, ...others] = said(profileOf(MODEL, DOES_NOT));
    expect(info).toContain("info: batchSize: the best run of 'model' gives 1.00 times the rows a second of 1 row");
    expect(others).toEqual([]);
    expect(said(profileOf(MODEL, DOES_NOT), { batching: { ...HOST.batching, batchSize: 1 } })).toEqual([]);
  });

  it('of rows that depend on each other notes that batches hold them one at a time', () => {
    const safety = { verdict: 'dependent', maxDifference: null, probes: 52 } as const;
    const [info] = said({ ...profileOf(MODEL, PAYS), safety });
    expect(info).toContain("info: batchSize: rows of 'model' depend on each other by its profile, and run alone");
  });

  it.each([
    ['of another model', () => profileOf(identityModel('FP64'), PAYS), 'expected a profile of this model (sha256:'],
    ['that is broken', () => '{', 'expected JSON, got something else'],
    ['of the schema before', () => '{"runs": []}', 'not a valid profile'],
  ])('%s is a warning that says what is unknown', (_, profile, message) => {
    const [warning, ...others] = said(profile());
    expect(warning).toContain(`warning: ${folder}/digits/1/profile.json: `);
    expect(warning).toContain(message);
    expect(warning).toContain('whether memory, timeout and batch size fit it is unknown: run batchscore profile again');
    expect(others).toEqual([]);
  });

  it('with another provider than is deployed says nothing', () => {
    const slow = profileOf(MODEL, [{ rows: 1, length: 1, ms: 65_000 }]);
    expect(said(slow, { providers: 'cuda,cpu' })).toEqual([]);
    write('digits/config.json', '{"providers": ["cuda"]}');
    expect(said(slow)).toEqual([]);
  });

  it('is held against the props of the construct', () => {
    write('digits/1/profile.json', JSON.stringify(withPeak(profileOf(MODEL, DOES_NOT), 200)));
    const scoring = (memory: number, seconds = 60) => {
      const compute = lambdaCompute({ memorySize: Size.mebibytes(memory), timeout: Duration.seconds(seconds) });
      const stack = createStack();
      new BatchScoring(stack, 'Scoring', { models: folder, compute, batchSize: 10_000 });
      return Annotations.fromStack(stack);
    };
    expect(() => scoring(160)).toThrow('memoryMb: expected 1.3 × 200 = 260 or more');
    scoring(1_769).hasWarning(
      '*',
      Match.stringLikeRegexp("batchSize: expected a batch of 'model' to be scored within"),
    );
    scoring(1_769, 120).hasNoWarning('*', Match.stringLikeRegexp('to be scored within'));
  });
});
