import { statSync } from 'node:fs';
import { resolve } from 'node:path';
import { withTimeout } from '../core/concurrency.ts';
import { messageOf, plural } from '../core/failure.ts';
import {
  listNames,
  type MeasuredRun,
  type Model,
  ModelUnavailableError,
  OutOfMemoryError,
  type RunResult,
  type TensorSpec,
  type Transform,
} from '../core/model.ts';
import { allocate, DATATYPES, type Datatype, moveAxis, type Tensor, type TensorData } from '../core/tensor.ts';
import { CURES, EXPORT_DYNAMIC, type ModelContract, readConstants, readContract, readRagged } from './contract.ts';
import type { ModelLocation } from './findModels.ts';
import { hasLoop, withGraph } from './graph.ts';
import { loadTransform } from './loadTransform.ts';
import { type ModelConfig, transformPath } from './modelConfig.ts';
import { externalFilesOf } from './modelFile.ts';
import { decodeSamples, readSampleLines } from './probes.ts';
import { readMeasured } from './profileFile.ts';
import { proveRows } from './proveRows.ts';
import { assignmentOf, type DeviceAssignment, hasDevices, nameOf, type Provider, runOnGpu } from './provider.ts';
import { openWithProviders, type Session } from './session.ts';
import { memoryOf, type RunReply, sessionSettings, type TaskInput } from './sessionOrders.ts';
import { prepare } from './warmUp.ts';
import { isLarge } from './weights.ts';

/** The deployment's settings for every model, of which a model's config.json comes first, and who is told of it. */
export interface LoadOptions {
  /** Most rows in one run. */
  readonly maxBatchRows: number;
  /** Most elements that the inputs of one run hold together, padding included. */
  readonly maxBatchElements: number;
  /** ONNX Runtime execution providers, first choice first, at least one. */
  readonly providers: readonly string[];
  /** Go on with the next provider, with a warning, when one cannot be loaded. */
  readonly allowProviderFallback: boolean;
  /**
   * Returns true if a provider can open a model on several devices. @default for those that ONNX Runtime tells of
   * devices
   */
  readonly takesDevices?: ((provider: Provider) => boolean) | undefined;
  /** Leave the profile beside a model alone. @default false */
  readonly ignoreKept?: boolean | undefined;
  /**
   * Leave a model as it is opened: prepacking it later takes a core, and memory for its weights once more. @default
   * false
   */
  readonly isShortLived?: boolean | undefined;
  /** Clock in milliseconds, which ends checks at start. @default performance.now */
  readonly now?: (() => number) | undefined;
  /** Told before a model is opened, which may end the process. @returns to be called once it is open, or was refused */
  readonly opens?: ((model: string) => () => void) | undefined;
  /** Told what works but not as well as it should. */
  readonly warn: (message: string) => void;
  /** Told what was found of a model, for the start log. @default nobody is told */
  readonly inform?: ((message: string) => void) | undefined;
  /** Told where a model's runs go, once it is loaded. @default nobody is told */
  readonly assigned?: ((assignment: DeviceAssignment) => void) | undefined;
  /** Told what a model's start took, once it is loaded. @default nobody is told */
  readonly loaded?: ((start: ModelStart) => void) | undefined;
}

/** Times and findings of the start of a model. */
export interface ModelStart {
  /** Until its thread had ONNX Runtime. */
  readonly libraryMs: number;
  /** From then on, until it was open. */
  readonly loadMs: number;
  readonly warmUpMs: number;
  /** Rows that the checks ran alone and together. */
  readonly probes: number;
  /** Threads that a run is spread over; undefined: as many as ONNX Runtime takes. */
  readonly threads: number | undefined;
}

/** A run at start that takes longer than this is taken for one that never ends. */
const RUN_LIMIT_MS = 60_000;
const CLOSING_MS = 1_000;

export interface LoadedModel {
  readonly model: Model;
  close(): Promise<void>;
}

/**
 * Opens a model in a thread of its own, reads its contract, and warms up every allowed size.
 *
 * @throws Error naming the file, and what to do
 */
