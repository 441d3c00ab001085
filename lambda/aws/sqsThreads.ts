import { performance } from 'node:perf_hooks';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import {
  ChangeMessageVisibilityBatchCommand,
  DeleteMessageBatchCommand,
  ReceiveMessageCommand,
  SendMessageBatchCommand,
} from '@aws-sdk/client-sqs';
import { type Deferred, deferred } from '../core/concurrency.ts';
import { messageOf } from '../core/failure.ts';

import { type Clock, orAborted, SYSTEM_CLOCK } from './clock.ts';
import { type CallReport, reported } from './observedCalls.ts';
import { createSqsCaller, type SqsCaller, type SqsCallerSpec } from './sqsCalls.ts';

interface ThreadedSqsOptions {
  readonly spec: SqsCallerSpec;
  /** 0: none is ever started. */
  readonly mostThreads: number;
  /** Told of each call once it has ended. @default nobody asks */
  readonly onCall?: ((report: CallReport) => void) | undefined;
  /** Told how many threads make calls, when there is one more. */
  readonly onThread: (threads: number) => void;
  /** Told of a thread that ended. */
  readonly onProblem: (error: unknown) => void;
  /** @default the system's */
  readonly clock?: Clock | undefined;
}

interface ThreadedSqs extends SqsCaller {
  /** Ends the threads; calls under way are rejected. */
  close(): Promise<void>;
}

/** Of whoever makes calls, until one more makes them too. */
const BUSY_SHARE = 0.7;
export const LOOK_MS = 1_000;

/**
 * Makes calls of SQS on this event loop, until that is busy; then in a thread, and in one more whenever all of them are
 * busy. Serializing, signing, TLS and parsing are theirs, and what a call sends and receives crosses at once. One that
 * ends is replaced the next time there is too much to do.
 *
 * A call whose signal aborts is rejected, and left to its own time in its thread.
 */
export function createThreadedSqs(options: ThreadedSqsOptions): ThreadedSqs {
  const { spec, mostThreads, onCall, onThread, onProblem, clock = SYSTEM_CLOCK } = options;
  const own = createSqsCaller(spec, onCall);
  const ownBusyShare = busyShare(performance.eventLoopUtilization);
  const threads: Thread[] = [];
  let starting: CallThread | undefined;
  let lookAt = clock.now() + LOOK_MS;
  let turn = 0;
  let closed = false;

  const look = (): void => {
    if (starting !== undefined || clock.now() < lookAt) return;
    lookAt = clock.now() + LOOK_MS;
    const shares = threads.length === 0 ? [ownBusyShare()] : threads.map((thread) => thread.busyShare());
    if (Math.min(...shares) >= BUSY_SHARE && threads.length < mostThreads) start();
  };
  const start = (): void => {
    const thread = startCallThread(spec);
    const started = { ...thread, busyShare: busyShare(thread.eventLoopUtilization) };
    starting = thread;
    void thread.ready.then(() => {
      starting = undefined;
      onThread(threads.push(started));
    });
    void thread.ended.then((reason) => {
      if (starting === thread) starting = undefined;
      if (threads.includes(started)) threads.splice(threads.indexOf(started), 1);
      if (!closed) onProblem(reason);
    });
  };
  const send = async (command: ReceiveMessageCommand, options: { readonly abortSignal?: AbortSignal } = {}) => {
    look();
    const operation = OPERATIONS.get(command.constructor);
    const thread = threads[turn++ % threads.length];
    if (operation === undefined || thread === undefined) return own.send(command, options);
    const { abortSignal } = options;
    abortSignal?.throwIfAborted();
    const { input } = command;
    const call = (): Promise<object> => orAborted(thread.call(operation, input), abortSignal, requestAborted);
    return onCall === undefined ? call() : reported({ aws: 'SQS', operation, input }, onCall, call);
  };
  return {
    // Each command has an overload of its own.
    send: send as SqsCaller['send'],
    async close() {
      closed = true;
      await Promise.all([starting, ...threads].map((thread) => thread?.close()));
    },
  };
}

interface Thread extends CallThread {
  readonly busyShare: () => number;
}

/** @returns what gives the share of the time since it was last asked in which an event loop did something */
function busyShare(utilization: CallThread['eventLoopUtilization']): () => number {
  let before = utilization();
  return () => {
    const now = utilization();
    const share = utilization(now, before).utilization;
    before = now;
    return share;
  };
}

/** As the SDK says it. */
function requestAborted(): Error {
  return Object.assign(new Error('Request aborted'), { name: 'AbortError' });
}

