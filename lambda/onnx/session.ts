import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { isMainThread, Worker } from 'node:worker_threads';
import { raceAbort } from '../core/concurrency.ts';
import { messageOf } from '../core/failure.ts';
import { ModelUnavailableError, RunWithdrawnError } from '../core/model.ts';
import { nearestName } from '../core/wrongValue.ts';
import { RUNTIME_TELEMETRY_OFF } from '../settings.ts';
import { TYPES_NOT_CARRIED } from './modelFile.ts';
import { describeDevices, listProviders, nameOf, onDevice, type Provider, runOnGpu } from './provider.ts';
import {
  memoryOf,
  type OrderMessage,
  type OrderName,
  type OrderReply,
  type RunReply,
  type RunTask,
  type SessionMetadata,
  type SessionOrders,
  type SessionSpec,
  type ThreadData,
} from './sessionOrders.ts';

/** A model's ONNX Runtime sessions, one for each device, each in a worker thread of its own. */
export interface Session {
  readonly metadata: OpenMetadata;
  /** Most runs at the same time. */
  readonly devices: number;
  /**
   * Runs on the first device that is free.
   *
   * @param signal aborted when the run must not start any more. A run that has started cannot be stopped
   * @param device the only one that will do, from 0 to below `devices`. @default any
   * @param onStart called just before the thread is given the inputs
   * @throws ModelUnavailableError when the model was closed, RunWithdrawnError when the signal is aborted before the
   *   run starts; anything else is the run's own failure
   */
  run(task: RunTask, signal?: AbortSignal, device?: number, onStart?: () => void): Promise<SessionReply>;
  /**
   * To be called after the warm-up: from then on short runs are not shared among the cores.
   *
   * @returns the threads that a run is spread over; undefined: as many as ONNX Runtime takes
   */
  warmedUp(): Promise<number | undefined>;
  /**
   * Opens the model with other options beside the session that it has, in a thread of its own, and has that take its
   * place between two runs. Where it cannot be opened, or is of another model, the session stays that there is.
   *
   * @param isSame whether the files are still those of the session that there is
   * @throws Error when it stays
   */
  replace(sessionOptions: SessionSpec['sessionOptions'], isSame: () => boolean): Promise<void>;
  /** Ends the threads after the runs that were asked for. */
  close(): Promise<void>;
}

export interface SessionReply extends RunReply {
  /** Device that it ran on. */
  readonly device: number;
}

/**
 * A model that runs one or two rows in less takes a millisecond or two for hundreds. Sharing such runs among the cores
 * gains less than its threads take from decoding and encoding, and every operator waits for all of them: on two cores
 * that alone takes a model of 0.03 ms from 0.1 to 0.16 ms.
 */
const SHORT_RUN_MS = 0.2;

/**
 * On a GPU the cores are not what runs share, and what a session there takes of the host's memory it does not give
 * back.
 */
export function runsBetterOnOneCore({ providers }: Pick<SessionSpec, 'providers'>, fastestMs: number): boolean {
  return !runOnGpu(providers) && fastestMs < SHORT_RUN_MS;
}

/**
 * Starts a thread for each device, opens a session in it and reads its metadata.
 *
 * @throws Error when a provider is not known or the model cannot be loaded
 */