export async function loadModel(
  location: ModelLocation,
  config: ModelConfig,
  options: LoadOptions,
): Promise<LoadedModel> {
  const { path } = location;
  const { warn, allowProviderFallback, takesDevices = hasDevices, now = () => performance.now() } = options;
  const startedAt = now();
  const transform = await transformOf(location, config, warn);
  const sessionOptions = config.sessionOptions ?? {};
  const spec = { path, providers: config.providers ?? options.providers, devices: config.devices };
  const isUnchanged = unchangedSince(path);
  const packsLater = isPackedLater(path, spec.providers, sessionOptions);
  const { session, providers, devices } = await openWithProviders(
    { ...spec, sessionOptions: packsLater ? unpacked(sessionOptions) : sessionOptions },
    { allowProviderFallback, takesDevices, warn },
  ).catch(sayHowToGetLocale);
  const openedAt = now();
  const { libraryMs } = session.metadata;
  try {
    const contract = readContract(session.metadata, config);
    const measured = options.ignoreKept ? undefined : await measuredOf(location, config, providers, warn);
    const onGpu = runOnGpu(providers);
    const own = { measured, transform, ...(onGpu && { isCoarse: true }) };
    const fixed = readConstants(config.constants ?? {}, contract.constants);
    const model = { ...toModel(location, contract, session, config, options.maxBatchRows), ...own };
    if (contract.bakedRows !== undefined) warn(bakedAxisWarning(location, contract.bakedRows, contract.bakedBy));
    const prepared = await prepare(model, {
      sizes: config.warmup ?? true,
      batching: config.batching,
      ...withGraph(path, (graph) => ({ proof: proveRows(graph, { ...model, fixed }), hasLoop: hasLoop(graph) })),
      samples: await decodeSamples(await readSampleLines(location.folder), model),
      loadMs: now() - startedAt,
      now,
      onGpu,
      maxElements: options.maxBatchElements,
      runLimitMs: RUN_LIMIT_MS,
    });
    if (prepared.bakedRows !== undefined) warn(bakedAxisWarning(location, prepared.bakedRows));
    for (const warning of prepared.warnings) warn(`${path}: ${warning}`);
    const assignment = await assignmentOf(providers, devices);
    options.inform?.(`${path}: ${prepared.found}; it runs on ${assignment.description}`);
    options.assigned?.(assignment);
    const threads = await session.warmedUp();
    const loadMs = openedAt - startedAt - libraryMs;
    options.loaded?.({ libraryMs, loadMs, warmUpMs: now() - openedAt, probes: prepared.probes, threads });
    if (packsLater && !options.isShortLived) {
      const withThreads = { ...(threads !== undefined && { intraOpNumThreads: threads }), ...sessionOptions };
      session
        .replace(withThreads, isUnchanged)
        .catch((error: unknown) => warn(`${path}: its weights are not prepacked: ${messageOf(error)}`));
    }
    return { model: { ...prepared.model, measured: prepared.measured }, close: () => session.close() };
  } catch (cause) {
    // A run that does not end keeps its thread.
    await withTimeout(session.close(), CLOSING_MS);
    throw new Error(`${path}: ${messageOf(cause)}`, { cause });
  }
}

/** Returns a function that says whether the files of a model are still those that they are now. */
function unchangedSince(path: string): () => boolean {
  const stamp = (): string => {
    const files = [path, ...externalFilesOf(path)].map((file) => statSync(file));
    return files.map(({ ino, size, mtimeMs, ctimeMs }) => [ino, size, mtimeMs, ctimeMs].join()).join(';');
  };
  const before = stamp();
  return () => stamp() === before;
}

/**
 * Returns true if a model is opened without prepacking its weights, which takes next to no time if they are mapped, and
 * with that later, beside its runs.
 */
function isPackedLater(
  path: string,
  [first]: readonly Provider[],
  options: Readonly<Record<string, unknown>>,
): boolean {
  const isChosen = PREPACKING in sessionSettings(options.extra);
  return !isChosen && nameOf(first ?? 'cpu') === 'cpu' && externalFilesOf(path).length > 0 && isLarge(path);
}

const NO_LOCALE = /Failed to construct locale with name:\s*([\w.@-]+)/;

function sayHowToGetLocale(error: unknown): never {
  const [, locale] = NO_LOCALE.exec(messageOf(error)) ?? [];
  if (locale === undefined) throw error;
  throw new Error(
    `${messageOf(error)}; images have the locales C.UTF-8 and en_US.UTF-8: install ${locale} here, or set locale="C.UTF-8" in ` +
      'the graph',
    { cause: error },
  );
}

