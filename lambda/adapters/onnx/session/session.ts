import { messageOf } from '../../../core/contract/failure.ts';
import { ModelUnavailableError, RunAbandonedError } from '../../../core/contract/model.ts';
import { orAborted } from '../../orAborted.ts';
import { memoryOf, type RunReply, type RunTask, type SessionMetadata, type SessionSpec } from './jobs.ts';
import { createOpenThread, type OpenThread, type ReadyThread } from './openThread.ts';
import { runOnGpu } from './provider.ts';
import { ThreadDiedError } from './thread.ts';
import { createTurns } from './turns.ts';

/** One ONNX Runtime session in a worker thread of its own. */
export interface Session {
  readonly metadata: SessionMetadata;
  /**
   * Runs when its turn comes. A run that is given up is left behind with its thread; the next one has the model opened
   * anew in a fresh thread.
   *
   * @throws ModelUnavailableError when the thread died or the model cannot be opened, RunAbandonedError when the signal
   *   is aborted first; anything else is the run's own failure
   */
  run(task: RunTask, signal?: AbortSignal): Promise<RunReply>;
  /** To be called after the warm-up: from then on short runs are not shared among the cores. */
  warmedUp(): Promise<void>;
  /** Ends the thread after the runs that were asked for. Runs that were left behind are not waited for. */
  close(): Promise<void>;
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

/**
 * Starts a thread, opens the session in it and reads its metadata.
 *
 * @param stuckRuns holds something for every run that was left behind, until it ends
 * @throws Error when a provider is not known or the model cannot be loaded
 */
export async function openSession(spec: SessionSpec, stuckRuns: Set<object> = new Set()): Promise<Session> {
  const turns = createTurns();
  const openThread = createOpenThread(spec, stuckRuns);
  const { metadata } = await openThread.ready();
  let fastestMs = Number.POSITIVE_INFINITY;
  let closed = false;
  return {
    metadata,
    run: (task, signal) =>
      turns.take(async () => {
        if (closed) throw new ModelUnavailableError('expected a model that is open, got one that was closed');
        const reply = await runIn(openThread, task, signal);
        fastestMs = Math.min(fastestMs, reply.runMs);
        return reply;
      }, signal),
    warmedUp: () =>
      turns.take(async () => {
        if (!runsBetterOnOneCore(spec, fastestMs)) return;
        await openThread.reopen({ ...spec, sessionOptions: { intraOpNumThreads: 1, ...spec.sessionOptions } });
      }),
    close: () =>
      turns.take(async () => {
        closed = true;
        await openThread.close();
      }),
  };
}

async function runIn(openThread: OpenThread, task: RunTask, signal: AbortSignal | undefined): Promise<RunReply> {
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
    return await orAborted(thread.call('run', task, memoryOf(task.inputs)), signal, abandon);
  } catch (cause) {
    if (!(cause instanceof ThreadDiedError)) throw cause;
    throw new ModelUnavailableError('the thread that runs the model died; it is started again', { cause });
  }
}

function explainNotOpen(cause: unknown): ReadyThread {
  if (cause instanceof RunAbandonedError) throw cause;
  throw new ModelUnavailableError(`the model cannot be opened: ${messageOf(cause)}`, { cause });
}
