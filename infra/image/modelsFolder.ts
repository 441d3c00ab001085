import { existsSync, readdirSync, realpathSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { messageOf } from '../../lambda/core/failure.ts';
import { CONFIG_FILE, MODEL_FILE, MODEL_LAYOUT } from '../../lambda/core/places.ts';
import { type ModelFolder, walkModels } from '../../lambda/onnx/findModels.ts';
import { readModelConfig } from '../../lambda/onnx/modelConfig.ts';
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
  const { transform, devices, providers = [] } = readModelConfig(folder);
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

/**
 * The files of a model repository that a host needs, without those that only training does, or people read: what an image
 * gets, and what is published. Links are followed.
 *
 * @returns their paths from the folder, with slashes
 * @throws Error naming a link that leads nowhere, or back to a folder that it is in
 */
export function deployedFiles(folder: string): string[] {
  return filesBelow(folder, '', new Set());
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
    if (isForPeople(entry, found?.isFile() === true)) return [];
    if (found === undefined) {
      throw new Error(`${join(root, entry)}: expected a file, got a link to nothing; correct or remove it`);
    }
    return found.isDirectory() ? filesBelow(root, entry, here) : found.isFile() ? [entry] : [];
  });
}

/** The page on what was measured, beside a version's model. A host reads the figures themselves, in profile.json. */
const PAGE = /^[^/]+\/[^/]+\/profile\.html$/;

/** Python, prose and held-out samples: none of them can be imported by a transform. */
const FILES_OF_TRAINING = /\.py$|\.md$|^requirements.*\.txt$|^held-out\./;

/** Only next to models and next to versions: a version's own files, such as external weights, may have any name. */
const DEEPEST_LEVEL = 2;

/** A folder beside models is a model unless it is hidden or a cache of Python: `walkModels` passes over those too. */
function isForPeople(path: string, isFile: boolean): boolean {
  if (PAGE.test(path)) return true;
  const steps = path.split('/');
  if (steps.length > DEEPEST_LEVEL) return false;
  const name = steps.at(-1) ?? '';
  if (name.startsWith('.')) return true;
  return isFile ? FILES_OF_TRAINING.test(name) : name === '__pycache__';
}