export async function openSession(spec: SessionSpec): Promise<Session> {
  const specs = specsOfDevices(spec);
  const threads = specs.map(createOpenThread);
  const pool = createPool(threads.length);
  const metadata = await openAll(threads);
  let fastestMs = Number.POSITIVE_INFINITY;
  let closed = false;
  let replacing: Promise<unknown> | undefined;
  const onEveryDevice = async (work: (thread: OpenThread, spec: SessionSpec) => Promise<void>): Promise<void> => {
    const working = threads.map((thread, device) =>
      pool.run(() => work(thread, specs[device] as SessionSpec), undefined, device),
    );
    await Promise.all(working);
  };
  return {
    metadata,
    devices: threads.length,
    async run(task, signal, only, onStart) {
      if (closed) throw new ModelUnavailableError('expected a model that is open, got one that was closed');
      const runOn = async (device: number): Promise<SessionReply> => {
        const { thread } = await (threads[device] as OpenThread).ready();
        onStart?.();
        const reply = await thread.call('run', task, memoryOf(task.inputs));
        fastestMs = Math.min(fastestMs, reply.runMs);
        return { ...reply, device };
      };
      return pool.run(runOn, signal, only);
    },
    async warmedUp() {
      const { intraOpNumThreads: given } = spec.sessionOptions;
      if (given !== undefined || !runsBetterOnOneCore(spec, fastestMs)) {
        return typeof given === 'number' && given > 0 ? given : undefined;
      }
      await onEveryDevice((thread, ofDevice) =>
        thread.reopen({ ...ofDevice, sessionOptions: { ...ofDevice.sessionOptions, intraOpNumThreads: 1 } }),
      );
      return 1;
    },
    async replace(sessionOptions, isSame) {
      if (closed) return;
      replacing = Promise.all(
        threads.map((thread, device) =>
          thread.replace({ ...(specs[device] as SessionSpec), sessionOptions }, isSame, (work) =>
            pool.run(work, undefined, device),
          ),
        ),
      );
      await replacing;
    },
    async close() {
      closed = true;
      await replacing?.catch(() => {});
      await onEveryDevice((thread) => thread.close());
    },
  };
}

function specsOfDevices({ devices, ...spec }: SessionSpec): SessionSpec[] {
  if (devices === undefined) return [spec];
  return devices.map((device) => ({ ...spec, providers: spec.providers.map((one) => onDevice(one, device)) }));
}

interface ProviderFallback {
  /** Go on with the next provider, with a warning, when one cannot be loaded. */
  readonly allowProviderFallback: boolean;
  /** Takes a message about each provider that is passed over. */
  readonly warn: (message: string) => void;
  /** Returns true if a provider can open a model on several devices. Others ignore `devices`. */
  readonly takesDevices: (provider: Provider) => boolean;
}

interface OpenedWithProviders {
  readonly session: Session;
  /** Providers that it was opened with, first choice first. */
  readonly providers: readonly Provider[];
  /** The devices that were chosen, if any. */
  readonly devices: readonly number[] | undefined;
}

/**
 * Opens a session on the first of its providers, or on a later one where that is allowed.
 *
 * @throws Error naming the model file, and the provider or what is wrong with the model
 */
export async function openWithProviders(spec: SessionSpec, fallback: ProviderFallback): Promise<OpenedWithProviders> {
  const { path, providers } = spec;
  const [first = 'cpu', ...rest] = providers;
  try {
    const devices = fallback.takesDevices(first) ? spec.devices : undefined;
    return { session: await openSession({ ...spec, devices }), providers, devices };
  } catch (cause) {
    if (messageOf(cause).includes("package 'onnxruntime-node'")) throw new Error(NO_RUNTIME, { cause });
    if (cause instanceof UnknownProviderError) throw new Error(`${path}: ${cause.message}`, { cause });
    if (nameOf(first) === 'cpu' || !(await opensOnCpu(spec))) {
      throw new Error(`${path}: cannot be loaded: ${explainLoadError(messageOf(cause))}`, { cause });
    }
    const found = await describeDevices(first);
    const hint = found === undefined ? PROVIDER_HINT : `${found}; ${PROVIDER_HINT}`;
    const reason = `execution provider '${nameOf(first)}' is not available (${messageOf(cause)}); ${hint}`;
    if (!fallback.allowProviderFallback || rest.length === 0) {
      throw new Error(`${path}: ${reason}; or ${CHOOSE_OTHERS}`, { cause });
    }
    fallback.warn(`${path}: ${reason}; falling back to ${listProviders(rest)} as configured`);
    return openWithProviders({ ...spec, providers: rest }, fallback);
  }
}

const PROVIDER_HINT =
  'for cuda, libonnxruntime_providers_shared.so and libonnxruntime_providers_cuda.so must lie beside the binding of ' +
  "onnxruntime-node, CUDA and cuDNN on the library path, and the driver's libcuda.so.1 on the machine";

