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
    filter: (file) => !isOfTraining(relative(from, file)),
  });
}

function holdsModel(directory: string): boolean {
  return walkModels(directory).some(({ versions }) => versions.some(({ path }) => isFile(path)));
}

function isFile(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isFile() === true;
}

/** Python, prose, held-out samples and hidden files: none of them can be imported by a transform. */
const OF_TRAINING = /^\.|^__pycache__$|\.py$|\.md$|^requirements.*\.txt$|^held-out\./;

/** Only next to models and next to versions: a version's own files, such as external weights, may have any name. */
const DEEPEST_LEVEL = 2;

function isOfTraining(path: string): boolean {
  return path.split(sep).length <= DEEPEST_LEVEL && OF_TRAINING.test(basename(path));
}
