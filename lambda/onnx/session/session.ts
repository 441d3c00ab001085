import { statSync } from 'node:fs';
import { orAborted } from '../../aws/clock.ts';
import { messageOf } from '../../core/contract/failure.ts';
import { ModelUnavailableError, RunAbandonedError } from '../../core/contract/model.ts';
import { memoryOf, type RunReply, type RunTask, type SessionSpec, type Waiting, type WaitingChoice } from './jobs.ts';
import { openAll } from './openAll.ts';
import { createOpenThread, type OpenMetadata, type OpenThread, type ReadyThread } from './openThread.ts';
import { onCard, runOnGpu } from './provider.ts';
import { createSampleRun } from './sampleRun.ts';
import { type NextJob, ThreadDiedError } from './thread.ts';
import { createTurns } from './turns.ts';
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

export interface WarmThreads {
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