const CHOOSE_OTHERS =
  'choose others with --providers, or for a host with BATCHSCORE_PROVIDERS, which BATCHSCORE_ALLOW_PROVIDER_FALLBACK lets ' +
  'pass over one (docs/configuration.md)';

/** Returns true if the model itself is sound: ONNX Runtime's errors do not tell a provider's failure from a model's. */
async function opensOnCpu(spec: SessionSpec): Promise<boolean> {
  try {
    const session = await openSession({ ...spec, providers: ['cpu'], devices: undefined });
    await session.close();
    return true;
  } catch {
    return false;
  }
}

/**
 * Opens a model on each of its devices: on the first alone, because where that cannot be done the others need not be
 * tried, then on all the others.
 *
 * @param threads one for each device, at least one
 * @throws Error of the first device on which it cannot be opened; then it is open on none
 */
async function openAll(threads: readonly OpenThread[]): Promise<OpenMetadata> {
  const [first, ...others] = threads as readonly [OpenThread, ...OpenThread[]];
  const { metadata } = await first.ready();
  const opened = await Promise.allSettled(others.map((thread) => thread.ready()));
  const failed = opened.find(({ status }) => status === 'rejected');
  if (failed?.status !== 'rejected') return metadata;
  await Promise.all(threads.map((thread) => thread.close()));
  throw failed.reason;
}

/** The thread that has the session open. */
interface OpenThread {
  /** The thread, once its session is open. @throws Error if the session cannot be opened */
  ready(): Promise<ReadyThread>;
  /** Opens the session again as `spec` says, in the same thread. */
  reopen(spec: SessionSpec): Promise<void>;
  /**
   * Opens the session as `spec` says in another thread, which then takes the place of this one.
   *
   * @param between has the threads change places while no run is under way
   */
  replace(
    spec: SessionSpec,
    isSame: () => boolean,
    between: (work: () => Promise<void>) => Promise<void>,
  ): Promise<void>;
  close(): Promise<void>;
}

interface ReadyThread {
  readonly thread: SessionThread;
  readonly metadata: OpenMetadata;
}

interface OpenMetadata extends SessionMetadata {
  /** Until the thread had ONNX Runtime. */
  readonly libraryMs: number;
}

interface Opening {
  readonly thread: SessionThread;
  readonly opened: Promise<OpenMetadata>;
}

const OTHER_FILES = 'expected files that stay as they are while the model is open, got others';

function createOpenThread(spec: SessionSpec): OpenThread {
  const openIn = (thread: SessionThread, latest: SessionSpec): Opening => {
    const opened = open(thread, latest);
    // Whoever waits for it is told.
    opened.catch(() => {});
    return { thread, opened };
  };
  let current = openIn(takeThread(), spec);
  const ready = async (): Promise<ReadyThread> => {
    const { thread, opened } = current;
    try {
      return { thread, metadata: await opened };
    } catch (error) {
      await thread.close();
      throw error;
    }
  };
  return {
    ready,
    async reopen(latest) {
      current = openIn(current.thread, latest);
      await ready();
    },
    async replace(spec, isSame, between) {
      const thread = startThread();
      const opened = open(thread, spec);
      try {
        await opened;
        if (!isSame()) throw new Error(OTHER_FILES);
      } catch (error) {
        await thread.close();
        throw error;
      }
      const before = current;
      await between(async () => {
        current = { thread, opened };
      });
      await before.thread.close();
    },
    close: () => current.thread.close(),
  };
}

/** The configuration names a provider that ONNX Runtime has never heard of. */
class UnknownProviderError extends Error {
  override readonly name = 'UnknownProviderError';
}

