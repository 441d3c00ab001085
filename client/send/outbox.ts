import { deferred } from '../../lambda/core/concurrency.ts';
import { type DeliveryOptions, deliver } from './deliver.ts';
import type { Entry } from './entry.ts';
import type { Packing } from './packing.ts';
import { createWaitingMessages, type Sent } from './waiting.ts';

export interface OutboxOptions extends Omit<DeliveryOptions, 'putBack'> {
  /** Most bytes of the bodies in a call, as far as is known now. */
  readonly maxBytes: () => number;
  /** Most calls in flight. */
  readonly maxInFlight: number;
  /** How long the first request of a call waits for others, in milliseconds. @default 5 */
  readonly lingerMs?: number;
}

/** Gathers the requests of all callers into messages, and messages into batch calls. */
export interface Outbox {
  /**
   * Resolves once SQS has taken the request. One whose `signal` aborts before a call holds it is not sent and rejects
   * with the signal's reason; after that, the call settles it.
   *
   * @param packing which requests it may share a message with
   */
  send(entry: Entry, packing: Packing, signal?: AbortSignal): Promise<Sent>;
  /** Resolves when less than a call's worth waits to be sent. */
  room(): Promise<void>;
}

/** A call leaves when it is full or its first request has lingered, and a place in flight is free. */
export function createOutbox(options: OutboxOptions): Outbox {
  const { maxBytes, maxInFlight, lingerMs = 5 } = options;
  const waiting = createWaitingMessages();
  let inFlight = 0;
  let lingered = false;
  let timer: NodeJS.Timeout | undefined;
  let changed = deferred();

  const isFull = (): boolean => waiting.isFull(maxBytes());
  const putBack: DeliveryOptions['putBack'] = (requests) => {
    waiting.putBack(requests);
    lingered = true;
  };
  const launchDue = (): void => {
    while (!waiting.isEmpty() && inFlight < maxInFlight && (lingered || isFull())) {
      inFlight++;
      void deliver(waiting.takeCall(maxBytes(), lingered), { ...options, putBack }).finally(() => {
        inFlight--;
        launchDue();
      });
    }
    if (waiting.isEmpty()) {
      clearTimeout(timer);
      timer = undefined;
      lingered = false;
    }
    changed.resolve();
    changed = deferred();
  };

  return {
    send: (entry, packing, signal) =>
      new Promise((resolve, reject) => {
        waiting.add({ entry, packing, signal, resolve, reject });
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
