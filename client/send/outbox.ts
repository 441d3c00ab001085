import { describeError, isCallersFault } from '../../lambda/adapters/awsError.ts';
import { MAX_BATCH_ENTRIES } from '../../lambda/adapters/sqs/limits.ts';
import { type RetryOptions, untilDone } from '../../lambda/adapters/untilDone.ts';
import { deferred } from '../../lambda/core/base/deferred.ts';
import { SendError } from '../base/errors.ts';
import type { Entry } from './entry.ts';
import type { Refusal, SendVerdict } from './sendCall.ts';

export interface OutboxOptions {
  /** Sends one call; verdicts align with `entries`. */
  readonly sendCall: (entries: readonly Entry[]) => Promise<SendVerdict[]>;
  /** Puts an entry's payload where its pointer says. */
  readonly offload: (entry: Entry) => Promise<void>;
  /** The same entry, with its body in a payload, for a queue that takes at most `maxBytes`. @throws RequestError */
  readonly shrink: (entry: Entry, maxBytes: number) => Entry;
  /** Most bytes of the bodies in a call, as far as is known now. */
  readonly maxBytes: () => number;
  /** Most calls in flight. */
  readonly maxInFlight: number;
  /** Aborts when the client is closed: what is not sent by then is rejected. */
  readonly closing: AbortSignal;
  /** How long the first entry of a call waits for others, in milliseconds. @default 5 */
  readonly lingerMs?: number;
  readonly retry?: RetryOptions;
}

/** Gathers the entries of all callers into batch calls. */
export interface Outbox {
  /**
   * Resolves with the entry's message ID once SQS has taken it. An entry whose `signal` aborts before a call holds it
   * is not sent and rejects with the signal's reason; after that, the call settles it.
   */
  send(entry: Entry, signal?: AbortSignal): Promise<string>;
  /** Resolves when less than a call's worth waits to be sent. */
  room(): Promise<void>;
}

interface Pending {
  entry: Entry;
  readonly signal: AbortSignal | undefined;
  readonly resolve: (messageId: string) => void;
  readonly reject: (reason: unknown) => void;
}

/** A call leaves when it is full or its first entry has lingered, and a place in flight is free. */
export function createOutbox(options: OutboxOptions): Outbox {
  const { maxBytes, maxInFlight, lingerMs = 5 } = options;
  const pending: Pending[] = [];
  let inFlight = 0;
  let lingered = false;
  let timer: NodeJS.Timeout | undefined;
  let changed = deferred();

  /** Whether there is a call's worth: no more entries fit, or no more bytes. */
  const isFull = (): boolean => pending.length >= MAX_BATCH_ENTRIES || bytesOf(pending) >= maxBytes();
  const launchDue = (): void => {
    while (pending.length > 0 && inFlight < maxInFlight && (lingered || isFull())) {
      inFlight++;
      void deliver(takeCall(pending, maxBytes()), options).finally(() => {
        inFlight--;
        launchDue();
      });
    }
    if (pending.length === 0) {
      clearTimeout(timer);
      timer = undefined;
      lingered = false;
    }
    changed.resolve();
    changed = deferred();
  };

  return {
    send: (entry, signal) =>
      new Promise((resolve, reject) => {
        pending.push({ entry, signal, resolve, reject });
        timer ??= setTimeout(() => {
          lingered = true;
          launchDue();
        }, lingerMs);
        if (isFull()) launchDue();
      }),
    async room() {
      while (isFull()) await changed.promise;
    },
  };
}

function bytesOf(pending: readonly Pending[]): number {
  return pending.reduce((sum, { entry }) => sum + entry.bytes, 0);
}

/** Takes as many of the first entries as one call holds. One with an offloaded payload fills a call alone. */
function takeCall(pending: Pending[], maxBytes: number): Pending[] {
  let bytes = 0;
  const end = pending.slice(0, MAX_BATCH_ENTRIES).findIndex(({ entry }, index) => {
    bytes += entry.bytes;
    return index > 0 && bytes > maxBytes;
  });
  return pending.splice(0, end < 0 ? MAX_BATCH_ENTRIES : end);
}

/** Settles every entry of a call, sending again what SQS did not take. */
async function deliver(call: readonly Pending[], options: OutboxOptions): Promise<void> {
  const { sendCall, closing, retry } = options;
  const refusals = new Map<Pending, SendError>();
  try {
    const left = await untilDone(
      await offloadAll(call, options),
      async (waiting) => {
        const live = waiting.filter((one) => !refuseAborted(one));
        if (live.length === 0) return [];
        const verdicts = await sendCall(live.map(({ entry }) => entry));
        const again = await Promise.all(live.map((one, index) => settle(one, verdicts[index], refusals, options)));
        return live.filter((_, index) => again[index]);
      },
      closing,
      retry,
    );
    for (const one of left) one.reject(refusals.get(one) ?? closing.reason);
  } catch (error) {
    for (const one of call) one.reject(error);
  }
}

const NO_VERDICT: Refusal = { reason: 'no verdict', again: false };

/** @returns whether the entry is to be sent again */
async function settle(
  one: Pending,
  verdict: SendVerdict = NO_VERDICT,
  refusals: Map<Pending, SendError>,
  options: OutboxOptions,
): Promise<boolean> {
  if ('messageId' in verdict) {
    one.resolve(verdict.messageId);
    return false;
  }
  const error = toError(verdict);
  refusals.set(one, error);
  const { maxBytes } = verdict;
  if (maxBytes !== undefined && one.entry.payload === undefined) return await shrinkOne(one, maxBytes, options);
  if (!verdict.again) one.reject(error);
  return verdict.again;
}

/** @returns false when that failed, and the entry is rejected */
async function shrinkOne(one: Pending, maxBytes: number, options: OutboxOptions): Promise<boolean> {
  try {
    one.entry = options.shrink(one.entry, maxBytes);
  } catch (error) {
    one.reject(error);
    return false;
  }
  return await offloadOne(one, options);
}

/** @returns those whose payload lies where their pointer says; the others are rejected */
async function offloadAll(call: readonly Pending[], options: OutboxOptions): Promise<Pending[]> {
  const offloaded = await Promise.all(call.map((one) => offloadOne(one, options)));
  return call.filter((_, index) => offloaded[index]);
}

async function offloadOne(one: Pending, { offload }: OutboxOptions): Promise<boolean> {
  if (one.entry.payload === undefined) return true;
  if (refuseAborted(one)) return false;
  try {
    await offload(one.entry);
    return true;
  } catch (cause) {
    const retryable = !isCallersFault(cause);
    one.reject(new SendError(`the payload bucket did not take its body: ${describeError(cause)}`, retryable, cause));
    return false;
  }
}

function refuseAborted({ signal, reject }: Pending): boolean {
  if (signal?.aborted !== true) return false;
  reject(signal.reason);
  return true;
}

function toError({ reason, again, cause }: Refusal): SendError {
  return new SendError(`the request queue did not take it: ${reason}`, again, cause);
}
