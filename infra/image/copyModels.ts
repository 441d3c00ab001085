import { copyFileSync, mkdirSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { MODEL_LAYOUT } from '../../lambda/core/places.ts';

import { walkModels } from '../../lambda/onnx/findModels.ts';
import { deployedFiles } from './deployedFiles.ts';

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
  for (const file of deployedFiles(from)) {
    mkdirSync(dirname(join(to, file)), { recursive: true });
    copyFileSync(join(from, file), join(to, file));
  }
}

function holdsModel(directory: string): boolean {
  return walkModels(directory).some(({ versions }) => versions.some(({ path }) => isFile(path)));
}

function isFile(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isFile() === true;
}
