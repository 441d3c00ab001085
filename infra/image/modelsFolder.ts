import { existsSync, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { messageOf } from '../../lambda/core/failure.ts';
import { CONFIG_FILE, MODEL_FILE, MODEL_LAYOUT } from '../../lambda/core/places.ts';
import { type ModelFolder, walkModels } from '../../lambda/onnx/findModels.ts';
import { NO_TOKENIZERS, readModelConfig, tokenizerPath, transformPath } from '../../lambda/onnx/modelConfig.ts';
import { checkModelFile, externalFilesOf, localesOf } from '../../lambda/onnx/modelFile.ts';
import type { Problem } from '../common/problems.ts';
import { findPackage } from './gatherModels.ts';
import { hasGpu, type ImageStage } from './stageImage.ts';

const LAYOUT = `${MODEL_LAYOUT}, such as digits/1/${MODEL_FILE}`;

/**
 * Checks a model repository before it is built into an image. Opens the files that a host reads at start, without
 * weights and samples, with the host's own code.
 *
 * @param devices number of devices of a host. Undefined if unknown
 * @throws Error naming a file that a host would refuse at start
 */
export function checkModelsFolder(
  folder: string,
  defaultModel: string | undefined,
  devices = Number.POSITIVE_INFINITY,
): void {
  const models = readModels(resolve(folder));
  if (models.length === 0) throw new Error(`models: expected ${LAYOUT} in ${folder}, got no model folder; add a model`);
  const names = models.map(({ name }) => name);
  const problems = [
    ...models.flatMap((model) => problemsOfModel(model, devices)),
    defaultModel !== undefined &&
      !names.includes(defaultModel) &&
      `defaultModel: expected one of the repository's models, ${names.join(', ')}, got '${defaultModel}'; name one of them`,
  ];
  const found = problems.filter((problem) => typeof problem === 'string');
  if (found.length > 0) throw new Error(found.join('; '));
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
    if (/^\d+$/.test(name) && existsSync(join(folder, MODEL_FILE))) {
      const model = dirname(folder);
      return [`models: expected ${LAYOUT}, got the folder of one model, ${model}; give its parent, ${dirname(model)}`];
    }
    return [`models: expected ${LAYOUT}, got ${folder} with no version folder; add ${name}/1/${MODEL_FILE}`];
  }
  return [
    problemOf(() => checkConfig(folder, devices)),
    ...versions.map(({ path }) => problemOf(() => checkModel(path))),
  ];
}

/** Locales of the images. glibc ignores case only in the encoding. */
const LOCALES = /^(C|POSIX|(C|en_US)\.[Uu][Tt][Ff]-?8)$/;

function checkModel(path: string): void {
  checkModelFile(path);
  const other = localesOf(path).find((locale) => !LOCALES.test(locale));
  if (other === undefined) return;
  throw new Error(
    `${path}: expected a StringNormalizer with a locale that images have (C.UTF-8, en_US.UTF-8), got '${other}'; set ` +
      'locale="C.UTF-8" in the graph',
  );
}

function checkConfig(folder: string, deviceCount: number): void {
  const config = readModelConfig(folder);
  transformPath(folder, config);
  if (tokenizerPath(folder, config) !== undefined && findPackage('tokenizers', import.meta.url) === undefined) {
    throw new Error(`${join(folder, CONFIG_FILE)}: ${NO_TOKENIZERS}`);
  }
  const { devices, providers = [] } = config;
  const chosen = devices ?? providers.flatMap(({ deviceId }) => deviceId ?? []);
  if (chosen.some((device) => device >= deviceCount)) {
    const [expected, cure] =
      deviceCount === 0
        ? ['no devices, because this compute has none', 'remove them, or take lambdaGpuCompute() or ecsGpuCompute()']
        : [
            `devices 0 to ${deviceCount - 1}, as many as a host has`,
            'name those; gpuCount of ecsGpuCompute() gives a host more',
          ];
    throw new Error(`${join(folder, CONFIG_FILE)}: expected ${expected}, got ${chosen.join(', ')}; ${cure}`);
  }
}

/** Memory and disk for models and their image, in MiB, by the setting that determines them. */
export interface Room {
  readonly memoryMb?: number | undefined;
  readonly jobsMemoryMb?: number | undefined;
  /** Disk that also contains the image, such as that of a Fargate task. */
  readonly ephemeralStorageMb?: number | undefined;
}

/**
 * Maximum MiB of a function's unpacked image.
 * @see https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html
 */
const FUNCTION_IMAGE_MB = 10_240;
/** Minimum MiB of an image without models: base, Node and ONNX Runtime, and with a GPU the CUDA libraries. */
const IMAGE_MB = { cpu: 300, gpu: 2_500 };
/** MiB of memory that Node and ONNX Runtime use before a model is open. */
const HOST_MB = 150;
const MIB = 1024 * 1024;

/**
 * Compares the sizes of models with memory and disk. A host opens all models, or at least one if they are not
 * preloaded.
 *
 * @returns a problem for each sum that does not fit, with the setting to raise
 */
export function weightProblems(
  folder: string,
  { stage, preload = true, ...room }: Room & { readonly stage: ImageStage; readonly preload?: boolean | undefined },
): Problem[] {
  const models = walkModels(folder).flatMap(({ name, versions }) =>
    versions.map(({ version, path }) => ({ name: `${name}/${version}`, mb: megabytesOf(path) })),
  );
  const largest = models.toSorted((a, b) => b.mb - a.mb).slice(0, 1);
  const imageMb = hasGpu(stage) ? IMAGE_MB.gpu : IMAGE_MB.cpu;
  const ofFunction = stage.startsWith('lambda') ? FUNCTION_IMAGE_MB : undefined;
  const { memoryMb, jobsMemoryMb, ephemeralStorageMb } = room;
  const opened = preload ? models : largest;
  const others = preload && models.length > 1 ? ', set preload to false' : '';
  const publish = 'publish the models with batchscore publish';
  return [
    tooHeavy(models, imageMb, ofFunction, 'for the image of a function, unpacked', publish),
    tooHeavy(models, imageMb, ephemeralStorageMb, 'as ephemeralStorageSize, which holds the image'),
    tooHeavy(opened, HOST_MB, memoryMb, 'as memorySize', `raise it${others}`),
    tooHeavy(opened, HOST_MB, jobsMemoryMb, 'as jobs.memorySize', `raise it${others}`),
  ];
}

/** @param limitMb undefined if there is none */
function tooHeavy(
  models: readonly { readonly name: string; readonly mb: number }[],
  besidesMb: number,
  limitMb: number | undefined,
  place: string,
  cure = 'raise it',
): Problem {
  const neededMb = Math.ceil(models.reduce((sum, { mb }) => sum + mb, besidesMb));
  const terms = models.map(({ name, mb }) => `${Math.ceil(mb)} of ${name}`).join(' + ');
  return (
    limitMb !== undefined &&
    neededMb > limitMb &&
    `models: expected at most the ${limitMb} MiB that there are ${place}, got ${neededMb}: ${terms} + ${besidesMb} of the ` +
      `runtime; ${cure}`
  );
}

function megabytesOf(path: string): number {
  return [path, ...externalFilesOf(path)].reduce((sum, file) => sum + statSync(file).size, 0) / MIB;
}

/** Returns the error of a check as a problem. System errors are rethrown. */
function problemOf(check: () => void): Problem {
  try {
    check();
    return undefined;
  } catch (error) {
    if (error instanceof Error && 'errno' in error) throw error;
    return `models: ${messageOf(error)}`;
  }
}
