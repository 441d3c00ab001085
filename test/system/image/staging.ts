/**
 * Stages images for tests, in this process or in one of its own:
 *
 *     const folder = stageFor({ stage: 'worker' });
 *     const said = await inOwnProcess(MODULE, `console.log(${stagingCode()});`, scratch);
 */
import { execFile } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { cp, mkdir, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, afterEach } from '@jest/globals';
import { type ImageOptions, stageImage } from '../../../infra/image/stageImage.ts';
import { REPOSITORY } from '../../helpers/command.ts';

export const scratch = mkdtempSync(join(tmpdir(), 'batchscore-staging-'));
const staged: string[] = [];
afterEach(() => {
  for (const folder of staged.splice(0)) rmSync(folder, { recursive: true });
});
afterAll(() => rmSync(scratch, { recursive: true }));

export function stageFor(options: Partial<ImageOptions> = {}): string {
  const modelsDirectory = join(REPOSITORY, 'models');
  const folder = stageImage({ modelsDirectory, architecture: 'x86_64', stage: 'lambda', ...options });
  staged.push(folder);
  return folder;
}

/** A folder with these files, each holding its own name. */
export async function folderWith(...paths: readonly string[]): Promise<string> {
  const folder = mkdtempSync(join(scratch, 'models-'));
  for (const path of paths) {
    await mkdir(dirname(join(folder, path)), { recursive: true });
    await writeFile(join(folder, path), path);
  }
  return folder;
}

export function filesIn(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1))
    .toSorted();
}

const run = promisify(execFile);

/** Runs lines of code, with `stageImage` imported from a module, in a process of its own. @returns what they print */
export async function inOwnProcess(module: string, code: string, cwd: string): Promise<string> {
  const script = `const { stageImage } = await import(${JSON.stringify(module)}); ${code}`;
  const { stdout } = await run(process.execPath, ['--input-type=module', '--eval', script], { cwd });
  return stdout.trim();
}

/** Code that stages an image of this repository's models. */
export function stagingCode(options: object = {}): string {
  const given = { modelsDirectory: join(REPOSITORY, 'models'), architecture: 'x86_64', stage: 'lambda', ...options };
  return `stageImage(${JSON.stringify(given)})`;
}

/** A copy of what stages images, with some of the packages. @returns its folder */
export async function copySources(packages: readonly string[]): Promise<string> {
  const root = mkdtempSync(join(scratch, 'sources-'));
  for (const part of ['infra', 'lambda']) await cp(join(REPOSITORY, part), join(root, part), { recursive: true });
  await writeFile(join(root, 'package.json'), '{ "type": "module" }');
  await mkdir(join(root, 'node_modules'));
  for (const name of packages) {
    await symlink(join(REPOSITORY, 'node_modules', name), join(root, 'node_modules', name));
  }
  return root;
}