/** Weights are used where they are mapped, and not copied in the order in which a processor reads them best. */
function unpacked(sessionOptions: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  return { ...sessionOptions, extra: { ...Object(sessionOptions.extra), [PREPACKING]: '1' } };
}

const PREPACKING = 'session.disable_prepacking';

async function measuredOf(
  { path }: ModelLocation,
  { ragged, sessionOptions }: ModelConfig,
  [first = 'cpu']: readonly Provider[],
  warn: (message: string) => void,
): Promise<readonly MeasuredRun[] | undefined> {
  const isRagged = ragged !== undefined;
  return readMeasured(path, { provider: nameOf(first), threads: threadsOf(sessionOptions), isRagged, warn });
}

/** Returns the threads that config.json gives. ONNX Runtime takes 0 for its own choice. */
function threadsOf(sessionOptions: ModelConfig['sessionOptions']): number | undefined {
  const given = sessionOptions?.intraOpNumThreads;
  return typeof given === 'number' && given > 0 ? given : undefined;
}

async function transformOf(
  { folder }: ModelLocation,
  config: ModelConfig,
  warn: (message: string) => void,
): Promise<Transform | undefined> {
  const path = transformPath(folder, config);
  return path === undefined ? undefined : loadTransform(resolve(path), warn);
}

function bakedAxisWarning({ path }: ModelLocation, rows: number, by: readonly TensorSpec[] = []): string {
  const cure = by.length === 0 ? '' : `; only ${listNames(by)} says so: ${CURES}`;
  return (
    `${path}: the batch axis is baked to ${rows}: every run takes exactly ${plural(rows, 'row')}, padded where they are fewer; ` +
    EXPORT_DYNAMIC +
    cure
  );
}

/**
 * A session as a model, with the limits that its contract and its config.json set.
 *
 * @param defaultMaxBatchRows most rows in one run where config.json names no number
 * @throws Error when config.json does not agree with the contract
 */
function toModel(
  { name, version }: ModelLocation,
  contract: ModelContract,
  session: Session,
  config: ModelConfig,
  defaultMaxBatchRows: number,
): Model {
  const { inputs, outputs, bakedRows } = contract;
  const constants = readConstants(config.constants ?? {}, contract.constants);
  const pool = createBufferPool(session.devices);
  const maxBatchRows = bakedRows ?? config.maxBatchRows ?? defaultMaxBatchRows;
  const allowedSizes = (bakedRows === undefined ? (config.allowedSizes ?? []) : [bakedRows]).toSorted((a, b) => a - b);
  if ((allowedSizes[0] ?? 0) > maxBatchRows) {
    throw new Error(
      `expected allowedSizes with one of at most maxBatchRows ${maxBatchRows}, got [${allowedSizes.join(', ')}]`,
    );
  }
  return {
    name,
    version,
    inputs,
    outputs,
    constants: constants.map((constant) => constant.name),
    maxBatchRows,
    allowedSizes,
    ragged: config.ragged === undefined ? undefined : readRagged(config.ragged, contract),
    allocate: pool.allocate,
    devices: session.devices,
    run: (tensors, ...how) => runInSession(session, { inputs, outputs, constants }, tensors, pool, ...how),
  };
}

/** Facts about a model that its runs need. */
interface RunContract {
  /** Inputs of a run, in the model's order. */
  readonly inputs: readonly TensorSpec[];
  /** Outputs that are fetched, in that order. */
  readonly outputs: readonly TensorSpec[];
  /** The inputs that are the same in every run, as the model has them. */
  readonly constants: readonly Tensor[];
}

/** Parameters of `Model.run` behind the inputs. */
type RunArguments = Parameters<Model['run']> extends [unknown, ...infer Rest] ? Rest : never;

/**
 * Runs tensors in a session, and gives the memory of its inputs back to the pool they came from. The batch axis is
 * where the model has it in the session, and first on this side.
 *
 * @throws OutOfMemoryError when an allocation failed; anything else is the run's own failure
 */
