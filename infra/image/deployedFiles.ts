import { readdirSync, realpathSync, statSync } from 'node:fs';
import { join } from 'node:path';

/**
 * The files of a model repository that a host needs, without those that only training does, or people read: what an image
 * gets, and what is published. Links are followed.
 *
 * @returns their paths from the folder, with slashes
 * @throws Error naming a link that leads nowhere, or back to a folder that it is in
 */
export function deployedFiles(folder: string): string[] {
  return filesBelow(folder, '', new Set());
}

function filesBelow(root: string, path: string, above: ReadonlySet<string>): string[] {
  const real = realpathSync(join(root, path));
  if (above.has(real)) {
    throw new Error(`${join(root, path)}: expected files, got a link to a folder that it is in; remove it`);
  }
  const here = new Set([...above, real]);
  return readdirSync(real).flatMap((name) => {
    const entry = path === '' ? name : `${path}/${name}`;
    const found = statSync(join(root, entry), { throwIfNoEntry: false });
    if (isForPeople(entry, found?.isFile() === true)) return [];
    if (found === undefined) {
      throw new Error(`${join(root, entry)}: expected a file, got a link to nothing; correct or remove it`);
    }
    return found.isDirectory() ? filesBelow(root, entry, here) : found.isFile() ? [entry] : [];
  });
}

/** The page on what was measured, beside a version's model. A host reads the figures themselves, in profile.json. */
const PAGE = /^[^/]+\/[^/]+\/profile\.html$/;

/** Python, prose and held-out samples: none of them can be imported by a transform. */
const FILES_OF_TRAINING = /\.py$|\.md$|^requirements.*\.txt$|^held-out\./;

/** Only next to models and next to versions: a version's own files, such as external weights, may have any name. */
const DEEPEST_LEVEL = 2;

/** A folder beside models is a model unless it is hidden or a cache of Python: `walkModels` passes over those too. */
function isForPeople(path: string, isFile: boolean): boolean {
  if (PAGE.test(path)) return true;
  const steps = path.split('/');
  if (steps.length > DEEPEST_LEVEL) return false;
  const name = steps.at(-1) ?? '';
  if (name.startsWith('.')) return true;
  return isFile ? FILES_OF_TRAINING.test(name) : name === '__pycache__';
}
