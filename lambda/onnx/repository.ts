import { join } from 'node:path';
import { type Failure, failure, isFailure, messageOf, preview } from '../core/failure.ts';
import type { Model, ModelRepository } from '../core/model.ts';
import { CONFIG_FILE } from '../core/places.ts';
import { findModels, locate, type ModelLocation, raise } from './findModels.ts';
import { type LoadedModel, type LoadOptions, loadModel } from './loadModel.ts';
import { type ModelConfig, readModelConfig } from './modelConfig.ts';
import { checkModelFile } from './modelFile.ts';
import { hasDevices, nameOf } from './provider.ts';

export interface RepositoryOptions extends LoadOptions {
  /** Folder with `<name>/<version>/model.onnx`. */
  readonly directory: string;
  /** Model of requests that name none. @default the repository's only model */
  readonly defaultModel?: string | undefined;
  /** True to load every model now. @default false: the default model now, others on their first request */
  readonly preload?: boolean;
  /** Without `preload`: the model to load now. @default the default model */
  readonly first?: string | undefined;
  /** True to warn about broken models and to serve the others. @default false: a broken model is an error */
  readonly leavesOutBroken?: boolean | undefined;
}

export interface OnnxModelRepository extends ModelRepository {
  /** Name and version of every model, the default version of each first. */
  readonly models: readonly ModelLocation[];
  /** Model of requests that name none. Undefined if they must name one. */
  readonly defaultName: string | undefined;
  readonly maxDevices: number;
  /** Ends the threads of the models after the current runs. */
  close(): Promise<void>;
}

/**
 * Opens a model repository with Triton's layout. It checks every file, and loads every model or only the default one.
 *
 * @throws Error naming the folder or file that is missing or broken
 */
export async function openRepository(options: RepositoryOptions): Promise<OnnxModelRepository> {
  const warnOf = (error: unknown): void => options.warn(`not served: ${messageOf(error)}`);
  const leaveOut = options.leavesOutBroken ? warnOf : undefined;
  const locations = findModels(options.directory, leaveOut ?? raise).filter(({ path, folder }) => {
    try {
      checkModelFile(path);
      readModelConfig(folder);
      return true;
    } catch (error) {
      (leaveOut ?? raise)(error);
      return false;
    }
  });
  return openLocations(locations, chooseDefault(locations, options), { ...options, leaveOut });
}

/**
 * Opens a repository of the one model at `path`: a `.onnx` file anywhere, or a model folder with version folders, of
 * which the highest is used. Requests need not name it.
 *
 * @throws Error naming the path if there is no model
 */
export async function openModelAlone(
  path: string,
  options: LoadOptions & {
    /** Changes the settings of config.json. @default unchanged */
    readonly adapt?: (config: ModelConfig) => ModelConfig;
  },
): Promise<OnnxModelRepository> {
  const location = await locate(path);
  checkModelFile(location.path);
  return openLocations([location], location.name, options, options.adapt);
}

