import { statSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { isMainThread, Worker } from 'node:worker_threads';
import { orAborted } from '../aws/clock.ts';
import { RUNTIME_TELEMETRY_OFF } from '../configKeys.ts';
import { type Deferred, deferred } from '../core/concurrency.ts';
import { messageOf } from '../core/failure.ts';
import { ModelUnavailableError, RunAbandonedError } from '../core/model.ts';

import { describeCards, listProviders, nameOf, onCard, type Provider, runOnGpu } from './provider.ts';
import {
  type JobMessage,
  type JobName,
  type JobReply,
  memoryOf,
  type RunReply,
  type RunTask,
  type SessionJobs,
  type SessionMetadata,
  type SessionSpec,
  type ThreadData,
  WAITING,
  type Waiting,
  type WaitingChoice,
  WITHDRAWN,
} from './sessionJobs.ts';
import { maySpin } from './waiting.ts';

/** A model's ONNX Runtime sessions, one for each card, each in a worker thread of its own. */
export interface Session {
  readonly metadata: OpenMetadata;
  /** How many runs are under way at the same time at most. */
  readonly cards: number;
  /**
   * Runs on the first card that is free. A run that is given up is left behind with its thread; the next one there has
   * the model opened anew in a fresh thread.
   *
   * @param card the only one that will do, from 0 to below `cards`. @default any
   * @throws ModelUnavailableError when the thread died or the model cannot be opened, RunAbandonedError when the signal
   *   is aborted first; anything else is the run's own failure
   */
  run(task: RunTask, signal?: AbortSignal, card?: number): Promise<SessionReply>;
  /**
   * To be called after the warm-up: from then on short runs are not shared among the cores, and threads that share longer
   * ones wait for the next as was found faster.
   */
  warmedUp(): Promise<WarmThreads>;
  /** Ends the threads after the runs that were asked for. Runs that were left behind are not waited for. */
  close(): Promise<void>;
}

interface WarmThreads {
  /** Threads that runs are spread over; undefined: as many as ONNX Runtime takes. */
  readonly threads: number | undefined;
  /** How they wait for the next run, for the start log; undefined where nothing was looked for. */
  readonly waiting: string | undefined;
}

export interface SessionReply extends RunReply {
  /** Where it ran. */
  readonly card: number;
}

/**
 * A model that runs one or two rows in less takes a millisecond or two for hundreds. Sharing such runs among the cores
 * gains less than its threads take from decoding and encoding, and every operator waits for all of them.
 */
const SHORT_RUN_MS = 0.1;

/** On a GPU the cores are not what runs share, and what a session there takes of the host's memory it does not give back. */
export function runsBetterOnOneCore({ providers }: Pick<SessionSpec, 'providers'>, fastestMs: number): boolean {
  return !runOnGpu(providers) && fastestMs < SHORT_RUN_MS;
}

/** To be opened a second time, a model must take little of the start, and of the memory. */
const LONGEST_OPENING_MS = 3_000;
const MOST_BYTES_TO_OPEN_TWICE = 67_108_864;

/**
 * Starts a thread for each card, opens a session in it and reads its metadata.
 *
 * @param stuckRuns holds something for every run that was left behind, until it ends
 * @throws Error when a provider is not known or the model cannot be loaded
 */
export async function openSession(spec: SessionSpec, stuckRuns: Set<object> = new Set()): Promise<Session> {
  const specs = specsOfCards(spec);
  const threads = specs.map((ofCard) => createOpenThread(ofCard, stuckRuns));
  const turns = createTurns(threads.length);
  const startedAt = performance.now();
  const metadata = await openAll(threads);
  const openMs = performance.now() - startedAt;
  const sample = createSampleRun();
  let fastestMs = Number.POSITIVE_INFINITY;
  let closed = false;
  const onEveryCard = async (work: (thread: OpenThread, spec: SessionSpec) => Promise<void>): Promise<void> => {
    const working = threads.map((thread, card) =>
      turns.take(() => work(thread, specs[card] as SessionSpec), undefined, card),
    );
    await Promise.all(working);
  };
  return {
    metadata,
    cards: threads.length,
    async run(task, signal, only) {
      if (closed) throw new ModelUnavailableError('expected a model that is open, got one that was closed');
      const next = threads.length === 1 && turns.wouldBeNext() ? handOver(threads[0] as OpenThread, task) : undefined;
      const runOn = async (card: number): Promise<SessionReply> => {
        const ran = sample.offer(task);
        const reply = await runIn(threads[card] as OpenThread, task, signal, next);
        ran(reply.runMs);
        fastestMs = Math.min(fastestMs, reply.runMs);
        return { ...reply, card };
      };
      try {
        return await turns.take(runOn, signal, only);
      } finally {
        next?.withdraw();
      }
    },
    async warmedUp() {
      const task = sample.take();
      const { intraOpNumThreads: given } = spec.sessionOptions;
      if (given === undefined && runsBetterOnOneCore(spec, fastestMs)) {
        await onEveryCard((thread, ofCard) =>
          thread.reopen({ ...ofCard, sessionOptions: { ...ofCard.sessionOptions, intraOpNumThreads: 1 } }),
        );
        return { threads: 1, waiting: undefined };
      }
      const threadCount = typeof given === 'number' && given > 0 ? given : undefined;
      const isCheap = openMs <= LONGEST_OPENING_MS && !isLarge(spec);
      if (task === undefined || !isCheap || !maySpin(spec)) return { threads: threadCount, waiting: undefined };
      const choice = { spec, task, limitMs: openMs / 2 };
      const waiting = await turns.take(() => chooseWaiting(threads[0] as OpenThread, choice));
      return { threads: threadCount, waiting: describeWaiting(waiting) };
    },
    async close() {
      closed = true;
      await onEveryCard((thread) => thread.close());
    },
  };
}

function isLarge({ path }: SessionSpec): boolean {
  return statSync(path).size > MOST_BYTES_TO_OPEN_TWICE;
}

/** A session that cannot be opened a second time stays as it is. */
async function chooseWaiting(openThread: OpenThread, choice: WaitingChoice): Promise<Waiting> {
  const { thread } = await openThread.ready();
  const waiting = await thread.call('chooseWaiting', choice).catch((): Waiting => 'asleep');
  openThread.reopenLaterAs({ ...choice.spec, waiting });
  return waiting;
}

function describeWaiting(waiting: Waiting): string {
  return waiting === 'spinning'
    ? 'its threads spin for a millisecond after a run, which was found faster'
    : 'its threads sleep between runs, as spinning was not found faster';
}

function specsOfCards({ devices, ...spec }: SessionSpec): SessionSpec[] {
  if (devices === undefined) return [spec];
  return devices.map((device) => ({ ...spec, providers: spec.providers.map((one) => onCard(one, device)) }));
}

/** Runs whose inputs hold more take so long that what passes between two of them is nothing. */
const MOST_BYTES_HANDED_OVER = 262_144;

/**
 * Hands a run over to the thread while another one is under way: what passes between two runs otherwise, there and back,
 * is a tenth of a run of two milliseconds. The inputs are copied; should that thread be left behind, they go to the next.
 */
function handOver(openThread: OpenThread, task: RunTask): NextJob<RunReply> | undefined {
  if (task.inputs.some(({ data }) => Array.isArray(data))) return undefined;
  const bytes = memoryOf(task.inputs).reduce((sum, { byteLength }) => sum + byteLength, 0);
  const thread = openThread.readyNow();
  // Before the run that has its turn was sent, this one would come first.
  return bytes <= MOST_BYTES_HANDED_OVER && thread?.isBusy() ? thread.callNext('run', task) : undefined;
}

/** @param next the same run, handed over to a thread that may be another one by now */
async function runIn(
  openThread: OpenThread,
  task: RunTask,
  signal: AbortSignal | undefined,
  next: NextJob<RunReply> | undefined,
): Promise<RunReply> {
  const { thread } = await openThread.ready(signal).catch(explainNotOpen);
  const startedAt = performance.now();
  const abandon = (): RunAbandonedError => {
    openThread.leaveBehind();
    const ranMs = performance.now() - startedAt;
    return new RunAbandonedError(
      `expected the run to end in its time, got none after ${Math.round(ranMs)} ms; it was left behind`,
      ranMs,
    );
  };
  try {
    if (next?.thread !== thread) next?.withdraw();
    const reply = next?.thread === thread ? next.reply : thread.call('run', task, memoryOf(task.inputs));
    return await orAborted(reply, signal, abandon);
  } catch (cause) {
    if (!(cause instanceof ThreadDiedError)) throw cause;
    throw new ModelUnavailableError('the thread that runs the model died; it is started again', {
      cause,
      mayBeTheRuns: true,
    });
  }
}

function explainNotOpen(cause: unknown): ReadyThread {
  if (cause instanceof RunAbandonedError) throw cause;
  throw new ModelUnavailableError(`the model cannot be opened: ${messageOf(cause)}`, { cause });
}

interface ProviderFallback {
  /** Go on with the next provider, with a warning, when one cannot be loaded. */
  readonly allowProviderFallback: boolean;
  /** Told of every provider that is passed over. */
  readonly warn: (message: string) => void;
  /** Whether a provider can open a model on several cards; for others `devices` says nothing. */
  readonly takesCards: (provider: Provider) => boolean;
}

interface OpenedWithProviders {
  readonly session: Session;
  /** Those that it was opened with, first choice first. */
  readonly providers: readonly Provider[];
  /** The cards that were chosen, if any. */
  readonly devices: readonly number[] | undefined;
}

/**
 * Opens a session on the first of its providers, or on a later one where that is allowed.
 *
 * @param stuckRuns holds something for every run that was left behind, until it ends
 * @throws Error naming the model file, and the provider or what is wrong with the model
 */
export async function openWithProviders(
  spec: SessionSpec,
  fallback: ProviderFallback,
  stuckRuns: Set<object>,
): Promise<OpenedWithProviders> {
  const { path, providers } = spec;
  const [first = 'cpu', ...rest] = providers;
  try {
    const devices = fallback.takesCards(first) ? spec.devices : undefined;
    return { session: await openSession({ ...spec, devices }, stuckRuns), providers, devices };
  } catch (cause) {
    if (cause instanceof UnknownProviderError) throw new Error(`${path}: ${cause.message}`, { cause });
    if (nameOf(first) === 'cpu' || !(await opensOnCpu(spec))) {
      throw new Error(`${path}: cannot be loaded: ${explainLoadError(messageOf(cause))}`, { cause });
    }
    const found = await describeCards(first);
    const hint = found === undefined ? PROVIDER_HINT : `${found}; ${PROVIDER_HINT}`;
    const reason = `execution provider '${nameOf(first)}' is not available (${messageOf(cause)}); ${hint}`;
    if (!fallback.allowProviderFallback || rest.length === 0) {
      throw new Error(`${path}: ${reason}; or choose another provider, or allow falling back to the next`, { cause });
    }
    fallback.warn(`${path}: ${reason}; falling back to ${listProviders(rest)} as configured`);
    return openWithProviders({ ...spec, providers: rest }, fallback, stuckRuns);
  }
}

const PROVIDER_HINT =
  'for cuda, libonnxruntime_providers_shared.so and libonnxruntime_providers_cuda.so must lie beside the binding of ' +
  "onnxruntime-node, CUDA and cuDNN on the library path, and the driver's libcuda.so.1 on the machine";

/** Whether the model itself is sound: ONNX Runtime's errors do not tell a provider's failure from a model's. */
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
 * Opens a model on each of its cards: on the first alone, because where that cannot be done the others need not be
 * tried, then on all the others.
 *
 * @param threads one for each card, at least one
 * @throws Error of the first card on which it cannot be opened; then it is open on none
 */
export async function openAll(threads: readonly OpenThread[]): Promise<OpenMetadata> {
  const [first, ...others] = threads as readonly [OpenThread, ...OpenThread[]];
  const { metadata } = await first.ready();
  const opened = await Promise.allSettled(others.map((thread) => thread.ready()));
  const failed = opened.find(({ status }) => status === 'rejected');
  if (failed?.status !== 'rejected') return metadata;
  await Promise.all(threads.map((thread) => thread.close()));
  throw failed.reason;
}

/** The thread that has the session open. One that died, or was left behind, is replaced when it is needed next. */
export interface OpenThread {
  /**
   * The thread, once its session is open. Opening goes on when the signal is aborted: whoever needs it next finds it.
   *
   * @throws RunAbandonedError when the signal is aborted first; anything else is why the session cannot be opened
   */
  ready(signal?: AbortSignal): Promise<ReadyThread>;
  /** The thread that has the session open at this moment, if one has. */
  readyNow(): SessionThread | undefined;
  /** Opens the session again as `spec` says, in the same thread. Later threads open it so too. */
  reopen(spec: SessionSpec): Promise<void>;
  /** Later threads open the session as `spec` says. */
  reopenLaterAs(spec: SessionSpec): void;
  /** Has the thread end with the run that it is in. Until then it is one of the stuck runs. */
  leaveBehind(): void;
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
  isOpen: boolean;
}

/** @param stuckRuns holds a thread for every run that was left behind, until it ends */
function createOpenThread(spec: SessionSpec, stuckRuns: Set<object>): OpenThread {
  let latestSpec = spec;
  let current: Opening | undefined;
  const openIn = (thread: SessionThread): Opening => {
    const opening: Opening = { thread, opened: open(thread, latestSpec), isOpen: false };
    const opened = (): void => {
      opening.isOpen = true;
    };
    opening.opened.then(opened, () => {});
    current = opening;
    return opening;
  };
  const ready = async (signal?: AbortSignal): Promise<ReadyThread> => {
    if (current?.thread.hasEnded()) current = undefined;
    const { thread, opened } = current ?? openIn(startThread());
    try {
      return { thread, metadata: await orAborted(opened, signal, withdrawn) };
    } catch (error) {
      if (error instanceof RunAbandonedError) throw error;
      current = undefined;
      await thread.close();
      throw error;
    }
  };
  return {
    ready,
    readyNow: () => (current?.isOpen && !current.thread.hasEnded() ? current.thread : undefined),
    async reopen(spec) {
      latestSpec = spec;
      if (current !== undefined) openIn(current.thread);
      await ready();
    },
    reopenLaterAs(spec) {
      latestSpec = spec;
    },
    leaveBehind() {
      if (current === undefined) return;
      const { thread } = current;
      current = undefined;
      stuckRuns.add(thread);
      void thread.close().then(() => stuckRuns.delete(thread));
    },
    async close() {
      await current?.thread.close();
    },
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
    throw new UnknownProviderError(`expected execution providers among ${known.join(', ')}, got ${unknown.join(', ')}`);
  }
  return { ...(await thread.call('open', spec)), libraryMs };
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

/** What is wrong, in words, and what to do: ONNX Runtime itself says `Unsupported data type: 16`. */
function explainLoadError(message: string): string {
  if (message.includes("package 'onnxruntime-node'")) {
    return `${message}; run npm install onnxruntime-node --onnxruntime-node-install=skip (for CPU)`;
  }
  return message.replace(/(Unsupported data type: )(\d+)/, (whole, text: string, number: string) => {
    const name = TYPES_NOT_CARRIED[number];
    return name === undefined ? whole : `${text}${name}, which ONNX Runtime for Node cannot carry; export another type`;
  });
}

/** Lets work be done at some places, at each one after the other, first come, first served. */
interface Turns {
  /**
   * Does `work` at the first place that is free.
   *
   * @param place the only place that will do. @default any
   * @throws RunAbandonedError when the signal is aborted before its turn comes: it is never started
   */
  take<T>(work: (place: number) => Promise<T>, signal?: AbortSignal, place?: number): Promise<T>;
  /** Whether work that is given now would be the next, and not at once. */
  wouldBeNext(): boolean;
}

interface Waiter {
  readonly turn: Deferred<number>;
  readonly wanted: number | undefined;
}

/** @param places how many there are, numbered from 0 */
export function createTurns(places = 1): Turns {
  const free = new Set(Array.from({ length: places }, (_, place) => place));
  const waiting = new Set<Waiter>();
  const myTurn = async (signal: AbortSignal | undefined, wanted: number | undefined): Promise<number> => {
    const one = { turn: deferred<number>(), wanted };
    waiting.add(one);
    // At once: a turn that is given to one who has gone would never be passed on.
    const withdraw = (): void => {
      if (waiting.delete(one)) one.turn.reject(withdrawn());
    };
    signal?.addEventListener('abort', withdraw);
    return one.turn.promise.finally(() => signal?.removeEventListener('abort', withdraw));
  };
  const firstFree = (wanted: number | undefined): number | undefined =>
    [...free].find((place) => wanted === undefined || place === wanted);
  const passOn = (place: number): void => {
    const next = [...waiting].find(({ wanted }) => wanted === undefined || wanted === place);
    if (next === undefined) {
      free.add(place);
      return;
    }
    waiting.delete(next);
    next.turn.resolve(place);
  };
  return {
    wouldBeNext: () => free.size === 0 && waiting.size === 0,
    async take(work, signal, wanted) {
      if (signal?.aborted) throw withdrawn();
      const found = firstFree(wanted);
      if (found !== undefined) free.delete(found);
      const place = found ?? (await myTurn(signal, wanted));
      try {
        return await work(place);
      } finally {
        passOn(place);
      }
    },
  };
}

function withdrawn(): RunAbandonedError {
  return new RunAbandonedError('expected the run to start in its time, got no turn until then; it was withdrawn');
}

/** Keeps one of the runs that a model was warmed up with, to be run again. */
interface SampleRun {
  /** To be called before the run, which takes the memory of its inputs. @returns to be called with what it took */
  offer(task: RunTask): (runMs: number) => void;
  /** The shortest of a millisecond or more, else the longest. Undefined where all were long: there, waiting is a small part. */
  take(): RunTask | undefined;
}

const ENOUGH_MS = 1;
const LONGEST_MS = 20;
const MOST_BYTES = 1_048_576;

export function createSampleRun(): SampleRun {
  let kept: { readonly task: RunTask; readonly runMs: number } | undefined;
  let isTaken = false;
  return {
    offer(task) {
      if (isTaken) return () => {};
      const bytes = memoryOf(task.inputs).reduce((sum, { byteLength }) => sum + byteLength, 0);
      if (bytes > MOST_BYTES) return () => {};
      const copy = structuredClone(task);
      return (runMs) => {
        if (!isTaken && isBetter(runMs, kept?.runMs)) kept = { task: copy, runMs };
      };
    },
    take() {
      const task = kept?.task;
      kept = undefined;
      isTaken = true;
      return task;
    },
  };
}

function isBetter(runMs: number, keptMs = 0): boolean {
  if (runMs > LONGEST_MS) return false;
  return keptMs >= ENOUGH_MS ? runMs >= ENOUGH_MS && runMs < keptMs : runMs > keptMs;
}

/** A worker thread that holds one session and does one job after the other. */
export interface SessionThread {
  /** @throws ThreadDiedError when the thread ends before it replies; anything else is the job's own failure */
  call<J extends JobName>(
    job: J,
    argument: Parameters<SessionJobs[J]>[0],
    transferred?: readonly ArrayBuffer[],
  ): Promise<ReturnType<SessionJobs[J]>>;
  /**
   * Hands a job over while another is under way: it is begun as soon as that one has ended. The memory of its argument is
   * copied, so that the job can be given to another thread instead.
   */
  callNext<J extends JobName>(job: J, argument: Parameters<SessionJobs[J]>[0]): NextJob<ReturnType<SessionJobs[J]>>;
  /** Whether it has a job to do. */
  isBusy(): boolean;
  /** Whether it takes no more jobs. */
  hasEnded(): boolean;
  /**
   * Has the thread close its session and end, after the job under way. It is never terminated: inside of native code
   * that would take the process with it.
   *
   * @returns when it has ended
   */
  close(): Promise<void>;
}

/** A job that was handed over before its turn. */
interface NextJob<T> {
  readonly thread: SessionThread;
  /** As that of a call; nobody has to wait for it. */
  readonly reply: Promise<T>;
  /** @returns false when it was begun already */
  withdraw(): boolean;
}

/** The thread is gone, and the job it had with it. */
class ThreadDiedError extends Error {
  override readonly name = 'ThreadDiedError';
}

const RUNS_FROM_SOURCE = import.meta.url.endsWith('.ts');
const WORKER_FILE = fileURLToPath(new URL(`./sessionWorker.${RUNS_FROM_SOURCE ? 'ts' : 'js'}`, import.meta.url));

/** @throws Error in a worker thread, where ONNX Runtime's telemetry is not off */
export function startThread(): SessionThread {
  turnRuntimeTelemetryOff();
  const jobsSent = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
  const workerData: ThreadData = { jobsSent };
  // It prints nothing. Streams that are joined to this process's own would make Node warn of the eleventh thread.
  const worker = new Worker(WORKER_FILE, { workerData, stdout: true, stderr: true });
  const exited = deferred();
  /** In the order in which the thread does them. */
  let underWay: readonly Deferred<unknown>[] = [];
  let failed: unknown;
  let ended = false;

  worker.on('message', (reply: JobReply) => {
    const [job, ...others] = underWay;
    underWay = others;
    if (others.length === 0) worker.unref();
    if ('error' in reply) job?.reject(new Error(reply.error));
    else job?.resolve(reply.given);
  });
  // What it threw outside of any job; it ends next.
  worker.on('error', (error) => {
    failed = error;
  });
  worker.on('exit', (code) => {
    ended = true;
    const reason = failed === undefined ? `with code ${code}` : `by an error: ${messageOf(failed)}`;
    for (const job of underWay) job.reject(new ThreadDiedError(`the thread ended ${reason}`, { cause: failed }));
    underWay = [];
    exited.resolve();
  });
  // Nothing keeps the process alive for a thread that has nothing to do.
  worker.unref();

  const send = (message: JobMessage, transferred: readonly ArrayBuffer[] = []): void => {
    worker.postMessage(message, transferred);
    Atomics.add(jobsSent, 0, 1);
    Atomics.notify(jobsSent, 0);
  };
  const sendAndAwait = (message: JobMessage, transferred?: readonly ArrayBuffer[]): Deferred<unknown> => {
    send(message, transferred);
    worker.ref();
    const replied = deferred<unknown>();
    underWay = [...underWay, replied];
    return replied;
  };
  const thread: SessionThread = {
    async call(job, argument, transferred) {
      if (ended) throw new ThreadDiedError('expected a thread to run in, got one that has ended');
      const { promise } = sendAndAwait({ job, argument }, transferred);
      return promise as Promise<ReturnType<SessionJobs[typeof job]>>;
    },
    callNext(job, argument) {
      const stage = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
      const replied = sendAndAwait({ job, argument, stage });
      replied.promise.catch(() => {});
      return {
        thread,
        reply: replied.promise as Promise<ReturnType<SessionJobs[typeof job]>>,
        withdraw() {
          if (Atomics.compareExchange(stage, 0, WAITING, WITHDRAWN) !== WAITING) return false;
          underWay = underWay.filter((job) => job !== replied);
          if (underWay.length === 0) worker.unref();
          return true;
        },
      };
    },
    isBusy: () => underWay.length > 0,
    hasEnded: () => ended,
    async close() {
      worker.ref();
      if (!ended) send({ job: 'close', argument: undefined });
      await exited.promise;
    },
  };
  return thread;
}

/**
 * Keeps ONNX Runtime from sending its maker what it runs (names of model file and graph, hashes of weights) and from writing
 * to the home directory: it does both by default. To be called before the first session: it reads the environment of the
 * process then, which `process.env` writes to on the main thread alone.
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
