import { raceAbort } from '../lambda/core/concurrency.ts';
import { SubmitError, type SubmitFailure } from './clientErrors.ts';
import type { ScoreRequest } from './encodeRequest.ts';
import type { Outbox, Sent } from './outbox.ts';

export interface SubmitProgress {
  /** Number of requests that the queue has accepted. */
  readonly submitted: number;
  /** Index of the request that it accepted last. `messageId` is its ID. */
  readonly index: number;
  readonly messageId: string;
}

export interface SubmitOptions {
  /** Stops pulling and sending. The promise rejects when active calls have ended, after at most 30 s. */
  readonly signal?: AbortSignal | undefined;
  /** Called after each request that the queue accepts. */
  readonly onProgress?: ((progress: SubmitProgress) => void) | undefined;
}

/** Sends requests as fast as the queue accepts them. @returns their IDs, in the order of the requests */
export async function submit(
  requests: Iterable<ScoreRequest> | AsyncIterable<ScoreRequest>,
  { signal, onProgress }: SubmitOptions,
  outbox: Outbox,
): Promise<string[]> {
  const stop = new AbortController();
  const ended = signal === undefined ? outbox.closed : AbortSignal.any([signal, outbox.closed]);
  const stopped = AbortSignal.any([ended, stop.signal]);
  const accepted: (string | undefined)[] = [];
  const sending = new Set<Promise<void>>();
  let submitted = 0;
  let failed: (SubmitFailure & { readonly index: number }) | undefined;

  const fail = (index: number, cause: unknown): void => {
    if (stopped.aborted && cause === stopped.reason) return;
    if (failed === undefined || index < failed.index) failed = { index, cause };
  };
  const finish = async (sent: Promise<Sent>, index: number): Promise<void> => {
    try {
      const { id: messageId } = await sent;
      accepted[index] = messageId;
      onProgress?.({ submitted: ++submitted, index, messageId });
    } catch (cause) {
      fail(index, cause);
      stop.abort();
    }
  };

  let index = 0;
  try {
    for await (const request of pull(requests, stopped)) {
      accepted.push(undefined);
      const sent = finish(outbox.send(request, stopped), index);
      sending.add(sent);
      void sent.then(() => sending.delete(sent));
      index += 1;
      await raceAbort(outbox.room(), stopped);
    }
  } catch (cause) {
    fail(index, cause);
  }
  await Promise.all(sending);
  if (failed !== undefined) throw new SubmitError(failed, accepted);
  if (ended.aborted) throw new SubmitError({ index: undefined, cause: ended.reason }, accepted);
  return accepted.map((messageId, at) => messageId ?? unanswered(at));
}

function unanswered(index: number): never {
  throw new Error(`expected a message ID for request ${index}, the outbox gave none`);
}

/**
 * Yields the items of `source`, and asks for each only when it is wanted.
 *
 * @throws the signal's reason if `signal` aborts, without waiting for a source that does not answer
 */
async function* pull<T>(source: Iterable<T> | AsyncIterable<T>, signal: AbortSignal): AsyncGenerator<T> {
  const iterator = Symbol.asyncIterator in source ? source[Symbol.asyncIterator]() : source[Symbol.iterator]();
  let open = true;
  try {
    for (;;) {
      const { done, value } = await raceAbort(Promise.resolve(iterator.next()), signal);
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

/** Closes the source. Do not await it, because a generator returns only after its current item. */
async function close<T>(iterator: Iterator<T> | AsyncIterator<T>): Promise<void> {
  try {
    await iterator.return?.();
  } catch {
    // There is no caller left to report this error to.
  }
}
