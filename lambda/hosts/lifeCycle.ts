import { deferred } from '../core/base/deferred.ts';
import type { Worker } from './startWorker.ts';

/** Why a worker ends. */
export type EndCause = 'SIGTERM' | 'SIGINT' | 'stuck run';

/** Tells when the worker must end, and when it must end at once. */
export interface Stop {
  /** Resolves when the worker is to drain. */
  readonly asked: Promise<EndCause>;
  /** Resolves when there is no more waiting, with the reason. */
  readonly forced: Promise<string>;
  isAsked(): boolean;
  ask(cause: EndCause): void;
}

/** `npm run` passes Ctrl-C on to a process that the terminal has told already: the two come as one. */
const SAME_PRESS_MS = 200;

/** Listens for signals from now on; as the first process of a container, the worker would not hear them else. */
export function listenForStop(): Stop {
  const asked = deferred<EndCause>();
  const forced = deferred<string>();
  let isAsked = false;
  let firstSignalAt: number | undefined;
  const ask = (cause: EndCause): void => {
    isAsked = true;
    asked.resolve(cause);
  };
  for (const name of ['SIGTERM', 'SIGINT'] as const) {
    process.on(name, () => {
      const now = performance.now();
      firstSignalAt ??= now;
      if (now > firstSignalAt + SAME_PRESS_MS) forced.resolve(`a second signal, ${name}`);
      ask(name);
    });
  }
  return { asked: asked.promise, forced: forced.promise, isAsked: () => isAsked, ask };
}

export interface WorkerEnd {
  readonly exitCode: number;
  /** One line for the log, and what goes with it. */
  readonly message: string;
  readonly details: Readonly<Record<string, unknown>>;
}

/**
 * Drains the worker, or gives up: by a second signal, or because the time to stop is nearly over.
 *
 * @param endMs until there is no more waiting
 */
export async function drainOrGiveUp(
  worker: Worker,
  stop: Stop,
  cause: EndCause,
  { endMs }: { readonly endMs: number },
): Promise<WorkerEnd> {
  const startedAt = performance.now();
  const before = worker.tally();
  const deadline = deferred<string>();
  const timer = setTimeout(() => deadline.resolve('the time to stop is over'), endMs);
  const forced = await Promise.race([worker.drain(), stop.forced, deadline.promise]);
  clearTimeout(timer);
  const { finished, handedBack } = worker.tally();
  const details = {
    cause,
    finished: finished - before.finished,
    handedBack: handedBack - before.handedBack,
    ms: Math.round(performance.now() - startedAt),
  };
  if (forced === undefined) {
    const exitCode = cause === 'stuck run' ? 1 : 0;
    return { exitCode, message: 'the worker has drained', details };
  }
  const message = 'the worker ends before it has drained; what is left comes back when its visibility timeout ends';
  return { exitCode: 1, message, details: { ...details, because: forced, left: worker.held() } };
}