/** A thread that makes calls of SQS. */
interface CallThread {
  /** @throws what the call throws, or that the thread has ended: SQS may have done what it was asked by then */
  call(operation: Operation, input: object): Promise<object>;
  /** Like `performance.eventLoopUtilization` of this thread. */
  readonly eventLoopUtilization: Worker['performance']['eventLoopUtilization'];
  /** Resolves when it can make calls; never, if it ends before that. */
  readonly ready: Promise<void>;
  /** Resolves when it has ended, with the reason. */
  readonly ended: Promise<Error>;
  /** Ends the thread; calls under way are rejected. */
  close(): Promise<void>;
}

const RUNS_FROM_SOURCE = import.meta.url.endsWith('.ts');
const THREAD_FILE = fileURLToPath(new URL(`./callThread.${RUNS_FROM_SOURCE ? 'ts' : 'js'}`, import.meta.url));

function startCallThread(workerData: SqsCallerSpec): CallThread {
  // It prints nothing. Streams that are joined to this process's own would make Node warn of the eleventh thread.
  const thread = new Worker(THREAD_FILE, { workerData, stdout: true, stderr: true });
  const underWay = new Map<number, Deferred<object>>();
  const [ready, ended] = [deferred(), deferred<Error>()];
  let failed: unknown;
  let endedBy: Error | undefined;
  let calls = 0;

  thread.on('message', (reply: CallReply) => {
    if (reply === READY) return ready.resolve();
    const call = underWay.get(reply.id);
    underWay.delete(reply.id);
    if ('output' in reply) call?.resolve(reply.output);
    else call?.reject(toError(reply.error));
  });
  // What it threw outside of any call; it ends next.
  thread.on('error', (error) => {
    failed = error;
  });
  thread.on('exit', (code) => {
    const reason = failed === undefined ? `with code ${code}` : `by an error: ${messageOf(failed)}`;
    endedBy = new Error(`a thread that calls SQS ended ${reason}`, { cause: failed });
    for (const call of underWay.values()) call.reject(endedBy);
    ended.resolve(endedBy);
  });
  // Whoever waits for a call has more to wait for than this thread.
  thread.unref();

  return {
    async call(operation, input) {
      if (endedBy !== undefined) throw endedBy;
      const id = calls++;
      const answered = deferred<object>();
      underWay.set(id, answered);
      thread.postMessage({ id, operation, input } satisfies CallMessage);
      return answered.promise;
    },
    eventLoopUtilization: thread.performance.eventLoopUtilization,
    ready: ready.promise,
    ended: ended.promise,
    close: async () => void (await thread.terminate()),
  };
}

/** The calls that threads make, by operation. */
export const COMMANDS = {
  ReceiveMessage: ReceiveMessageCommand,
  SendMessageBatch: SendMessageBatchCommand,
  DeleteMessageBatch: DeleteMessageBatchCommand,
  ChangeMessageVisibilityBatch: ChangeMessageVisibilityBatchCommand,
} as const;

type Operation = keyof typeof COMMANDS;

const OPERATIONS = new Map<unknown, Operation>(
  Object.entries(COMMANDS).map(([operation, command]) => [command, operation as Operation]),
);

/** A call for a thread to make: up to ten messages cross at a time, and many more requests where they are packed. */
export interface CallMessage {
  readonly id: number;
  readonly operation: Operation;
  readonly input: object;
}

/** Said by a thread once it can make calls. */
export const READY = 'ready';

export type CallReply =
  | typeof READY
  | { readonly id: number; readonly output: object }
  | { readonly id: number; readonly error: PortableError };

/** What is read of an SDK's error. Structured cloning would leave an `Error` nothing but its message and stack. */
interface PortableError {
  readonly name: string;
  readonly message: string;
  /** Of the system, such as `ECONNREFUSED`. */
  readonly code: unknown;
  readonly $fault: unknown;
  readonly $metadata: { readonly httpStatusCode: unknown; readonly clockSkewCorrected: unknown };
}

export function toPortable(error: unknown): PortableError {
  const { name, message, code, $fault, $metadata } = Object(error);
  return {
    name: String(name),
    message: String(message),
    code,
    $fault,
    $metadata: {
      httpStatusCode: $metadata?.httpStatusCode,
      clockSkewCorrected: $metadata?.clockSkewCorrected,
    },
  };
}

function toError({ message, ...rest }: PortableError): Error {
  return Object.assign(new Error(message), rest);
}
