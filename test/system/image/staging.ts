import { execFile } from 'node:child_process';
import { mkdtempSync } from 'node:fs';
import { cp, mkdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { REPOSITORY } from '../../helpers/command.ts';

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
export async function copySources(scratch: string, packages: readonly string[]): Promise<string> {
  const root = mkdtempSync(join(scratch, 'sources-'));
  for (const part of ['infra', 'lambda']) await cp(join(REPOSITORY, part), join(root, part), { recursive: true });
  await writeFile(join(root, 'package.json'), '{ "type": "module" }');
  await linkPackages(root, packages);
  return root;
}

async function linkPackages(root: string, names: readonly string[]): Promise<void> {
  await mkdir(join(root, 'node_modules'), { recursive: true });
  for (const name of names.filter((name) => !name.startsWith('.'))) {
    await symlink(join(REPOSITORY, 'node_modules', name), join(root, 'node_modules', name));
  }
}