async function runInSession(
  session: Session,
  { inputs: specs, outputs, constants }: RunContract,
  inputs: readonly Tensor[],
  pool: BufferPool,
  ...how: RunArguments
): Promise<RunResult> {
  const laidOut = inModelLayout(specs, inputs, pool);
  const task = {
    inputs: laidOut.map(toTaskInput),
    constants: constants.map(toTaskInput),
    outputs: outputs.map(({ name }) => name),
  };
  const reply = await orOutOfMemory(session.run(task, ...how));
  // An output that is an input as it is shares its memory.
  pool.giveBack(memoryNotIn(reply.outputs, reply.inputs));
  if (reply.outputs.length !== outputs.length) {
    throw new Error(`expected ${outputs.length} outputs from ONNX Runtime, got ${reply.outputs.length}`);
  }
  return {
    outputs: reply.outputs.map((output, index) => toTensor(outputs[index] as TensorSpec, output)),
    runMs: reply.runMs,
    device: reply.device,
  };
}

/** Those with their batch axis elsewhere than first are copied; the memory of what was copied is free. */
function inModelLayout(specs: readonly TensorSpec[], inputs: readonly Tensor[], pool: BufferPool): readonly Tensor[] {
  if (specs.every(({ batchAxis }) => batchAxis === undefined)) return inputs;
  const laidOut = inputs.map((input, index) => moveAxis(input, 0, specs[index]?.batchAxis ?? 0, pool.allocate));
  pool.giveBack(memoryNotIn(laidOut, memoryOf(inputs)));
  return laidOut;
}

function toTaskInput({ name, datatype, shape, data }: Tensor): TaskInput {
  return { name, onnxType: DATATYPES[datatype].onnxType, shape, data };
}

/** Messages of ONNX Runtime, its arenas and CUDA when an allocation fails. */
const OUT_OF_MEMORY =
  /bad_alloc|out of memory|failed to allocate memory|available memory of \d+ is smaller than requested|_ALLOC_FAILED/i;

async function orOutOfMemory<T>(running: Promise<T>): Promise<T> {
  try {
    return await running;
  } catch (error) {
    // A model that cannot be opened again for lack of memory is not tried with fewer rows.
    if (error instanceof ModelUnavailableError || !OUT_OF_MEMORY.test(messageOf(error))) throw error;
    throw new OutOfMemoryError(`the run needed more memory than there is: ${messageOf(error).trim()}`, {
      cause: error,
    });
  }
}

function memoryNotIn(arrays: readonly { readonly data: TensorData }[], memory: readonly ArrayBuffer[]): ArrayBuffer[] {
  const held = new Set(memoryOf(arrays));
  return memory.filter((buffer) => !held.has(buffer));
}

function toTensor({ name, datatype, batchAxis = 0 }: TensorSpec, { shape, data }: RunReply['outputs'][number]): Tensor {
  if (batchAxis >= shape.length && batchAxis > 0) {
    throw new Error(
      `output '${name}': expected a batch axis ${batchAxis}, got shape [${shape.join(', ')}]; fix "batchAxis" in config.json`,
    );
  }
  const isBits = datatype === 'FP16' && data instanceof Uint16Array;
  const elements = isBits ? new Float16Array(data.buffer, data.byteOffset, data.length) : data;
  return moveAxis({ name, datatype, shape, data: elements }, batchAxis, 0);
}

/**
 * The memory of inputs that earlier runs are done with, for the inputs of later ones: 512 rows of 64 floats are made
 * and run in 0.6 ms with it and in 1.7 without (two cores, Node 24).
 */
interface BufferPool {
  /** Room for `length` elements, with whatever was in it before. */
  allocate(datatype: Datatype, length: number): TensorData;
  giveBack(buffers: readonly ArrayBuffer[]): void;
}

/** Enough for the inputs of the micro-batches under way on a device; sizes that do not come again are let go. */
const MAX_BUFFERS = 8;

function createBufferPool(devices: number): BufferPool {
  let free: ArrayBuffer[] = [];
  return {
    allocate(datatype, length) {
      const info = DATATYPES[datatype];
      if (info.kind === 'string') return allocate(datatype, length);
      const bytes = length * info.array.BYTES_PER_ELEMENT;
      const found = free.findIndex((buffer) => buffer.byteLength === bytes);
      const [buffer] = found < 0 ? [] : free.splice(found, 1);
      return buffer === undefined ? allocate(datatype, length) : new info.array(buffer);
    },
    giveBack(buffers) {
      free = [...buffers, ...free].slice(0, MAX_BUFFERS * devices);
    },
  };
}
