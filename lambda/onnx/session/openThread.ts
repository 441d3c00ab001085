import { orAborted } from '../../aws/clock.ts';
import { RunAbandonedError } from '../../core/contract/model.ts';
import type { SessionMetadata, SessionSpec } from './jobs.ts';
import { nameOf } from './provider.ts';
import { type SessionThread, startThread } from './thread.ts';
import { withdrawn } from './turns.ts';

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

export interface ReadyThread {
  readonly thread: SessionThread;
  readonly metadata: OpenMetadata;
}

export interface OpenMetadata extends SessionMetadata {
  /** Until the thread had ONNX Runtime. */
  readonly libraryMs: number;
}

interface Opening {
  readonly thread: SessionThread;
  readonly opened: Promise<OpenMetadata>;
  isOpen: boolean;
}

/** @param stuckRuns holds a thread for every run that was left behind, until it ends */
export function createOpenThread(spec: SessionSpec, stuckRuns: Set<object>): OpenThread {
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
export class UnknownProviderError extends Error {
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
