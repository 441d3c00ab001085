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

/** ONNX Runtime sessions of a model, one for each device, each in its own worker thread. */
export interface Session {
  readonly metadata: OpenMetadata;
  readonly devices: number;
  /**
   * Runs on the first free device.
   *
   * @param signal aborted if the run must not start any more. A run that has started cannot be stopped
   * @param device number of the only device to use, below `devices`. @default any
   * @param onStart called just before the thread gets the inputs
   * @throws ModelUnavailableError if the model was closed, RunWithdrawnError if the signal aborts before the run
   *   starts; any other error is the run's own failure
   */
  run(task: RunTask, signal?: AbortSignal, device?: number, onStart?: () => void): Promise<SessionReply>;
  /**
   * Ends the warm-up. From now on short runs use one core.
   *
   * @returns number of threads of a run, or undefined if ONNX Runtime chooses
   */
  endWarmUp(): Promise<number | undefined>;
  /**
   * Opens the model with other options in another thread, and replaces the session between two runs. If that fails, or
   * the model has changed, the session stays.
   *
   * @param isSame returns true if the files are still those of the open session
   * @throws Error if the session stays
   */
  replace(sessionOptions: SessionSpec['sessionOptions'], isSame: () => boolean): Promise<void>;
  /** Ends the threads after the requested runs. */
  close(): Promise<void>;
}

export interface SessionReply extends RunReply {
  readonly device: number;
}

/**
 * Time of one or two rows below which a run uses one core. For such a model hundreds of rows take only a millisecond or
 * two. Using all cores for them gains less than it takes from decoding and encoding, and every operator waits for all
 * threads: on two cores a model of 0.03 ms goes from 0.1 to 0.16 ms.
 */
const SHORT_RUN_MS = 0.2;

/**
 * Returns true if runs are fast enough for one core. On a GPU runs do not share cores, and opening the session again
 * would keep host memory.
 */
export function runsBetterOnOneCore({ providers }: Pick<SessionSpec, 'providers'>, fastestMs: number): boolean {
  return !runOnGpu(providers) && fastestMs < SHORT_RUN_MS;
}

/**
 * Opens a session for each device in its own thread, and reads its metadata.
 *
 * @throws Error if a provider is unknown or the model cannot be loaded
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
      if (closed) throw new ModelUnavailableError('expected an open model, got a closed one');
      const runOn = async (device: number): Promise<SessionReply> => {
        const { thread } = await (threads[device] as OpenThread).ready();
        onStart?.();
        const reply = await thread.call('run', task, memoryOf(task.inputs));
        fastestMs = Math.min(fastestMs, reply.runMs);
        return { ...reply, device };
      };
      return pool.run(runOn, signal, only);
    },
    async endWarmUp() {
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
  /** True to continue with the next provider, with a warning, if one cannot be loaded. */
  readonly allowProviderFallback: boolean;
  /** Takes a message about each provider that is skipped. */
  readonly warn: (message: string) => void;
  /** Returns true if a provider can open a model on several devices. Others ignore `devices`. */
  readonly takesDevices: (provider: Provider) => boolean;
}

interface OpenedWithProviders {
  readonly session: Session;
  readonly providers: readonly Provider[];
  readonly devices: readonly number[] | undefined;
}

/**
 * Opens a session on the first of its providers, or on a later one if fallback is allowed.
 *
 * @throws Error naming the model file, and the provider or the problem of the model
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
    const reason = `execution provider '${nameOf(first)}' is not available: ${hint}`;
    const said = `ONNX Runtime: ${reasonOf(messageOf(cause))}`;
    if (!fallback.allowProviderFallback || rest.length === 0) {
      throw new Error(`${path}: ${reason}; or ${CHOOSE_OTHERS}; ${said}`, { cause });
    }
    fallback.warn(`${path}: ${reason}; falling back to ${listProviders(rest)} as configured; ${said}`);
    return openWithProviders({ ...spec, providers: rest }, fallback);
  }
}

const PROVIDER_HINT =
  'for cuda, libonnxruntime_providers_shared.so and libonnxruntime_providers_cuda.so must lie beside the binding of ' +
  "onnxruntime-node, CUDA and cuDNN on the library path, and the driver's libcuda.so.1 on the machine";

const CHOOSE_OTHERS =
  'choose others with --providers, or on a host with BATCHSCORE_PROVIDERS; BATCHSCORE_ALLOW_PROVIDER_FALLBACK skips one that ' +
  'fails (docs/configuration.md)';

/** Returns CUDA's reason without the C++ signatures and files around it, or the text on one line. */
function reasonOf(text: string): string {
  return /CUDA failure \d+: [^;]+/.exec(text)?.[0].trim() ?? text.trim().replaceAll(/\s+/g, ' ');
}

