import { stat } from 'node:fs/promises';
import { basename, dirname, resolve } from 'node:path';
import { failure, preview } from '../../core/failure.ts';
import { isVersion, MODEL_FILE } from '../../core/places.ts';
import { type ModelConfig, readModelConfig } from '../config/modelConfig.ts';
import { checkModelFile } from '../config/modelFile.ts';
import { findHighest, type ModelLocation } from './findModels.ts';
import { loadModel, type ModelDefaults, type ModelStart } from './loadModel.ts';
import { refuseStrayDevices } from './refuseStrayDevices.ts';
import type { OnnxModelRepository } from './repository.ts';

/**
 * Opens a repository of the one model at `path`: a model folder with version folders in it, of which the highest is
 * taken, or a `.onnx` file, in a model repository or anywhere. Requests need not name it.
 *
 * @throws Error naming the path when there is no model
 */
export async function openModelAlone(
  path: string,
  options: ModelDefaults & {
    readonly warn: (message: string) => void;
    /** What is to hold in place of config.json. @default as it says */
    readonly adapt?: (config: ModelConfig) => ModelConfig;
    /** Told what the start took. @default nobody is told */
    readonly loaded?: (start: ModelStart) => void;
  },
): Promise<OnnxModelRepository> {
  const location = await locate(path);
  checkModelFile(location.path);
  const stuckRuns = new Set<object>();
  const reports = { warn: options.warn, inform: () => {}, placed: () => {}, stuckRuns, loaded: options.loaded };
  const { adapt = (config) => config } = options;
  const config = adapt(readModelConfig(location.folder));
  refuseStrayDevices(location, config, options);
  const { model, close } = await loadModel(location, config, options, reports);
  return {
    models: [location],
    mostCards: model.cards ?? 1,
    find: (name = model.name, version = model.version) => {
      if (name !== model.name) {
        return failure('UNKNOWN_MODEL', `model_name: expected '${model.name}' or none, got ${preview(name)}`);
      }
      if (version !== model.version) {
        return failure(
          'UNKNOWN_VERSION',
          `model_version: expected "${model.version}" or none, got ${preview(version)}`,
        );
      }
      return model;
    },
    stuckRuns: () => stuckRuns,
    close,
  };
}

/** The model at a path.
 *
 * @throws Error naming the path when there is no model
 */
export async function locate(path: string): Promise<ModelLocation> {
  const absolute = resolve(path);
  const isFolder = await stat(absolute).then(
    (found) => found.isDirectory(),
    () => false,
  );
  return isFolder ? findHighest(dirname(absolute), basename(absolute)) : locateFile(absolute);
}

/** A file that lies as in a model repository has its name, its version and its config.json from the folders. */
function locateFile(path: string): ModelLocation {
  const parent = dirname(path);
  const version = basename(parent);
  if (basename(path) !== MODEL_FILE || !isVersion(version)) {
    return { name: basename(path, '.onnx'), version: '1', path, folder: parent };
  }
  const folder = dirname(parent);
  return { name: basename(folder), version, path, folder };
}
