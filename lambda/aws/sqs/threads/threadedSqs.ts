import { performance } from 'node:perf_hooks';
import type { ReceiveMessageCommand } from '@aws-sdk/client-sqs';
import { type Clock, SYSTEM_CLOCK } from '../../clock.ts';
import { type CallReport, reported } from '../../observedCalls.ts';
import { orAborted } from '../../orAborted.ts';
import { createSqsCaller, type SqsCaller, type SqsCallerSpec } from '../caller.ts';
import { COMMANDS, type Operation } from './calls.ts';
import { type CallThread, startCallThread } from './startCallThread.ts';

export interface ThreadedSqsOptions {
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

export interface ThreadedSqs extends SqsCaller {
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

const OPERATIONS = new Map<unknown, Operation>(
  Object.entries(COMMANDS).map(([operation, command]) => [command, operation as Operation]),
);

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
