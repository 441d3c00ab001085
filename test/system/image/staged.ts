import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
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
