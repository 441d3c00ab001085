import { dirname, resolve } from 'node:path';
import { messageOf } from '../../../core/contract/failure.ts';
import { type Model, OutOfMemoryError, type RunResult, type TensorSpec } from '../../../core/contract/model.ts';
import type { Transform } from '../../../core/contract/transform.ts';
import { DATATYPES } from '../../../core/tensor/datatype.ts';
import type { Tensor } from '../../../core/tensor/tensor.ts';
import { loadTransform } from '../config/loadTransform.ts';
import type { ModelConfig } from '../config/modelConfig.ts';
import { readCost } from '../config/profile.ts';
import { readRagged } from '../config/ragged.ts';
import { type BufferPool, createBufferPool } from '../session/bufferPool.ts';
import { type ModelContract, readContract } from '../session/contract.ts';
import {
  openSession,
  type RunReply,
  type Session,
  type SessionSpec,
  UnknownProviderError,
} from '../session/session.ts';
import { warmUp } from '../startup/warmUp.ts';
import type { ModelLocation } from './findModels.ts';

/** What the deployment says of every model; a model's config.json comes first. */
export interface ModelDefaults {
  readonly maxBatchRows: number;
  readonly providers: readonly string[];
  /** Go on with the next provider, loudly, when one cannot be loaded. */
  readonly allowProviderFallback: boolean;
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
    const cost = await readCost(dirname(location.path));
    const model = { ...toModel(location, contract, session, config, defaults), cost };
    if (contract.bakedRows !== undefined) warn(bakedAxisWarning(location, contract.bakedRows));
    const works = await warmUp(model, config.warmup ?? true);
    if (works.bakedRows !== undefined) warn(bakedAxisWarning(location, works.bakedRows));
    if (works.problem !== undefined) warn(`${location.path}: ${works.problem}`);
    await session.warmedUp();
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
  location: ModelLocation,
  config: ModelConfig,
  defaults: ModelDefaults,
  warn: (message: string) => void,
): Promise<Session> {
  const { path } = location;
  const [first, ...rest] = config.providers ?? defaults.providers;
  const spec = { path, providers: [first ?? 'cpu', ...rest], sessionOptions: config.sessionOptions ?? {} };
  try {
    return await openSession(spec);
  } catch (cause) {
    if (cause instanceof UnknownProviderError) throw new Error(`${path}: ${cause.message}`, { cause });
    if (first === 'cpu' || !(await opensOnCpu(spec))) {
      throw new Error(`${path}: cannot be loaded: ${explain(messageOf(cause))}`, { cause });
    }
    const reason = `execution provider '${first}' is not available (${messageOf(cause)}); ${PROVIDER_HINT}`;
    if (!defaults.allowProviderFallback || rest.length === 0) {
      throw new Error(`${path}: ${reason}; or choose another provider, or allow falling back to the next`, { cause });
    }
    warn(`${path}: ${reason}; falling back to ${rest.join(', ')} as configured`);
    return openWithProviders(location, { ...config, providers: rest }, defaults, warn);
  }
}

const PROVIDER_HINT =
  'for cuda, libonnxruntime_providers_shared.so and libonnxruntime_providers_cuda.so must lie beside the binding of ' +
  "onnxruntime-node, CUDA and cuDNN on the library path, and the driver's libcuda.so.1 on the machine";

/** Whether the model itself is sound: ONNX Runtime's errors do not tell a provider's failure from a model's. */
async function opensOnCpu(spec: SessionSpec): Promise<boolean> {
  try {
    const session = await openSession({ ...spec, providers: ['cpu'] });
    await session.close();
    return true;
  } catch {
    return false;
  }
}

/** Element types that ONNX Runtime for Node cannot carry, by number. @see onnx.proto, TensorProto.DataType */
const TYPES_NOT_CARRIED: Readonly<Record<string, string>> = {
  14: 'complex64',
  15: 'complex128',
  16: 'bfloat16',
  17: 'float8e4m3fn',
  18: 'float8e4m3fnuz',
  19: 'float8e5m2',
  20: 'float8e5m2fnuz',
  21: 'uint4',
  22: 'int4',
  23: 'float4e2m1',
};

/** What is wrong, in words: ONNX Runtime says `Unsupported data type: 16`. */
function explain(message: string): string {
  if (message.includes("package 'onnxruntime-node'"))
    return `${message}; npm install onnxruntime-node --onnxruntime-node-install=skip (for CPU)`;
  return message.replace(/(Unsupported data type: )(\d+)/, (whole, text: string, number: string) => {
    const name = TYPES_NOT_CARRIED[number];
    return name === undefined ? whole : `${text}${name}, which ONNX Runtime for Node cannot carry; export another type`;
  });
}

function toModel(
  { name, version }: ModelLocation,
  contract: ModelContract,
  session: Session,
  config: ModelConfig,
  defaults: ModelDefaults,
): Model {
  const { inputs, outputs, bakedRows } = contract;
  const pool = createBufferPool();
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
    ragged: config.ragged === undefined ? undefined : readRagged(config.ragged, contract),
    allocate: pool.allocate,
    run: (tensors) => runInSession(session, outputs, tensors, pool),
  };
}

async function runInSession(
  session: Session,
  specs: readonly TensorSpec[],
  tensors: readonly Tensor[],
  pool: BufferPool,
): Promise<RunResult> {
  const inputs = tensors.map(({ name, datatype, shape, data }) => ({
    name,
    onnxType: DATATYPES[datatype].onnxType,
    shape,
    data,
  }));
  const { outputs, runMs, inputs: memory } = await orOutOfMemory(session.run({ inputs }));
  pool.giveBack(memory.filter((buffer) => outputs.every(({ data }) => Array.isArray(data) || data.buffer !== buffer)));
  if (outputs.length !== specs.length) {
    throw new Error(`expected ${specs.length} outputs from ONNX Runtime, got ${outputs.length}`);
  }
  return { outputs: specs.map((spec, index) => toOutput(spec, outputs[index] as (typeof outputs)[number])), runMs };
}

/** What ONNX Runtime, its arenas and CUDA say when an allocation fails. */
const OUT_OF_MEMORY =
  /bad_alloc|out of memory|failed to allocate memory|available memory of \d+ is smaller than requested|_ALLOC_FAILED/i;

async function orOutOfMemory(running: Promise<RunReply>): Promise<RunReply> {
  try {
    return await running;
  } catch (error) {
    if (!OUT_OF_MEMORY.test(messageOf(error))) throw error;
    throw new OutOfMemoryError(`the run needed more memory than there is: ${messageOf(error)}`, { cause: error });
  }
}

function toOutput({ name, datatype }: TensorSpec, { shape, data }: RunReply['outputs'][number]): Tensor {
  const isBits = datatype === 'FP16' && data instanceof Uint16Array;
  const elements = isBits ? new Float16Array(data.buffer, data.byteOffset, data.length) : data;
  return { name, datatype, shape, data: elements };
}

function bakedAxisWarning({ path }: ModelLocation, rows: number): string {
  return (
    `${path}: the batch axis is baked to ${rows}: every run takes exactly ${rows}, padded where there are fewer; ` +
    'export the model with a dynamic batch axis (torch.onnx.export: dynamic_axes or dynamic_shapes with axis 0)'
  );
}
