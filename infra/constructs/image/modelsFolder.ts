import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { readModelConfig } from '../../../lambda/adapters/onnx/config/modelConfig.ts';
import { checkModelFile } from '../../../lambda/adapters/onnx/config/modelFile.ts';
import { readCost } from '../../../lambda/adapters/onnx/config/profile.ts';
import { type ModelFolder, walkModels } from '../../../lambda/adapters/onnx/repository/walkModels.ts';
import { messageOf } from '../../../lambda/core/contract/failure.ts';
import { MODEL_FILE, MODEL_LAYOUT } from '../../../lambda/core/contract/modelFolder.ts';
import { type Problem, refuse } from '../base/refuse.ts';

const LAYOUT = `${MODEL_LAYOUT}, such as digits/1/${MODEL_FILE}`;

/**
 * Checks that a folder is a model repository before it is built into an image: opens every file that a host reads at
 * start, other than weights and samples, with the host's own code.
 *
 * @throws Error naming what a host would refuse at start
 */
export function checkModelsFolder(folder: string, defaultModel: string | undefined): void {
  const models = readModels(folder);
  if (models.length === 0) throw new Error(`models: expected ${LAYOUT} in ${folder}, got no model folder; add a model`);
  const names = models.map(({ name }) => name);
  refuse([...models.flatMap(problemsOfModel), problemOfDefault(names, defaultModel)]);
}

function readModels(folder: string): ModelFolder[] {
  try {
    return walkModels(folder);
  } catch (cause) {
    throw new Error(`models: ${messageOf(cause)}`, { cause });
  }
}

function problemsOfModel({ name, folder, versions }: ModelFolder): Problem[] {
  if (versions.length === 0) {
    return [`models: expected ${LAYOUT}, got ${folder} with no version folder; add ${name}/1/${MODEL_FILE}`];
  }
  return [
    problemOf(() => checkConfig(folder)),
    ...versions.map(({ path }) => problemOf(() => checkModelFile(path))),
    ...versions.map(({ path }) => problemOf(() => readCost(dirname(path)))),
  ];
}

function checkConfig(folder: string): void {
  const { transform } = readModelConfig(folder);
  if (transform === undefined || existsSync(join(folder, transform))) return;
  throw new Error(`${join(folder, transform)}: expected the module that config.json names, got none; add it`);
}

/** What a check of files throws, as a problem of the setting. */
function problemOf(check: () => void): Problem {
  try {
    check();
    return undefined;
  } catch (error) {
    return `models: ${messageOf(error)}`;
  }
}

function problemOfDefault(names: readonly string[], defaultModel: string | undefined): Problem {
  if (defaultModel === undefined || names.includes(defaultModel)) return undefined;
  const known = names.join(', ');
  return `defaultModel: expected one of the repository's models, ${known}, got '${defaultModel}'; name one of them`;
}
