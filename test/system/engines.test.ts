import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync } from 'node:fs';
import { cp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, describe, expect, it } from '@jest/globals';
import { type Finished, LOWEST, MANIFEST, outcomeOf, pretendingToBe, REPOSITORY, TOO_LOW } from '../helpers/command.ts';

const run = promisify(execFile);

interface Lock {
  readonly packages: Readonly<Record<string, { readonly dev?: boolean }>>;
}

const LOCK: Lock = JSON.parse(readFileSync(join(REPOSITORY, 'package-lock.json'), 'utf8'));

describe('npm ci', () => {
  const folder = mkdtempSync(join(tmpdir(), 'batchscore-ci-'));
  afterAll(() => rm(folder, { recursive: true }));

  const npmCi = (version: string, ...options: readonly string[]): Promise<Finished> =>
    outcomeOf(run('npm', ['ci', '--dry-run', '--offline', ...options], { cwd: folder, env: pretendingToBe(version) }));
  const putFiles = async (manifest: unknown, lock: unknown): Promise<void> => {
    await writeFile(join(folder, 'package.json'), JSON.stringify(manifest));
    await writeFile(join(folder, 'package-lock.json'), JSON.stringify(lock));
    await cp(join(REPOSITORY, '.npmrc'), join(folder, '.npmrc'));
  };

  it('of the package takes the lowest Node that its manifest allows, and with --engine-strict no older one', async () => {
    const { devDependencies: _, ...manifest } = MANIFEST;
    const packages = Object.entries(LOCK.packages).filter(([, { dev = false }]) => !dev);
    await putFiles(manifest, { ...LOCK, packages: { ...Object.fromEntries(packages), '': manifest } });
    expect(await npmCi(LOWEST, '--engine-strict')).toMatchObject({ code: 0 });
    expect(await npmCi(TOO_LOW, '--engine-strict')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('Not compatible with your version of node/npm: batchscore'),
    });
  });

  it('of the repository, which brings a Node of its own, says nothing on Node 20', async () => {
    await putFiles(MANIFEST, LOCK);
    expect(await npmCi('20.9.0')).toMatchObject({ code: 0, stderr: '' });
  });
});
