import { resolve } from 'node:path';
import { DATATYPES } from '../../core/datatype.ts';
import { messageOf } from '../../core/failure.ts';
import type { Model, RunResult, TensorSpec } from '../../core/model.ts';
import type { Tensor } from '../../core/tensor.ts';
import type { Transform } from '../../core/transform.ts';
import { type ModelContract, readContract } from './contract.ts';
import { loadTransform } from './loadTransform.ts';
import type { ModelConfig } from './modelConfig.ts';
import { openSession, type Session } from './session.ts';
import { warmUp } from './warmUp.ts';

/** What the deployment says of every model; a model's config.json comes first. */
export interface ModelDefaults {
  readonly maxBatchRows: number;
  readonly providers: readonly string[];
  /** Go on with the next provider, loudly, when one cannot be loaded. */
  readonly allowProviderFallback: boolean;
}

export interface ModelLocation {
  readonly name: string;
  readonly version: string;
  /** The model file. */
  readonly path: string;
  /** Where config.json and the transform it names lie. */
  readonly folder: string;
}

export interface LoadedModel {
  readonly model: Model;
  close(): Promise<void>;
}

/**
 * Opens a model in a thread of its own, reads its contract and warms up every rung.
 *
 * @param warn told what works but not as well as it should
 * @throws Error naming the file, and what to do
 */
export async function loadModel(
  location: ModelLocation,
  config: ModelConfig,
  defaults: ModelDefaults,
  warn: (message: string) => void,
): Promise<LoadedModel> {
  const transform = await transformOf(location, config);
  const session = await openWithProviders(location, config, defaults, warn);
  try {
    const contract = readContract(session.metadata);
    const model = toModel(location, contract, session, config, defaults);
    if (contract.bakedRows !== undefined) warn(bakedAxisWarning(location, contract.bakedRows));
    const works = await warmUp(model, config.warmup ?? true);
    if (works.bakedRows !== undefined) warn(bakedAxisWarning(location, works.bakedRows));
    if (works.problem !== undefined) warn(`${location.path}: ${works.problem}`);
    return { model: { ...works.model, transform }, close: () => session.close() };
  } catch (cause) {
    await session.close();
    throw new Error(`${location.path}: ${messageOf(cause)}`, { cause });
  }
}

async function transformOf({ folder }: ModelLocation, { transform }: ModelConfig): Promise<Transform | undefined> {
  return transform === undefined ? undefined : loadTransform(resolve(folder, transform));
}

async function openWithProviders(
  { path }: Pick<ModelLocation, 'path'>,
  config: ModelConfig,
  defaults: ModelDefaults,
  warn: (message: string) => void,
): Promise<Session> {
  const wanted = config.providers ?? defaults.providers;
  const sessionOptions = config.sessionOptions ?? {};
  try {
    return await openSession({ path, providers: wanted, sessionOptions });
  } catch (cause) {
    const [first, ...rest] = wanted;
    if (!isProviderFailure(cause)) throw new Error(`${path}: cannot be loaded: ${messageOf(cause)}`, { cause });
    const reason =
      `execution provider '${first}' is not available (${messageOf(cause)}); for cuda, libonnxruntime_providers_shared.so ` +
      'and libonnxruntime_providers_cuda.so must lie beside the binding of onnxruntime-node, and CUDA and cuDNN on the library path';
    if (!defaults.allowProviderFallback || rest.length === 0) {
      throw new Error(`${path}: ${reason}; or choose another provider, or allow falling back to the next`, { cause });
    }
    warn(`${path}: ${reason}; falling back to ${rest.join(', ')} as configured`);
    return openWithProviders({ path }, { ...config, providers: rest }, defaults, warn);
  }
}

/** ONNX Runtime gives such failures no code: all name the function that appends a provider. */
function isProviderFailure(error: unknown): boolean {
  return messageOf(error).includes('AppendExecutionProvider');
}

function toModel(
  { name, version }: ModelLocation,
  contract: ModelContract,
  session: Session,
  config: ModelConfig,
  defaults: ModelDefaults,
): Model {
  const { inputs, outputs, bakedRows } = contract;
  const maxBatchRows = bakedRows ?? config.maxBatchRows ?? defaults.maxBatchRows;
  const ladder = (bakedRows === undefined ? (config.ladder ?? []) : [bakedRows]).toSorted((a, b) => a - b);
  if ((ladder[0] ?? 0) > maxBatchRows) {
    throw new Error(
      `expected a ladder with a rung of at most maxBatchRows ${maxBatchRows}, got [${ladder.join(', ')}]`,
    );
  }
  return {
    name,
    version,
    inputs,
    outputs,
    maxBatchRows,
    ladder,
    run: (tensors) => runInSession(session, outputs, tensors),
  };
}

async function runInSession(
  session: Session,
  specs: readonly TensorSpec[],
  tensors: readonly Tensor[],
): Promise<RunResult> {
  const inputs = tensors.map(({ name, datatype, shape, data }) => ({
    name,
    onnxType: DATATYPES[datatype].onnxType,
    shape,
    data,
  }));
  const { outputs, runMs } = await session.run({ inputs });
  if (outputs.length !== specs.length) {
    throw new Error(`expected ${specs.length} outputs from ONNX Runtime, got ${outputs.length}`);
  }
  return { outputs: specs.map((spec, index) => ({ ...spec, ...(outputs[index] as (typeof outputs)[number]) })), runMs };
}

function bakedAxisWarning({ path }: ModelLocation, rows: number): string {
  return (
    `${path}: the batch axis is baked to ${rows}: every run takes exactly ${rows}, padded where there are fewer; ` +
    'export the model with a dynamic batch axis (torch.onnx.export: dynamic_axes or dynamic_shapes with axis 0)'
  );
}
