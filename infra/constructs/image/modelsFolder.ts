import { statSync } from 'node:fs';
import { type ModelFolder, walkModels } from '../../../lambda/adapters/onnx/repository/walkModels.ts';
import { messageOf } from '../../../lambda/core/contract/failure.ts';
import { MODEL_FILE, MODEL_LAYOUT } from '../../../lambda/core/contract/modelFolder.ts';
import { type Problem, refuse } from '../base/refuse.ts';

const LAYOUT = `${MODEL_LAYOUT}, such as digits/1/${MODEL_FILE}`;

/**
 * Checks, before it is built into an image, that a folder is a model repository: what a host would refuse at start.
 *
 * @throws Error in one sentence
 */
export function checkModelsFolder(folder: string, defaultModel: string | undefined): void {
  const models = readModels(folder);
  if (models.length === 0) throw new Error(`models: expected ${LAYOUT} in ${folder}, got no model folder, add a model`);
  const names = models.map(({ name }) => name);
  refuse([...models.map(problemOfModel), problemOfDefault(names, defaultModel)]);
}

function readModels(folder: string): ModelFolder[] {
  try {
    return walkModels(folder);
  } catch (cause) {
    throw new Error(`models: ${messageOf(cause)}`, { cause });
  }
}

function problemOfModel({ name, folder, versions }: ModelFolder): Problem {
  if (versions.length === 0) {
    return `models: expected ${LAYOUT}, got ${folder} with no version folder, add ${name}/1/${MODEL_FILE}`;
  }
  const broken = versions.find(({ path }) => !isFilled(path));
  if (broken === undefined) return undefined;
  return `models: expected an ONNX model at ${broken.path}, got no file or an empty one, put the model there`;
}

function isFilled(file: string): boolean {
  const found = statSync(file, { throwIfNoEntry: false });
  return found?.isFile() === true && found.size > 0;
}

function problemOfDefault(names: readonly string[], defaultModel: string | undefined): Problem {
  if (defaultModel === undefined || names.includes(defaultModel)) return undefined;
  return `defaultModel: expected one of the repository's models, ${names.join(', ')}, got '${defaultModel}', name one of them`;
}
