import { join } from 'node:path';
import { messageOf } from '../../lambda/core/failure.ts';
import { CONFIG_FILE, MODEL_FILE, MODEL_LAYOUT } from '../../lambda/core/places.ts';
import { type ModelFolder, walkModels } from '../../lambda/onnx/findModels.ts';
import { readModelConfig, transformPath } from '../../lambda/onnx/modelConfig.ts';
import { checkModelFile } from '../../lambda/onnx/modelFile.ts';

import { type Problem, refuse } from '../constructs/problems.ts';

const LAYOUT = `${MODEL_LAYOUT}, such as digits/1/${MODEL_FILE}`;

/**
 * Checks that a folder is a model repository before it is built into an image: opens every file that a host reads at
 * start, other than weights and samples, with the host's own code.
 *
 * @param devices that a host has. @default any number: it is not known yet
 * @throws Error naming what a host would refuse at start
 */
export function checkModelsFolder(
  folder: string,
  defaultModel: string | undefined,
  devices = Number.POSITIVE_INFINITY,
): void {
  const models = readModels(folder);
  if (models.length === 0) throw new Error(`models: expected ${LAYOUT} in ${folder}, got no model folder; add a model`);
  const names = models.map(({ name }) => name);
  refuse([...models.flatMap((model) => problemsOfModel(model, devices)), problemOfDefault(names, defaultModel)]);
}

function readModels(folder: string): ModelFolder[] {
  try {
    return walkModels(folder);
  } catch (cause) {
    throw new Error(`models: ${messageOf(cause)}`, { cause });
  }
}

function problemsOfModel({ name, folder, versions }: ModelFolder, devices: number): Problem[] {
  if (versions.length === 0) {
    return [`models: expected ${LAYOUT}, got ${folder} with no version folder; add ${name}/1/${MODEL_FILE}`];
  }
  return [
    problemOf(() => checkConfig(folder, devices)),
    ...versions.map(({ path }) => problemOf(() => checkModelFile(path))),
  ];
}

function checkConfig(folder: string, deviceCount: number): void {
  const config = readModelConfig(folder);
  transformPath(folder, config);
  const { devices, providers = [] } = config;
  const chosen = devices ?? providers.flatMap(({ deviceId }) => deviceId ?? []);
  if (chosen.some((device) => device >= deviceCount)) {
    const [expected, cure] =
      deviceCount === 0
        ? ['no devices, because this compute has none', 'remove them, or deploy with compute=lambda-gpu or ecs-gpu']
        : [
            `devices 0 to ${deviceCount - 1}, as many as a host has`,
            'name those; with compute=ecs-gpu gpuCount gives a host more',
          ];
    throw new Error(`${join(folder, CONFIG_FILE)}: expected ${expected}, got ${chosen.join(', ')}; ${cure}`);
  }
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
