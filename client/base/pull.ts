import { orAborted } from './abort.ts';

/**
 * Yields the items of `source`, each asked for only when it is wanted.
 *
 * @throws the signal's reason when `signal` aborts, without waiting for a source that does not answer
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

/** Not to be awaited: a generator returns only after the item that it is busy with. */
async function close<T>(iterator: Iterator<T> | AsyncIterator<T>): Promise<void> {
  try {
    await iterator.return?.();
  } catch {
    // Nobody is left to be told why the source could not be closed.
  }
}
