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
  takesOwnForm,
} from '../core/model.ts';
import {
  type ArraySize,
  allocateBuffer,
  allocateTogether,
  DATATYPES,
  type Datatype,
  moveAxis,
  type Tensor,
  type TensorData,
} from '../core/tensor.ts';
import { CURES, EXPORT_DYNAMIC, type ModelContract, readConstants, readContract, readRagged } from './contract.ts';
import type { ModelLocation } from './findModels.ts';
import { hasLoop, withGraph } from './graph.ts';
import { type LoadedTokenizer, loadTokenizer, withPooling } from './loadTokenizer.ts';
import { loadTransform } from './loadTransform.ts';
import { type ModelConfig, tokenizerPath, transformPath } from './modelConfig.ts';
import { externalFilesOf } from './modelFile.ts';
import { decodeSamples, readSampleLines } from './probes.ts';
import { readMeasured } from './profileFile.ts';
import { proveRows } from './proveRows.ts';
import { assignmentOf, type DeviceAssignment, hasDevices, nameOf, type Provider, runOnGpu } from './provider.ts';
import { openWithProviders, type Session } from './session.ts';
import { memoryOf, type RunReply, sessionSettings, type TaskInput } from './sessionOrders.ts';
import { prepare } from './warmUp.ts';
import { isLarge } from './weights.ts';

/** The deployment's settings for every model, which config.json overrides, and the listeners. */
export interface LoadOptions {
  readonly maxBatchRows: number;
  /** Maximum number of elements in the inputs of one run, including padding. */
  readonly maxBatchElements: number;
  /** ONNX Runtime execution providers, first choice first, at least one. */
  readonly providers: readonly string[];
  /** True to continue with the next provider, with a warning, if one cannot be loaded. */
  readonly allowProviderFallback: boolean;
  /**
   * Returns true if a provider can open a model on several devices.
   * @default true for providers with devices
   */
  readonly takesDevices?: ((provider: Provider) => boolean) | undefined;
  /** True to ignore the profile beside a model. @default false */
  readonly ignoreKept?: boolean | undefined;
  /**
   * True to open a model only once. Prepacking its weights later takes a core and a second copy of the weights.
   * @default false
   */
  readonly isShortLived?: boolean | undefined;
  /** Clock in milliseconds, for the limit of checks at start. @default performance.now */
  readonly now?: (() => number) | undefined;
  /**
   * Called before a model is opened, which may end the process. @returns a function to call when it is open or refused
   */
  readonly opens?: ((model: string) => () => void) | undefined;
  /** Takes a message about something that works but not well. */
  readonly warn: (message: string) => void;
  /** Takes findings about a model, for the start log. @default ignored */
  readonly inform?: ((message: string) => void) | undefined;
  /** Takes the provider and devices of a loaded model. @default ignored */
  readonly assigned?: ((assignment: DeviceAssignment) => void) | undefined;
  /** Takes the start times of a loaded model. @default ignored */
  readonly loaded?: ((start: ModelStart) => void) | undefined;
}

export interface ModelStart {
  /** Time until its thread had ONNX Runtime. */
  readonly libraryMs: number;
  /** Time from then until it was open. */
  readonly loadMs: number;
  readonly warmUpMs: number;
  readonly probes: number;
  /** Number of threads of a run. Undefined if ONNX Runtime chooses. */
  readonly threads: number | undefined;
}

/** Limit for a run at start. A longer run is assumed never to end. */
const RUN_LIMIT_MS = 60_000;
const CLOSING_MS = 1_000;

export interface LoadedModel {
  readonly model: Model;
  close(): Promise<void>;
}

/**
 * Opens a model in its own thread, reads its contract, and warms up every allowed size.
 *
 * @throws Error naming the file and the solution
 */
export async function loadModel(
  location: ModelLocation,
  given: ModelConfig,
  options: LoadOptions,
): Promise<LoadedModel> {
  const { path } = location;
  const { warn, allowProviderFallback, takesDevices = hasDevices, now = () => performance.now() } = options;
  const startedAt = now();
  const ownTransform = await transformOf(location, given, warn);
  const sessionOptions = given.sessionOptions ?? {};
  const spec = { path, providers: given.providers ?? options.providers, devices: given.devices };
  const isUnchanged = unchangedSince(path);
  const packsLater = shouldPackLater(path, spec.providers, sessionOptions);
  const { session, providers, devices } = await openWithProviders(
    { ...spec, sessionOptions: packsLater ? withoutPrepacking(sessionOptions) : sessionOptions },
    { allowProviderFallback, takesDevices, warn },
  ).catch(sayHowToGetLocale);
  const openedAt = now();
  const { libraryMs } = session.metadata;
  try {
    const contract = readContract(session.metadata, given);
    const tokenizer = await tokenizerOf(location, given, contract, ownTransform);
    const config = { ...given, ragged: given.ragged ?? tokenizer?.ragged };
    const transform = tokenizer === undefined ? ownTransform : { ...ownTransform, ...tokenizer.transform };
    const measured = options.ignoreKept ? undefined : await measuredOf(location, config, providers, warn);
    const onGpu = runOnGpu(providers);
    const own = { measured, transform, takesText: tokenizer !== undefined, ...(onGpu && { isCoarse: true }) };
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
    const threads = await session.endWarmUp();
    const loadMs = openedAt - startedAt - libraryMs;
    options.loaded?.({ libraryMs, loadMs, warmUpMs: now() - openedAt, probes: prepared.probes, threads });
    if (packsLater && !options.isShortLived) {
      const withThreads = { ...(threads !== undefined && { intraOpNumThreads: threads }), ...sessionOptions };
      session
        .replace(withThreads, isUnchanged)
        .catch((error: unknown) => warn(`${path}: its weights are not prepacked: ${messageOf(error)}`));
    }
    const { pooling } = config.tokenizer ?? {};
    const opened = { ...prepared.model, measured: prepared.measured };
    return { model: pooling === undefined ? opened : withPooling(opened, pooling), close: () => session.close() };
  } catch (cause) {
    // A run that does not end keeps its thread.
    await withTimeout(session.close(), CLOSING_MS);
    throw new Error(`${path}: ${messageOf(cause)}`, { cause });
  }
}

