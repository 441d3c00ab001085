import { readdirSync, realpathSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { highestVersionFirst, isVersion, MODEL_FILE, MODEL_LAYOUT } from '../core/places.ts';

export interface ModelLocation {
  readonly name: string;
  readonly version: string;
  readonly path: string;
  /** Where config.json and the transform it names lie. */
  readonly folder: string;
}

/**
 * Every version in the repository, by name, the highest of each first.
 *
 * @throws Error when there is no model, or one has no version folder
 */
export function findModels(directory: string): ModelLocation[] {
  const locations = walkModels(directory).flatMap(locationsOf);
  if (locations.length === 0) {
    throw new Error(`${directory}: expected ${MODEL_LAYOUT} in the model repository, got no model folder; add a model`);
  }
  return locations;
}

/**
 * The highest version of one model.
 *
 * @throws Error when it has no version folder
 */
export function findHighest(directory: string, name: string): ModelLocation {
  const folder = join(directory, name);
  return locationsOf({ name, folder, versions: versionsIn(folder) })[0];
}

function locationsOf({ name, folder, versions }: ModelFolder): [highest: ModelLocation, ...ModelLocation[]] {
  const [highest, ...older] = versions.map(({ version, path }) => ({ name, version, path, folder }));
  if (highest !== undefined) return [highest, ...older];
  const within = walkModels(folder).filter(({ versions }) => versions.length > 0);
  const named = within.map((model) => model.folder).join(', ');
  const cure = named === '' ? 'put the model in one' : `name a model: ${named}`;
  throw new Error(`${folder}: expected a version folder such as 1/ with ${MODEL_FILE} in it, got none; ${cure}`);
}

/** A model's folder in a model repository. Nothing says yet that its files are there. */
export interface ModelFolder {
  readonly name: string;
  readonly folder: string;
  /** The highest first; none where no folder is a version. */
  readonly versions: readonly ModelVersion[];
}

interface ModelVersion {
  readonly version: string;
  /** Where its model file belongs. */
  readonly path: string;
}

/** What Python leaves behind beside a script that was imported. */
const PYTHON_CACHE = '__pycache__';

/**
 * The model folders of a repository, by name. Files, hidden folders and those in which Python caches are passed over.
 *
 * @throws Error naming the folder that cannot be read
 */
export function walkModels(directory: string): ModelFolder[] {
  return subfolders(directory).map((name) => {
    const folder = join(directory, name);
    return { name, folder, versions: versionsIn(folder) };
  });
}

/** @throws Error naming the folder when it cannot be read */
function versionsIn(folder: string): ModelVersion[] {
  return subfolders(folder)
    .filter(isVersion)
    .toSorted(highestVersionFirst)
    .map((version) => ({ version, path: join(folder, version, MODEL_FILE) }));
}

function subfolders(directory: string): string[] {
  try {
    return (
      readdirSync(directory, { withFileTypes: true })
        // A link may lead to a folder.
        .filter((entry) => !entry.isFile() && !entry.name.startsWith('.') && entry.name !== PYTHON_CACHE)
        .map(({ name }) => name)
        .toSorted()
    );
  } catch (cause) {
    throw new Error(
      `${directory}: expected a folder of the model repository, got none that can be read; check the path`,
      { cause },
    );
  }
}

/**
 * The files of a model repository that a host may need: all but those that are hidden. Links are followed.
 *
 * @param below a folder in it, whose files are wanted alone
 * @returns their paths from the folder, with slashes
 * @throws Error naming a link that leads nowhere, or back to a folder that it is in
 */
export function deployedFiles(folder: string, below = ''): string[] {
  return filesBelow(folder, below, new Set());
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
    if (isHidden(entry, found?.isFile() === true)) return [];
    if (found === undefined) {
      throw new Error(`${join(root, entry)}: expected a file, got a link to nothing; correct or remove it`);
    }
    return found.isDirectory() ? filesBelow(root, entry, here) : found.isFile() ? [entry] : [];
  });
}

/** Only next to models and next to versions: a version's own files, such as external weights, may have any name. */
const DEEPEST_LEVEL = 2;

/** A folder beside models is a model unless it is hidden or a cache of Python: `walkModels` passes over those too. */
function isHidden(path: string, isFile: boolean): boolean {
  const steps = path.split('/');
  const name = steps.at(-1) ?? '';
  return steps.length <= DEEPEST_LEVEL && (name.startsWith('.') || (!isFile && name === PYTHON_CACHE));
}

/** The page on what was measured, beside a version's model. A host reads the figures themselves, in profile.json. */
const PAGE = /^[^/]+\/[^/]+\/profile\.html$/;

/** Python, prose and held-out samples. */
const FILES_OF_TRAINING = /\.py$|\.md$|^requirements.*\.txt$|^held-out\./;

/** True if a file is plainly for people or for training: only a transform that names it has it deployed. */
export function isForPeople(file: string): boolean {
  const steps = file.split('/');
  return PAGE.test(file) || (steps.length <= DEEPEST_LEVEL && FILES_OF_TRAINING.test(steps.at(-1) ?? ''));
}