/** ONNX Runtime passes over a provider that it does not know without an error. */
async function open(thread: SessionThread, spec: SessionSpec): Promise<OpenMetadata> {
  const startedAt = performance.now();
  const known = await thread.call('listProviders', undefined);
  const libraryMs = performance.now() - startedAt;
  const unknown = spec.providers.map(nameOf).filter((provider) => !known.includes(provider));
  if (unknown.length > 0) {
    const [nearest] = unknown.flatMap((name) => nearestName(name, known) ?? []);
    const cure = nearest === undefined ? CHOOSE_OTHERS : `did you mean ${nearest}? Otherwise ${CHOOSE_OTHERS}`;
    throw new UnknownProviderError(
      `expected execution providers among ${known.join(', ')}, got ${unknown.join(', ')}; ${cure}`,
    );
  }
  return { ...(await thread.call('open', spec)), libraryMs };
}

/** npm says nothing of an optional package that it leaves out. */
const NO_RUNTIME =
  'expected the package onnxruntime-node, got none: npm leaves it out where its CUDA libraries cannot be fetched; ' +
  'run npm install onnxruntime-node --onnxruntime-node-install=skip (for CPU)';

/** What is wrong, in words, and what to do: ONNX Runtime itself says `Unsupported data type: 16`. */
function explainLoadError(message: string): string {
  if (/Type Error: Type/.test(message)) {
    return `${message}; columns of different types meet there: export all numbers as float32 (docs/recipes.md, A pipeline over a table)`;
  }
  return message.replace(/(Unsupported data type: )(\d+)/, (whole, text: string, number: string) => {
    const name = TYPES_NOT_CARRIED[number];
    return name === undefined ? whole : `${text}${name}, which ONNX Runtime for Node cannot carry; export another type`;
  });
}

/** Slots, numbered from 0: each does one piece of work after the other, first come, first served. */
export function createPool(slots = 1) {
  const free = new Set(Array.from({ length: slots }, (_, slot) => slot));
  let waiting: { readonly granted: PromiseWithResolvers<number>; readonly wanted: number | undefined }[] = [];
  const passOn = (slot: number): void => {
    const next = waiting.find(({ wanted }) => wanted === undefined || wanted === slot);
    if (next === undefined) free.add(slot);
    else next.granted.resolve(slot);
    waiting = waiting.filter((one) => one !== next);
  };
  return {
    /**
     * Does `work` in the first slot that is free.
     *
     * @param wanted the only slot that will do. @default any
     * @throws RunWithdrawnError when the signal is aborted before a slot is free: the work is never started
     */
    async run<T>(work: (slot: number) => Promise<T>, signal?: AbortSignal, wanted?: number): Promise<T> {
      if (signal?.aborted) throw withdrawn();
      let slot = [...free].find((one) => wanted === undefined || one === wanted);
      if (slot === undefined) {
        const one = { granted: Promise.withResolvers<number>(), wanted };
        waiting.push(one);
        slot = await raceAbort(one.granted.promise, signal, () => {
          // At once: a slot that is given to one who has gone would never be passed on.
          waiting = waiting.filter((other) => other !== one);
          return withdrawn();
        });
      } else free.delete(slot);
      try {
        return await work(slot);
      } finally {
        passOn(slot);
      }
    },
  };
}

export function withdrawn(): RunWithdrawnError {
  return new RunWithdrawnError('expected the run to start in its time, got no turn until then; it was withdrawn');
}

/** A worker thread that holds one session and follows one order after the other. */
interface SessionThread {
  /** @throws Error when the thread ends before it replies; anything else is the order's own failure */
  call<O extends OrderName>(
    order: O,
    argument: Parameters<SessionOrders[O]>[0],
    transferred?: readonly ArrayBuffer[],
  ): Promise<ReturnType<SessionOrders[O]>>;
  /** Returns true if it takes no more orders. */
  hasEnded(): boolean;
  /**
   * Has the thread close its session and end, after the order under way. It is never terminated: inside of native code
   * that would take the process with it.
   *
   * @returns when it has ended
   */
  close(): Promise<void>;
}

const RUNS_FROM_SOURCE = import.meta.url.endsWith('.ts');
const WORKER_FILE = fileURLToPath(new URL(`./sessionWorker.${RUNS_FROM_SOURCE ? 'ts' : 'js'}`, import.meta.url));

/** Started before there is a model for it. */
let early: SessionThread | undefined;
let parent: number | undefined;

