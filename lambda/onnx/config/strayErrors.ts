import { AsyncLocalStorage } from 'node:async_hooks';
import process from 'node:process';

/** Takes an error that nobody waits for. */
export type StrayErrorListener = (error: unknown) => void;

const listeners = new AsyncLocalStorage<StrayErrorListener>();

/**
 * Does foreign work. What it starts and does not wait for may go wrong later: a timer, a callback or an event throws, or
 * a promise that nobody holds is rejected. Such an error goes to `onStrayError`, and to nothing else in the process.
 */
export function withStrayErrorsTo<T>(onStrayError: StrayErrorListener, work: () => T): T {
  watchProcess();
  return listeners.run(onStrayError, work);
}

/** How Node tells of errors that nobody waits for. */
const STRAY: ReadonlySet<unknown> = new Set(['uncaughtException', 'unhandledRejection']);

let watched = false;

/**
 * Node emits these events in the context of the work that went wrong. Listeners are of no use: they are all called, and
 * those of the Lambda runtime end the process.
 */
function watchProcess(): void {
  if (watched) return;
  watched = true;
  process.emit = new Proxy(process.emit, {
    apply(emit, self, event: unknown[]) {
      const onStrayError = STRAY.has(event[0]) ? listeners.getStore() : undefined;
      if (onStrayError === undefined) return Reflect.apply(emit, self, event);
      onStrayError(event[1]);
      return true;
    },
  });
}