/** Returns true if the model itself is valid: ONNX Runtime's errors do not distinguish providers from models. */
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
 * Opens a model on all its devices: first on one, because the others would fail for the same reason, then on the
 * others.
 *
 * @param threads one for each device, at least one
 * @throws Error of the first device that failed; the model is then open on none
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

interface OpenThread {
  /** Returns the thread when its session is open. @throws Error if the session cannot be opened */
  ready(): Promise<ReadyThread>;
  /** Opens the session with `spec` in the same thread. */
  reopen(spec: SessionSpec): Promise<void>;
  /**
   * Opens the session with `spec` in another thread, which replaces this one.
   *
   * @param between runs the exchange while no run is in progress
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
  /** Time until the thread had ONNX Runtime. */
  readonly libraryMs: number;
}

interface Opening {
  readonly thread: SessionThread;
  readonly opened: Promise<OpenMetadata>;
}

const OTHER_FILES = 'expected unchanged files of the open model, got others';

function createOpenThread(spec: SessionSpec): OpenThread {
  const openIn = (thread: SessionThread, latest: SessionSpec): Opening => {
    const opened = open(thread, latest);
    // Callers that await it get the error.
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

class UnknownProviderError extends Error {
  override readonly name = 'UnknownProviderError';
}

/** Opens a session. It checks the providers, because ONNX Runtime silently ignores unknown ones. */
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

/** npm omits an optional package silently. */
const NO_RUNTIME =
  'expected the package onnxruntime-node, got none: npm omits it if its CUDA libraries cannot be downloaded; ' +
  'run npm install onnxruntime-node --onnxruntime-node-install=skip (for CPU)';

/** Advice for errors of ONNX Runtime. */
const LOAD_ERRORS: readonly (readonly [said: RegExp, explain: (match: RegExpExecArray) => string])[] = [
  [
    /Opset (\d+) is under development.* domain (\S+) is till opset (\d+)/s,
    ([, got, domain = '', most]) =>
      domain === 'ai.onnx'
        ? `expected an opset of at most ${most}, got ${got}; export it with target_opset=${most}`
        : `expected an opset of '${domain}' of at most ${most}, got ${got}; export it with '${domain}': ${most} in ` +
          `target_opset, as in target_opset={'': 21, '${domain}': ${most}}`,
  ],
  [
    /Unsupported model IR version: (\d+), max supported IR version: (\d+)/,
    ([, got, most]) =>
      `expected an IR version of at most ${most}, got ${got}; set model.ir_version = ${most} and save it`,
  ],
  [
    /Fatal error: (\S+?)\(-?\d+\) is not a registered|No Op registered for (\S+)/,
    ([, named, unnamed]) =>
      `expected operators of ONNX and ONNX Runtime, got ${named ?? unnamed}; export without operators of your own`,
  ],
  [
    /Node input '(.*)' is not a graph input, initializer/,
    ([, name]) =>
      `expected '${name}', an input of a node, to be an input of the model, a weight or the output of another node, got ` +
      'none; export it again',
  ],
  [/graph is not acyclic/, () => 'expected nodes without a cycle, got one; export it again'],
  [
    /Type Error: Type parameter .* bound to different types/,
    () => 'columns of different types meet: export all numbers as float32 (docs/recipes.md, A pipeline over a table)',
  ],
];

/** Explains an error of ONNX Runtime, such as `Unsupported data type: 16`, with advice. */
function explainLoadError(message: string): string {
  for (const [said, explain] of LOAD_ERRORS) {
    const match = said.exec(message);
    if (match !== null) return `${explain(match)}; ONNX Runtime says: ${message.trim()}`;
  }
  return message.replace(/(Unsupported data type: )(\d+)/, (whole, text: string, number: string) => {
    const name = TYPES_NOT_CARRIED[number];
    return name === undefined ? whole : `${text}${name}, which ONNX Runtime for Node cannot carry; export another type`;
  });
}

/** Creates a pool of numbered slots. Each does one piece of work at a time, in the order of the calls. */
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
     * Does `work` in the first free slot.
     *
     * @param wanted the only slot to use. @default any
     * @throws RunWithdrawnError if the signal aborts before a slot is free: the work does not start
     */
    async run<T>(work: (slot: number) => Promise<T>, signal?: AbortSignal, wanted?: number): Promise<T> {
      if (signal?.aborted) throw withdrawn();
      let slot = [...free].find((one) => wanted === undefined || one === wanted);
      if (slot === undefined) {
        const one = { granted: Promise.withResolvers<number>(), wanted };
        waiting.push(one);
        slot = await raceAbort(one.granted.promise, signal, () => {
          // Synchronous: a slot granted to a caller that has left would be lost.
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
  return new RunWithdrawnError('expected the run to start before its deadline, got no free device; it was not started');
}

interface SessionThread {
  /** @throws Error if the thread ends before it replies; any other error is the order's own failure */
  call<O extends OrderName>(
    order: O,
    argument: Parameters<SessionOrders[O]>[0],
    transferred?: readonly ArrayBuffer[],
  ): Promise<ReturnType<SessionOrders[O]>>;
  /** Returns true if it takes no more orders. */
  hasEnded(): boolean;
  /**
   * Closes the session and ends the thread after the current order. It never terminates the thread, because that would
   * end the process if the thread is in native code.
   *
   * @returns when the thread has ended
   */
  close(): Promise<void>;
}

const RUNS_FROM_SOURCE = import.meta.url.endsWith('.ts');
const WORKER_FILE = fileURLToPath(new URL(`./sessionWorker.${RUNS_FROM_SOURCE ? 'ts' : 'js'}`, import.meta.url));

/** Thread that was started before its model was known. */
let early: SessionThread | undefined;
let parent: number | undefined;

/** Starts the thread of the next session. From now on the process ends with its parent. */
export function startThreadEarly(): void {
  parent = process.ppid;
  early ??= startThread();
}

function takeThread(): SessionThread {
  const thread = early?.hasEnded() === false ? early : startThread();
  early = undefined;
  return thread;
}

/** @throws Error in a worker thread if ONNX Runtime's telemetry is on */
function startThread(): SessionThread {
  turnRuntimeTelemetryOff();
  const ordersSent = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
  const workerData: ThreadData = { ordersSent, parent };
  // The thread prints nothing. If it inherited the streams, Node would warn from the eleventh thread on.
  const worker = new Worker(WORKER_FILE, { workerData, stdout: true, stderr: true });
  const exited = Promise.withResolvers<void>();
  /** Orders in the sequence in which the thread executes them. */
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
  // The thread threw outside of any order, and ends next.
  worker.on('error', (error) => {
    failed = error;
  });
  worker.on('exit', (code) => {
    ended = true;
    const reason = failed === undefined ? `with code ${code}` : `by an error: ${messageOf(failed)}`;
    const lost = new Error(`session thread ended ${reason}`, { cause: failed });
    for (const order of underWay) order.reject(lost);
    exited.resolve();
    // The current run is lost as after a native crash, so the process ends.
    if (hasReplied && !isClosing && underWay.length > 0) queueMicrotask(() => rethrow(lost));
    underWay = [];
  });
  // An idle thread does not keep the process alive.
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
 * Turns off two defaults of ONNX Runtime: sending its maker the names of model file and graph and hashes of weights,
 * and writing to the home directory. Call it before the first session, which reads the environment of the process. Only
 * the main thread can change that by `process.env`.
 *
 * @throws Error in a worker thread if the environment does not turn it off
 */
export function turnRuntimeTelemetryOff(): void {
  if (isMainThread) process.env[RUNTIME_TELEMETRY_OFF] = '1';
  const value = process.env[RUNTIME_TELEMETRY_OFF];
  if (value === '1') return;
  throw new Error(
    `expected ${RUNTIME_TELEMETRY_OFF}=1 in the environment of a process that opens models in worker threads, ` +
      `got ${value ?? 'none'}; set it before the process starts: otherwise ONNX Runtime sends its maker the model's name and hashes`,
  );
}

/**
 * Makes the kernel kill this process before others when memory runs out.
 *
 * @see https://man7.org/linux/man-pages/man5/proc_pid_oom_score_adj.5.html
 */
export function goFirstWhenMemoryEnds(): void {
  try {
    writeFileSync('/proc/self/oom_score_adj', '1000');
  } catch {
    // Not every system has this file.
  }
}
