import { messageOf } from '../../../core/contract/failure.ts';
import { ModelUnavailableError, RunAbandonedError } from '../../../core/contract/model.ts';
import { orAborted } from '../../orAborted.ts';
import { memoryOf, type RunReply, type RunTask, type SessionSpec } from './jobs.ts';
import { openAll } from './openAll.ts';
import { createOpenThread, type OpenMetadata, type OpenThread, type ReadyThread } from './openThread.ts';
import { onCard, runOnGpu } from './provider.ts';
import { ThreadDiedError } from './thread.ts';
import { createTurns } from './turns.ts';

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
   * To be called after the warm-up: from then on short runs are not shared among the cores.
   *
   * @returns threads that runs are spread over; undefined: as many as ONNX Runtime takes
   */
  warmedUp(): Promise<number | undefined>;
  /** Ends the threads after the runs that were asked for. Runs that were left behind are not waited for. */
  close(): Promise<void>;
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
  const metadata = await openAll(threads);
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
      const runOn = async (card: number): Promise<SessionReply> => {
        const reply = await runIn(threads[card] as OpenThread, task, signal);
        fastestMs = Math.min(fastestMs, reply.runMs);
        return { ...reply, card };
      };
      return turns.take(runOn, signal, only);
    },
    async warmedUp() {
      const { intraOpNumThreads: given } = spec.sessionOptions;
      if (given !== undefined) return typeof given === 'number' && given > 0 ? given : undefined;
      if (!runsBetterOnOneCore(spec, fastestMs)) return undefined;
      await onEveryCard((thread, ofCard) =>
        thread.reopen({ ...ofCard, sessionOptions: { ...ofCard.sessionOptions, intraOpNumThreads: 1 } }),
      );
      return 1;
    },
    async close() {
      closed = true;
      await onEveryCard((thread) => thread.close());
    },
  };
}

function specsOfCards({ devices, ...spec }: SessionSpec): SessionSpec[] {
  if (devices === undefined) return [spec];
  return devices.map((device) => ({ ...spec, providers: spec.providers.map((one) => onCard(one, device)) }));
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
