import { orAborted } from './abort.ts';

/**
 * The items of `source`, each asked for when it is wanted, until the source ends or `signal` aborts; then it throws
 * the signal's reason, and a source that does not answer does not hold it.
 */
export async function* pull<T>(source: Iterable<T> | AsyncIterable<T>, signal: AbortSignal): AsyncGenerator<T> {
  const iterator = Symbol.asyncIterator in source ? source[Symbol.asyncIterator]() : source[Symbol.iterator]();
  let open = true;
  try {
    for (;;) {
      const { done, value } = await orAborted(Promise.resolve(iterator.next()), signal);
      if (done === true) {
        open = false;
        return;
      }
      yield value;
    }
  } catch (error) {
    open = signal.aborted;
    throw error;
  } finally {
    if (open) void close(iterator);
  }
}

/** Not awaited: a generator returns only after the item that it is busy with. */
async function close<T>(iterator: Iterator<T> | AsyncIterator<T>): Promise<void> {
  try {
    await iterator.return?.();
  } catch {
    // Nobody is left to hear why the source could not be closed.
  }
}
