import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { raceAbort, withTimeout } from '../core/concurrency.ts';
import { firstDifference, OTHER_SHAPE } from '../core/difference.ts';
import { messageOf, plural } from '../core/failure.ts';
import type { Part } from '../core/microBatch.ts';
import {
  type Cost,
  listNames,
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
import { runTogether } from './independence.ts';
import { loadTransform } from './loadTransform.ts';
import { type ModelConfig, transformPath } from './modelConfig.ts';
import { externalFilesOf, readGraph } from './modelFile.ts';
import { decodeSamples, readSampleLines } from './probes.ts';
import { readCost } from './profileFile.ts';
import { findProof, keepProof, type Proved, prepareAsProved, proofPath, stampOf, toProved } from './proof.ts';
import { assignmentOf, type DeviceAssignment, hasDevices, nameOf, type Provider, runOnGpu } from './provider.ts';
import { openSession, openWithProviders, type Session, withdrawn } from './session.ts';
import { memoryOf, type RunReply, sessionSettings, type TaskInput } from './sessionOrders.ts';
import { type Prepared, prepare, recordRuns, rowCountsOf, threeOf, timingProbes } from './warmUp.ts';
import { isLarge, storeApart } from './weights.ts';

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
  /** Whether a provider can open a model on several devices. @default for those that ONNX Runtime tells of devices */
  readonly takesDevices?: ((provider: Provider) => boolean) | undefined;
  /** Leave what lies beside a model alone: its profile and its proof. @default false */
  readonly ignoreKept?: boolean | undefined;
  /** Try more probes for longer than a start may take, whatever a proof says. @default false */
  readonly isThorough?: boolean | undefined;
  /** Whether what a proof says counts once it is known to be of the model. @default true */
  readonly believesProof?: boolean | undefined;
  /** Where no proof beside the model fits, prove it thoroughly and keep that; on processors alone. @default false */
  readonly keepsProof?: boolean | undefined;
  /** Confirm a proof before the model is open, however long that takes: there is nobody who could ask again. @default false */
  readonly confirmsFirst?: boolean | undefined;
  /** Leave a model as it is opened: prepacking it later takes a core, and memory for its weights once more. @default false */
  readonly isShortLived?: boolean | undefined;
  /** The clock by which checks at start end when they have taken as long as they may, in milliseconds. @default performance.now */
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

/** What the start of a model took, and what it came to. */
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
  /** Resolves once it has to be loaded anew, because its proof is not of it. */
  readonly outdated: Promise<void>;
  close(): Promise<void>;
}

/**
 * Opens a model in a thread of its own, reads its contract and warms up every allowed size.
 *
 * @throws Error naming the file, and what to do
 */
export async function loadModel(
  location: ModelLocation,
  config: ModelConfig,
  options: LoadOptions,
): Promise<LoadedModel> {
  const loaded = await openAndPrepare(location, config, options);
  return loaded ?? loadModel(location, config, { ...options, believesProof: false });
}

