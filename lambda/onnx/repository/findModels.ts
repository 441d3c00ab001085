import { join } from 'node:path';
import { MODEL_FILE, MODEL_LAYOUT } from '../../core/places.ts';
import { type ModelFolder, versionsIn, walkModels } from './walkModels.ts';

/** One version of a model. */
export interface ModelLocation {
  readonly name: string;
  readonly version: string;
  /** The model file. */
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
  throw new Error(
    `${folder}: expected a version folder such as 1/ with ${MODEL_FILE} in it, got none; put the model in one`,
  );
}