/** Starts the thread of the session that is opened next. The process ends with its parent from now on. */
export function startThreadEarly(): void {
  parent = process.ppid;
  early ??= startThread();
}

function takeThread(): SessionThread {
  const thread = early?.hasEnded() === false ? early : startThread();
  early = undefined;
  return thread;
}

/** @throws Error in a worker thread, where ONNX Runtime's telemetry is not off */
function startThread(): SessionThread {
  turnRuntimeTelemetryOff();
  const ordersSent = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
  const workerData: ThreadData = { ordersSent, parent };
  // It prints nothing. Streams that are joined to this process's own would make Node warn of the eleventh thread.
  const worker = new Worker(WORKER_FILE, { workerData, stdout: true, stderr: true });
  const exited = Promise.withResolvers<void>();
  /** In the order in which the thread does them. */
  let underWay: readonly PromiseWithResolvers<unknown>[] = [];
  let failed: unknown;
  let ended = false;
  let isClosing = false;
  /** A thread that cannot load ONNX Runtime never replies. */
  let hasReplied = false;

  worker.on('message', (reply: OrderReply) => {
    const [order, ...others] = underWay;
    underWay = others;
    hasReplied = true;
    if (others.length === 0) worker.unref();
    if ('error' in reply) order?.reject(new Error(reply.error));
    else order?.resolve(reply.given);
  });
  // What it threw outside of any order; it ends next.
  worker.on('error', (error) => {
    failed = error;
  });
  worker.on('exit', (code) => {
    ended = true;
    const reason = failed === undefined ? `with code ${code}` : `by an error: ${messageOf(failed)}`;
    const lost = new Error(`session thread ended ${reason}`, { cause: failed });
    for (const order of underWay) order.reject(lost);
    exited.resolve();
    // What it was running is as lost as after a crash in native code: the process ends with it.
    if (hasReplied && !isClosing && underWay.length > 0) queueMicrotask(() => rethrow(lost));
    underWay = [];
  });
  // Nothing keeps the process alive for a thread that has nothing to do.
  worker.unref();

  const send = (message: OrderMessage, transferred: readonly ArrayBuffer[] = []): void => {
    worker.postMessage(message, transferred);
    Atomics.add(ordersSent, 0, 1);
    Atomics.notify(ordersSent, 0);
  };
  return {
    async call(order, argument, transferred) {
      if (ended) throw new Error('session thread has exited');
      send({ order, argument }, transferred);
      worker.ref();
      const replied = Promise.withResolvers<unknown>();
      underWay = [...underWay, replied];
      return replied.promise as Promise<ReturnType<SessionOrders[typeof order]>>;
    },
    hasEnded: () => ended,
    async close() {
      isClosing = true;
      worker.ref();
      if (!ended) send({ order: 'close', argument: undefined });
      await exited.promise;
    },
  };
}

function rethrow(error: Error): never {
  throw error;
}

/**
 * Keeps ONNX Runtime from sending its maker what it runs (names of model file and graph, hashes of weights) and from
 * writing to the home directory: it does both by default. To be called before the first session: it reads the
 * environment of the process then, which `process.env` writes to on the main thread alone.
 *
 * @throws Error in a worker thread whose process is not told so
 */
export function turnRuntimeTelemetryOff(): void {
  if (isMainThread) process.env[RUNTIME_TELEMETRY_OFF] = '1';
  const value = process.env[RUNTIME_TELEMETRY_OFF];
  if (value === '1') return;
  throw new Error(
    `expected ${RUNTIME_TELEMETRY_OFF}=1 in the environment of a process that opens models in worker threads, ` +
      `got ${value ?? 'none'}; set it before the process starts: else ONNX Runtime sends its maker the model's name and hashes`,
  );
}

/**
 * Has the kernel end this process before others when memory ends.
 *
 * @see https://man7.org/linux/man-pages/man5/proc_pid_oom_score_adj.5.html
 */
export function goFirstWhenMemoryEnds(): void {
  try {
    writeFileSync('/proc/self/oom_score_adj', '1000');
  } catch {
    // Not every system has it.
  }
}