async function openLocations(
  found: readonly ModelLocation[],
  defaultName: string | undefined,
  options: LoadOptions &
    Pick<RepositoryOptions, 'preload' | 'first'> & { readonly leaveOut?: ((error: unknown) => void) | undefined },
  adapt = (config: ModelConfig): ModelConfig => config,
): Promise<OnnxModelRepository> {
  const configOf = ({ folder }: ModelLocation): ModelConfig => adapt(readModelConfig(folder));
  const configs = found.map((location) => {
    const config = configOf(location);
    refuseStrayDevices(location, config, options);
    return config;
  });
  let locations = found;
  /** Serves the other models. A reload tries this one again. */
  const leaveOut = (location: ModelLocation, error: unknown): void => {
    (options.leaveOut ?? raise)(error);
    locations = locations.filter((one) => one !== location);
  };
  const loading = new Map<ModelLocation, Promise<LoadedModel>>();
  /** Loaded models by the name and version in requests, so that nearly every request finds its model synchronously. */
  const loaded = new Map<string | undefined, Map<string | undefined, Model>>();
  const load = (location: ModelLocation): Promise<LoadedModel> => {
    const known = loading.get(location);
    if (known !== undefined) return known;
    const started = (async () => {
      const end = options.opens?.(location.name);
      try {
        return await loadModel(location, configOf(location), options);
      } finally {
        end?.();
      }
    })();
    loading.set(location, started);
    // The next request retries a failed load.
    started.catch(() => loading.delete(location));
    return started;
  };

  const servedDefault = (): string | undefined =>
    locations.some(({ name }) => name === defaultName) ? defaultName : undefined;
  const findAndLoad = async (name: string | undefined, version: string | undefined): Promise<Model | Failure> => {
    const location = findLocation(locations, name ?? servedDefault(), version);
    if (isFailure(location)) return location;
    try {
      const { model } = await load(location);
      const ofName = loaded.get(name) ?? new Map<string | undefined, Model>();
      loaded.set(name, ofName.set(version, model));
      return model;
    } catch (error) {
      if (options.leaveOut !== undefined) {
        leaveOut(location, error);
        return findAndLoad(name, version);
      }
      options.warn(messageOf(error));
      return failure('MODEL_UNAVAILABLE', messageOf(error), { of: `model '${location.name}'`, kind: 'refused' });
    }
  };

  const eager = locations.find(({ name }) => name === (options.first ?? defaultName));
  // Sequential, because each load measures its runs and has limited time for its checks.
  for (const location of options.preload ? locations : [eager]) {
    if (location !== undefined) await load(location).catch((error) => leaveOut(location, error));
  }
  if (locations.length === 0) {
    throw new Error('model repository: expected a model that can be served, got none; correct one of them');
  }

  return {
    models: locations,
    defaultName,
    maxDevices: Math.max(...configs.map(({ devices }) => devices?.length ?? 1)),
    find: (name, version) => loaded.get(name)?.get(version) ?? findAndLoad(name, version),
    close: async () => {
      for (const load of await Promise.allSettled(loading.values())) {
        if (load.status === 'fulfilled') await load.value.close();
      }
    },
  };
}

function chooseDefault(locations: readonly ModelLocation[], options: RepositoryOptions): string | undefined {
  const names = namesOf(locations);
  if (options.defaultModel === undefined) return names.length === 1 ? names[0] : undefined;
  if (names.includes(options.defaultModel)) return options.defaultModel;
  throw new Error(
    `default model: expected one of ${names.join(', ')} in ${options.directory}, got '${options.defaultModel}'; name one of them`,
  );
}

function findLocation(
  locations: readonly ModelLocation[],
  name: string | undefined,
  version: string | undefined,
): ModelLocation | Failure {
  const names = namesOf(locations).join(', ');
  if (name === undefined) {
    return failure(
      'UNKNOWN_MODEL',
      `model_name: expected one of ${names}, got none; name one, because there is no default model`,
    );
  }
  const versions = locations.filter((location) => location.name === name);
  const [highest] = versions;
  if (highest === undefined) {
    return failure('UNKNOWN_MODEL', `model_name: expected one of ${names}, got ${preview(name)}; name one of them`);
  }
  const wanted = version === undefined ? highest : versions.find((location) => location.version === version);
  if (wanted !== undefined) return wanted;
  const known = versions.map((location) => `"${location.version}"`).join(', ');
  return failure(
    'UNKNOWN_VERSION',
    `model_version: expected ${known} of model '${name}', got ${preview(version)}; name one of them`,
  );
}

function namesOf(locations: readonly ModelLocation[]): string[] {
  return [...new Set(locations.map(({ name }) => name))];
}

/**
 * Refuses devices for a provider that has none.
 *
 * @throws Error naming the file and the solution
 */
function refuseStrayDevices(
  { folder }: Pick<ModelLocation, 'folder'>,
  { devices, providers }: ModelConfig,
  { takesDevices = hasDevices, providers: defaults }: LoadOptions,
): void {
  const [first = 'cpu'] = providers ?? defaults;
  if (devices === undefined || takesDevices(first)) return;
  throw new Error(
    `${join(folder, CONFIG_FILE)}: devices: expected a provider with devices first (cuda, tensorrt), got ` +
      `${nameOf(first)}; choose one as "providers", or remove "devices"`,
  );
}