/** Returns a function that returns true while the files of a model are unchanged. */
function unchangedSince(path: string): () => boolean {
  const stamp = (): string => {
    const files = [path, ...externalFilesOf(path)].map((file) => statSync(file));
    return files.map(({ ino, size, mtimeMs, ctimeMs }) => [ino, size, mtimeMs, ctimeMs].join()).join(';');
  };
  const before = stamp();
  return () => stamp() === before;
}

/**
 * Returns true if a model is opened without prepacking its weights, and again with it while it runs. Opening mapped
 * weights without prepacking takes almost no time.
 */
function shouldPackLater(
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

/** Turns prepacking off: weights are used where they are mapped, not copied into the processor's preferred order. */
function withoutPrepacking(sessionOptions: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
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

/** Returns the number of threads in config.json. ONNX Runtime takes 0 for its own choice. */
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

/** @throws Error if the model also has code that decodes requests */
async function tokenizerOf(
  { folder }: ModelLocation,
  config: ModelConfig,
  { inputs }: ModelContract,
  transform: Transform | undefined,
): Promise<LoadedTokenizer | undefined> {
  const path = tokenizerPath(folder, config);
  if (path === undefined || config.tokenizer === undefined) return undefined;
  if (!takesOwnForm({ transform })) return loadTokenizer(resolve(path), config.tokenizer, inputs);
  throw new Error(`${config.transform}: expected no decode beside "tokenizer", got one; remove either`);
}

function bakedAxisWarning({ path }: ModelLocation, rows: number, by: readonly TensorSpec[] = []): string {
  const cure = by.length === 0 ? '' : `; only ${listNames(by)} says so: ${CURES}`;
  return (
    `${path}: the batch axis is baked to ${rows}: every run takes exactly ${plural(rows, 'row')}, padded if there are fewer; ` +
    EXPORT_DYNAMIC +
    cure
  );
}

/**
 * Creates a model from a session, with the limits of its contract and its config.json.
 *
 * @param defaultMaxBatchRows maximum number of rows in one run if config.json has none
 * @throws Error if config.json contradicts the contract
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

interface RunContract {
  readonly inputs: readonly TensorSpec[];
  /** Outputs to fetch, in order. */
  readonly outputs: readonly TensorSpec[];
  /** Inputs with the same values in every run, in the model's layout. */
  readonly constants: readonly Tensor[];
}

/** Parameters of `Model.run` after the inputs. */
type RunArguments = Parameters<Model['run']> extends [unknown, ...infer Rest] ? Rest : never;

/**
 * Runs tensors in a session, and returns the memory of its inputs to the pool. It converts between rows first and the
 * model's batch axis.
 *
 * @throws OutOfMemoryError if an allocation failed; any other error is the run's own failure
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
  // An output that equals an input shares its memory.
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

/** Moves batch axes to their place in the model. Moved inputs are copies, and the memory of the originals is freed. */
function inModelLayout(specs: readonly TensorSpec[], inputs: readonly Tensor[], pool: BufferPool): readonly Tensor[] {
  if (specs.every(({ batchAxis }) => batchAxis === undefined)) return inputs;
  const room = (datatype: Datatype, length: number) => pool.allocate([{ datatype, length }])[0] as TensorData;
  const laidOut = inputs.map((input, index) => moveAxis(input, 0, specs[index]?.batchAxis ?? 0, room));
  pool.giveBack(memoryNotIn(laidOut, memoryOf(inputs)));
  return laidOut;
}

function toTaskInput({ name, datatype, shape, data }: Tensor): TaskInput {
  return { name, onnxType: DATATYPES[datatype].onnxType, shape, data };
}

/** Matches messages of ONNX Runtime, its arenas and CUDA about failed allocations. */
const OUT_OF_MEMORY =
  /bad_alloc|out of memory|failed to allocate memory|available memory of \d+ is smaller than requested|_ALLOC_FAILED/i;

async function orOutOfMemory<T>(running: Promise<T>): Promise<T> {
  try {
    return await running;
  } catch (error) {
    // A model that cannot be reopened for lack of memory is not retried with fewer rows.
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
 * Memory of earlier inputs for later ones. Creating and running 512 rows of 64 floats takes 0.6 ms with it and 1.7
 * without (two cores, Node 24).
 */
interface BufferPool {
  /** Returns arrays with arbitrary content. */
  allocate(sizes: readonly ArraySize[]): TensorData[];
  giveBack(buffers: readonly ArrayBuffer[]): void;
}

/** Enough for the inputs of the micro-batches in progress on a device. Sizes that do not recur are dropped. */
const MAX_BUFFERS = 8;

function createBufferPool(devices: number): BufferPool {
  let free: ArrayBuffer[] = [];
  return {
    allocate: (sizes) =>
      allocateTogether(sizes, (bytes) => {
        const found = free.findIndex((buffer) => buffer.byteLength === bytes);
        const [buffer] = found < 0 ? [] : free.splice(found, 1);
        return buffer ?? allocateBuffer(bytes);
      }),
    giveBack(buffers) {
      free = [...buffers, ...free].slice(0, MAX_BUFFERS * devices);
    },
  };
}