/** @returns undefined where the proof beside the model turned out not to be of it */
async function openAndPrepare(
  location: ModelLocation,
  config: ModelConfig,
  options: LoadOptions,
): Promise<LoadedModel | undefined> {
  const { warn, now = () => performance.now() } = options;
  const startedAt = now();
  const transform = await transformOf(location, config, warn);
  const { allowProviderFallback, takesDevices = hasDevices } = options;
  const provable = !runOnGpu(config.providers ?? options.providers);
  if (options.keepsProof === true && !provable) {
    const given = (config.providers ?? options.providers).map(nameOf).join(', ');
    throw new Error(
      `${location.path}: expected the provider cpu alone, because others are proved at each start, got ${given}`,
    );
  }
  const stamp = stampOf(location, config);
  const outdated = Promise.withResolvers<void>();
  const { ignoreKept, isThorough, believesProof = true } = options;
  const atHand =
    provable && !ignoreKept && !isThorough && believesProof ? findProof(location, config, options) : undefined;
  // A large model is read for its digest once it is open.
  const isConfirmedFirst = atHand?.isLarge === false || options.keepsProof === true || options.confirmsFirst === true;
  const proof = isConfirmedFirst && !(await atHand?.confirm()) ? undefined : atHand;
  const threads = proof?.found.threads;
  const sessionOptions = { ...(threads !== undefined && { intraOpNumThreads: threads }), ...config.sessionOptions };
  // In one file its weights are not mapped, and opening it without prepacking gains little.
  const isApart = externalFilesOf(location.path).length > 0;
  const prepacking = isApart ? proof?.found.prepacking : undefined;
  const { session, providers, devices } = await openWithProviders(
    {
      path: location.path,
      providers: config.providers ?? options.providers,
      devices: config.devices,
      sessionOptions: prepacking === undefined ? sessionOptions : unpacked(sessionOptions),
    },
    { allowProviderFallback, takesDevices, warn },
  ).catch(sayHowToGetLocale);
  const openedAt = now();
  const { libraryMs } = session.metadata;
  const loadMs = openedAt - startedAt - libraryMs;
  try {
    const contract = readContract(session.metadata, config);
    const cost = options.ignoreKept ? undefined : await costOf(location, config, providers, warn);
    const onGpu = runOnGpu(providers);
    const own = { cost, transform, ...(onGpu && { isCoarse: true }) };
    const model = { ...toModel(location, contract, session, config, options.maxBatchRows), ...own };
    if (contract.bakedRows !== undefined) warn(bakedAxisWarning(location, contract.bakedRows, contract.bakedBy));
    const proved = proof === undefined ? undefined : await restore(model, proof.found, location, warn);
    if (proof !== undefined && (proved === undefined || (isConfirmedFirst && !(await proof.confirm())))) {
      await session.close();
      return undefined;
    }
    const keepsProof = provable && proved === undefined && options.keepsProof === true;
    const samples = async () => decodeSamples(await readSampleLines(location.folder), model);
    const prepared =
      proved ??
      (await prepare(model, {
        sizes: config.warmup ?? true,
        batching: config.batching,
        graph: readGraph(location.path),
        samples: await samples(),
        loadMs: now() - startedAt,
        now,
        onGpu,
        maxElements: options.maxBatchElements,
        runLimitMs: RUN_LIMIT_MS,
        isThorough: keepsProof || options.isThorough === true,
      }));
    if (prepared.bakedRows !== undefined) warn(bakedAxisWarning(location, prepared.bakedRows));
    for (const warning of prepared.warnings) warn(`${location.path}: ${warning}`);
    const assignment = await assignmentOf(providers, devices);
    options.inform?.(`${location.path}: ${prepared.found}; it runs on ${assignment.description}`);
    options.assigned?.(assignment);
    const finalThreads =
      proved === undefined ? await session.warmedUp() : (threads ?? threadsOf(config.sessionOptions));
    if (keepsProof) {
      const found = toProved(model, prepared, finalThreads);
      const given = { ...sessionOptions, ...(finalThreads !== undefined && { intraOpNumThreads: finalThreads }) };
      const prepacking = await prepackingOf(location, given, {
        model: prepared.model,
        loadMs,
        probes: timingProbes(prepared.model, await samples(), readGraph(location.path)),
        maxElements: options.maxBatchElements,
        runOf: (other) => toModel(location, contract, other, config, model.maxBatchRows).run,
      }).catch((error: unknown) => {
        warn(
          `${location.path}: its weights are prepacked at every start, as comparing runs failed: ${messageOf(error)}`,
        );
        return undefined;
      });
      await keepProof(location, config, { ...found, ...(prepacking !== undefined && { prepacking }) }, stamp);
    }
    options.loaded?.({ libraryMs, loadMs, warmUpMs: now() - openedAt, probes: prepared.probes, threads: finalThreads });
    const ready = { ...prepared.model, measured: prepared.measured };
    const close = () => session.close();
    if (proof === undefined || isConfirmedFirst) return { model: ready, outdated: outdated.promise, close };
    const isAsProved = proof.confirm();
    const prepack = async (): Promise<void> => {
      if (prepacking === 'later' && !options.isShortLived && (await isAsProved))
        await session.replace(sessionOptions, proof.isUnchanged);
    };
    void prepack().catch((error: unknown) =>
      warn(`${location.path}: its weights are not prepacked: ${messageOf(error)}`),
    );
    void isAsProved.then((isSo) => isSo || outdated.resolve());
    return { model: untilConfirmed(ready, isAsProved), outdated: outdated.promise, close };
  } catch (cause) {
    // A run that does not end keeps its thread.
    await withTimeout(session.close(), CLOSING_MS);
    throw new Error(`${location.path}: ${messageOf(cause)}`, { cause });
  }
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

interface Prepacked {
  readonly model: Model;
  /** What opening it took. */
  readonly loadMs: number;
  /** Requests to try it with. */
  readonly probes: readonly Part[];
  readonly maxElements: number;
  /** Runs of the same model in another session. */
  readonly runOf: (session: Session) => Model['run'];
}

/** Of the numbers of copies of a request that a run may have, three are compared: up to this, if there are any. */
const MAX_ROWS_TO_COMPARE = 64;
const TIMES = 3;
/** A run that takes longer by this factor is slower, and by so many milliseconds: less is not worth a second session. */
const SLOWER = 1.1;
const SLOWER_MS = 1;

/**
 * How a large model is to be opened when its weights are apart, as publishing and images have them: without prepacking where
 * that takes less than half of the time and gives the same answers, and with it later where its runs are faster then.
 */
async function prepackingOf(
  { path }: ModelLocation,
  sessionOptions: Readonly<Record<string, unknown>>,
  { model, loadMs, probes, maxElements, runOf }: Prepacked,
): Promise<Proved['prepacking']> {
  const isChosen = PREPACKING in sessionSettings(sessionOptions.extra);
  if (isChosen || probes.length === 0 || !isLarge(path)) return undefined;
  const copies = await mkdtemp(join(tmpdir(), 'batchscore-prove-'));
  const copy = join(copies, 'model.onnx');
  let session: Session | undefined;
  try {
    const apart = externalFilesOf(path).length > 0 ? path : storeApart(path, copy) ? copy : undefined;
    if (apart === undefined) return undefined;
    const startedAt = performance.now();
    session = await openSession({ path: apart, providers: ['cpu'], sessionOptions: unpacked(sessionOptions) });
    if (performance.now() - startedAt - session.metadata.libraryMs > loadMs / 2) return undefined;
    const [packed, other] = [recordRuns(model), recordRuns({ ...model, run: runOf(session) })];
    for (const probe of probes) {
      const [min = 1, ...counts] = rowCountsOf(model, probe, maxElements);
      for (const rows of threeOf([min, ...counts.filter((count) => count <= MAX_ROWS_TO_COMPARE)])) {
        const parts = new Array<Part>(rows).fill(probe);
        for (let time = 0; time < TIMES; time++) {
          const [{ answers }, { answers: same }] = [
            await runTogether(packed.model, parts),
            await runTogether(other.model, parts),
          ];
          const isSame = [...answers].every(
            ([place, outputs]) => firstDifference(outputs, same.get(place) ?? [], OTHER_SHAPE) === undefined,
          );
          if (!isSame) return undefined;
        }
      }
    }
    const isSlower = other.measured().some(({ ms }, index) => {
      const packedMs = packed.measured()[index]?.ms ?? ms;
      return ms > SLOWER * packedMs && ms > packedMs + SLOWER_MS;
    });
    return isSlower ? 'later' : 'never';
  } finally {
    await session?.close();
    await rm(copies, { recursive: true, force: true });
  }
}

/**
 * A model of which it is not known yet whether it is as its proof says: a row by itself is right whatever that says, and
 * what shares a run or is padded waits.
 */
function untilConfirmed(model: Model, isAsProved: Promise<boolean>): Model {
  let isConfirmed = false;
  void isAsProved.then((isSo) => {
    isConfirmed = isSo;
  });
  return {
    ...model,
    async run(inputs, signal, device, onStart) {
      const isByItself = inputs[0]?.shape[0] === 1 && model.ragged === undefined;
      if (!isConfirmed && !isByItself && !(await raceAbort(isAsProved, signal, withdrawn))) {
        throw new ModelUnavailableError(
          'the proof beside the model is not of it: the model is opened again, and proved',
        );
      }
      return model.run(inputs, signal, device, onStart);
    },
  };
}

/** The model as its proof says; undefined, with a warning, where it does not run so. */
async function restore(
  model: Model,
  proved: Proved,
  { path }: ModelLocation,
  warn: (message: string) => void,
): Promise<Prepared | undefined> {
  const prepared = await prepareAsProved(model, proved, RUN_LIMIT_MS);
  if (typeof prepared !== 'string') return prepared;
  warn(`${proofPath(path)}: expected a model that runs as it did, got: ${prepared}; it is proved at start`);
  return undefined;
}

async function costOf(
  { path }: ModelLocation,
  { ragged, sessionOptions }: ModelConfig,
  [first = 'cpu']: readonly Provider[],
  warn: (message: string) => void,
): Promise<Cost | undefined> {
  const isRagged = ragged !== undefined;
  return readCost(path, { provider: nameOf(first), threads: threadsOf(sessionOptions), isRagged, warn });
}

/** Those that config.json gives; ONNX Runtime takes 0 for as many as it likes. */
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

/** What a run needs to know of its model. */
interface RunContract {
  /** Those that a run is given, in the model's order. */
  readonly inputs: readonly TensorSpec[];
  /** Those that are fetched, in that order. */
  readonly outputs: readonly TensorSpec[];
  /** The inputs that are the same in every run, as the model has them. */
  readonly constants: readonly Tensor[];
}

/** Those of `Model.run` behind the inputs. */
type RunArguments = Parameters<Model['run']> extends [unknown, ...infer Rest] ? Rest : never;

/**
 * Runs tensors in a session, and gives the memory of its inputs back to the pool they came from. The batch axis is where
 * the model has it in the session, and first on this side.
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

/** What ONNX Runtime, its arenas and CUDA say when an allocation fails. */
const OUT_OF_MEMORY =
  /bad_alloc|out of memory|failed to allocate memory|available memory of \d+ is smaller than requested|_ALLOC_FAILED/i;

async function orOutOfMemory<T>(running: Promise<T>): Promise<T> {
  try {
    return await running;
  } catch (error) {
    // A model that cannot be opened again for want of memory is not to be tried with fewer rows.
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
 * The memory of inputs that earlier runs are done with, for the inputs of later ones: 512 rows of 64 floats are made and run
 * in 0.6 ms with it and in 1.7 without (two cores, Node 24).
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
