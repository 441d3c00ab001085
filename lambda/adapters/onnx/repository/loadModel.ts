import { dirname, resolve } from 'node:path';
import { messageOf } from '../../../core/contract/failure.ts';
import { listNames, type Model, type TensorSpec } from '../../../core/contract/model.ts';
import type { Transform } from '../../../core/contract/transform.ts';
import { loadTransform } from '../config/loadTransform.ts';
import type { ModelConfig } from '../config/modelConfig.ts';
import { readCost } from '../config/profile.ts';
import { CURES } from '../session/bakedRows.ts';
import { readContract } from '../session/contract.ts';
import { openWithProviders } from '../session/openWithProviders.ts';
import { warmUp } from '../startup/warmUp.ts';
import type { ModelLocation } from './findModels.ts';
import { toModel } from './toModel.ts';

/** The deployment's settings for every model; a model's config.json comes first. */
export interface ModelDefaults {
  /** Most rows in one run. */
  readonly maxBatchRows: number;
  /** ONNX Runtime execution providers, first choice first, at least one. */
  readonly providers: readonly string[];
  /** Go on with the next provider, with a warning, when one cannot be loaded. */
  readonly allowProviderFallback: boolean;
}

/** What a model tells the repository that it is in. */
export interface ModelReports {
  /** Told what works but not as well as it should. */
  readonly warn: (message: string) => void;
  /** Holds something for every run that was left behind, until it ends. */
  readonly stuckRuns: Set<object>;
}

export interface LoadedModel {
  readonly model: Model;
  close(): Promise<void>;
}

/**
 * Opens a model in a thread of its own, reads its contract and warms up every rung.
 *
 * @throws Error naming the file, and what to do
 */
export async function loadModel(
  location: ModelLocation,
  config: ModelConfig,
  defaults: ModelDefaults,
  { warn, stuckRuns }: ModelReports,
): Promise<LoadedModel> {
  const transform = await transformOf(location, config, warn);
  const session = await openWithProviders(
    {
      path: location.path,
      providers: config.providers ?? defaults.providers,
      sessionOptions: config.sessionOptions ?? {},
    },
    { allowProviderFallback: defaults.allowProviderFallback, warn },
    stuckRuns,
  );
  try {
    const contract = readContract(session.metadata, config);
    const cost = await readCost(dirname(location.path));
    const model = { ...toModel(location, contract, session, config, defaults.maxBatchRows), cost };
    if (contract.bakedRows !== undefined) warn(bakedAxisWarning(location, contract.bakedRows, contract.bakedBy));
    const warm = await warmUp(model, config.warmup ?? true);
    if (warm.bakedRows !== undefined) warn(bakedAxisWarning(location, warm.bakedRows));
    if (warm.problem !== undefined) warn(`${location.path}: ${warm.problem}`);
    await session.warmedUp();
    return { model: { ...warm.model, measured: warm.measured, transform }, close: () => session.close() };
  } catch (cause) {
    await session.close();
    throw new Error(`${location.path}: ${messageOf(cause)}`, { cause });
  }
}

async function transformOf(
  { folder }: ModelLocation,
  { transform }: ModelConfig,
  warn: (message: string) => void,
): Promise<Transform | undefined> {
  return transform === undefined ? undefined : loadTransform(resolve(folder, transform), warn);
}

function bakedAxisWarning({ path }: ModelLocation, rows: number, by: readonly TensorSpec[] = []): string {
  const cure = by.length === 0 ? '' : `; only ${listNames(by)} says so: ${CURES}`;
  return (
    `${path}: the batch axis is baked to ${rows}: every run takes exactly ${rows} rows, padded where they are fewer; ` +
    'export the model with a dynamic batch axis (torch.onnx.export: dynamic_axes or dynamic_shapes with axis 0)' +
    cure
  );
}
