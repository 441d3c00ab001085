import { readdirSync, realpathSync, statSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { highestVersionFirst, isVersion, MODEL_FILE, MODEL_LAYOUT } from '../core/places.ts';

export interface ModelLocation {
  readonly name: string;
  readonly version: string;
  readonly path: string;
  readonly folder: string;
}

/**
 * Returns all versions in the repository by name, the highest version of each model first.
 *
 * @param leaveOut takes the error of a model without a version folder. @default it is thrown
 * @throws Error if there is no model
 */
export function findModels(directory: string, leaveOut: (error: unknown) => void = raise): ModelLocation[] {
  const locations = walkModels(directory).flatMap((folder) => {
    try {
      return locationsOf(folder);
    } catch (error) {
      leaveOut(error);
      return [];
    }
  });
  if (locations.length === 0) {
    throw new Error(`${directory}: expected ${MODEL_LAYOUT} in the model repository, got no model folder; add a model`);
  }
  return locations;
}

export function raise(error: unknown): never {
  throw error;
}

/**
 * Returns the highest version of one model.
 *
 * @throws Error if it has no version folder
 */
function findHighest(directory: string, name: string): ModelLocation {
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

/** Folder of a model in a repository. Its files may be missing. */
export interface ModelFolder {
  readonly name: string;
  readonly folder: string;
  /** Versions, the highest first. Empty if no folder is a version. */
  readonly versions: readonly ModelVersion[];
}

interface ModelVersion {
  readonly version: string;
  /** Expected path of its model file. */
  readonly path: string;
}

/** Cache that Python writes beside imported scripts. */
const PYTHON_CACHE = '__pycache__';

/**
 * Returns the model folders of a repository by name, without hidden folders and Python caches.
 *
 * @throws Error naming the folder that cannot be read
 */
export function walkModels(directory: string): ModelFolder[] {
  return subfolders(directory).map((name) => {
    const folder = join(directory, name);
    return { name, folder, versions: versionsIn(folder) };
  });
}

/** @throws Error naming the folder if it cannot be read */
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
 * Finds the model at a path.
 *
 * @throws Error naming the path if there is no model
 */
export async function locate(path: string): Promise<ModelLocation> {
  const absolute = resolve(path);
  const isFolder = await stat(absolute).then(
    (found) => found.isDirectory(),
    () => false,
  );
  return isFolder ? findHighest(dirname(absolute), basename(absolute)) : locateFile(absolute);
}

/** Returns the location of a file. Inside a model repository, the folders tell its name, version and config.json. */
function locateFile(path: string): ModelLocation {
  const parent = dirname(path);
  const version = basename(parent);
  if (basename(path) !== MODEL_FILE || !isVersion(version)) {
    return { name: basename(path, '.onnx'), version: '1', path, folder: parent };
  }
  const folder = dirname(parent);
  return { name: basename(folder), version, path, folder };
}

/**
 * Returns the files of a model repository that a host may need: all except hidden ones. Links are followed.
 *
 * @param below folder to restrict the result to
 * @returns paths relative to the repository, with slashes
 * @throws Error naming a link that is broken, or leads back to a folder above it
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

/** Hidden files count only beside models and versions: a version's own files, such as weights, may have any name. */
const DEEPEST_LEVEL = 2;

/** Returns true if `walkModels` skips the path. */
function isHidden(path: string, isFile: boolean): boolean {
  const steps = path.split('/');
  const name = steps.at(-1) ?? '';
  return steps.length <= DEEPEST_LEVEL && (name.startsWith('.') || (!isFile && name === PYTHON_CACHE));
}

/** Matches the page of a profile beside a version's model. A host reads only profile.json. */
const PAGE = /^[^/]+\/[^/]+\/profile\.html$/;

/** Matches Python, prose and held-out samples. */
const FILES_OF_TRAINING = /\.py$|\.md$|^requirements.*\.txt$|^held-out\./;

/** Returns true if a file is for people or training. It is deployed only if a transform imports it. */
export function isForPeople(file: string): boolean {
  const steps = file.split('/');
  return PAGE.test(file) || (steps.length <= DEEPEST_LEVEL && FILES_OF_TRAINING.test(steps.at(-1) ?? ''));
}
