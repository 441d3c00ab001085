import { cpSync, statSync } from 'node:fs';
import { basename, relative, sep } from 'node:path';
import { walkModels } from '../../lambda/adapters/onnx/repository/walkModels.ts';
import { MODEL_LAYOUT } from '../../lambda/core/contract/modelFolder.ts';

/**
 * Copies a model repository without the files that only training needs.
 *
 * @throws Error when it holds no model
 */
export function copyModels(from: string, to: string): void {
  if (!holdsModel(from)) {
    throw new Error(
      `${from}: expected a model repository with ${MODEL_LAYOUT}, such as digits/1/model.onnx, got none; ` +
        'add a model, or check the path',
    );
  }
  cpSync(from, to, {
    recursive: true,
    dereference: true,
    filter: (file) => !isOfTraining(file, relative(from, file)),
  });
}

function holdsModel(directory: string): boolean {
  return walkModels(directory).some(({ versions }) => versions.some(({ path }) => isFile(path)));
}

function isFile(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isFile() === true;
}

/** Python, prose and held-out samples: none of them can be imported by a transform. */
const FILES_OF_TRAINING = /\.py$|\.md$|^requirements.*\.txt$|^held-out\./;

/** Only next to models and next to versions: a version's own files, such as external weights, may have any name. */
const DEEPEST_LEVEL = 2;

/** A folder beside models is a model, whatever its name, unless it is hidden: `walkModels` passes over those too. */
function isOfTraining(file: string, path: string): boolean {
  const level = path.split(sep).length;
  if (level > DEEPEST_LEVEL) return false;
  const name = basename(path);
  if (name.startsWith('.')) return true;
  return isFile(file) ? FILES_OF_TRAINING.test(name) : level === DEEPEST_LEVEL && name === '__pycache__';
}
