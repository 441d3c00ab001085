import { type Dirent, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { type Problem, refuse } from '../base/refuse.ts';

const VERSION = /^[1-9]\d*$/;
const LAYOUT = '<name>/<version>/model.onnx, such as digits/1/model.onnx';

/**
 * Checks that a folder is a model repository before it is built into an image.
 *
 * @throws Error naming what a host would refuse at start
 */
export function checkModelsFolder(folder: string, defaultModel: string | undefined): void {
  const names = subfolders(folder);
  if (names.length === 0) throw new Error(`models: expected ${LAYOUT} in ${folder}, got no model folder; add a model`);
  refuse([...names.map((name) => problemOfModel(folder, name)), problemOfDefault(names, defaultModel)]);
}

function subfolders(folder: string): string[] {
  try {
    return readdirSync(folder, { withFileTypes: true })
      .filter(isVisibleFolder)
      .map(({ name }) => name)
      .toSorted();
  } catch {
    throw new Error(`models: expected a folder with ${LAYOUT}, got ${folder}, which cannot be read; check the path`);
  }
}

/** A link counts, because it may lead to a folder. */
function isVisibleFolder(entry: Dirent): boolean {
  return !entry.isFile() && !entry.name.startsWith('.');
}

function problemOfModel(folder: string, name: string): Problem {
  const versions = subfolders(join(folder, name)).filter((version) => VERSION.test(version));
  if (versions.length === 0) {
    return `models: expected ${LAYOUT}, got ${join(folder, name)} with no version folder; add ${name}/1/model.onnx`;
  }
  const broken = versions.map((version) => join(folder, name, version, 'model.onnx')).find((file) => !isFilled(file));
  if (broken === undefined) return undefined;
  return `models: expected an ONNX model at ${broken}, got no file or an empty one; put the model there`;
}

function isFilled(file: string): boolean {
  const found = statSync(file, { throwIfNoEntry: false });
  return found?.isFile() === true && found.size > 0;
}

function problemOfDefault(names: readonly string[], defaultModel: string | undefined): Problem {
  if (defaultModel === undefined || names.includes(defaultModel)) return undefined;
  const known = names.join(', ');
  return `defaultModel: expected one of the repository's models, ${known}, got '${defaultModel}'; name one of them`;
}
