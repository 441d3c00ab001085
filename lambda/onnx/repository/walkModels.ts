import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { highestVersionFirst, isVersion, MODEL_FILE } from '../../core/places.ts';

/** A model's folder in a model repository. Nothing says yet that its files are there. */
export interface ModelFolder {
  readonly name: string;
  readonly folder: string;
  /** The highest first; none where no folder is a version. */
  readonly versions: readonly ModelVersion[];
}

export interface ModelVersion {
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
export function versionsIn(folder: string): ModelVersion[] {
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
