import { fileURLToPath } from 'node:url';
import { isMainThread, Worker } from 'node:worker_threads';
import { RUNTIME_TELEMETRY_OFF } from '../configKeys.ts';
import { type Deferred, deferred } from '../core/base/deferred.ts';
import { messageOf } from '../core/contract/failure.ts';
import {
  type JobMessage,
  type JobName,
  type JobReply,
  type SessionJobs,
  type ThreadData,
  WAITING,
  WITHDRAWN,
} from './sessionJobs.ts';

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
export interface NextJob<T> {
  readonly thread: SessionThread;
  /** As that of a call; nobody has to wait for it. */
  readonly reply: Promise<T>;
  /** @returns false when it was begun already */
  withdraw(): boolean;
}

/** The thread is gone, and the job it had with it. */
export class ThreadDiedError extends Error {
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
