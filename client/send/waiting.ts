import { MAX_BATCH_ENTRIES } from '../../lambda/aws/sqsCalls.ts';
import { FEW_CONTAINERS } from '../../lambda/core/decode/outline.ts';
import type { Entry } from './entry.ts';
import type { Packing } from './packing.ts';

/** What the outbox tells of a request that SQS has taken. */
export interface Sent {
  /** Under which its result is collected. */
  readonly id: string;
  /** How many requests its message holds. */
  readonly requests: number;
}

/** One request that waits to be sent. */
export interface Waiting {
  readonly entry: Entry;
  readonly packing: Packing;
  readonly signal: AbortSignal | undefined;
  readonly resolve: (sent: Sent) => void;
  readonly reject: (reason: unknown) => void;
}

/** The requests that wait, in the messages that they will share, in the order of their coming. */
export interface WaitingMessages {
  /** Adds a request to the last message of its group where it fits, else to one of its own. */
  add(request: Waiting): void;
  /** Puts requests back in front of the others. All are shared out anew: a message may hold less by now. */
  putBack(requests: readonly Waiting[]): void;
  /**
   * Takes the requests of as many of the first messages as one call holds.
   *
   * @param all whether messages leave that could take more
   */
  takeCall(maxBytes: number, all: boolean): readonly (readonly Waiting[])[];
  /** Whether there is a call's worth of messages that take no more, or too much waits for others. */
  isFull(maxBytes: number): boolean;
  isEmpty(): boolean;
}

interface SharedMessage {
  readonly key: string;
  readonly requests: Waiting[];
  /** Of its body. */
  bytes: number;
  /** Arrays and objects in it. */
  containers: number;
  /** Whether it takes no more requests. */
  closed: boolean;
}

/** Bytes of bodies that may wait for others to share their messages. */
const MOST_OPEN_BYTES = 8 * 1024 * 1024;

export function createWaitingMessages(): WaitingMessages {
  let messages: SharedMessage[] = [];
  /** Those that take more, by what their requests have in common. */
  const open = new Map<string, SharedMessage>();
  let closed = 0;
  let closedBytes = 0;
  let openBytes = 0;

  const isCrowded = (): boolean => openBytes >= MOST_OPEN_BYTES;
  const close = (message: SharedMessage): void => {
    message.closed = true;
    open.delete(message.key);
    closed += 1;
    closedBytes += message.bytes;
    openBytes -= message.bytes;
  };
  const messageFor = (request: Waiting): SharedMessage => {
    const key = keyOf(request);
    const last = open.get(key);
    if (last !== undefined && fits(request, last)) return last;
    if (last !== undefined) close(last);
    const message = { key, requests: [], bytes: 0, containers: 1, closed: false };
    messages.push(message);
    open.set(key, message);
    return message;
  };
  const add = (request: Waiting): void => {
    const { entry, packing } = request;
    const message = messageFor(request);
    const bytes = addedBytes(entry, message);
    message.requests.push(request);
    message.bytes += bytes;
    message.containers += entry.containers ?? 0;
    openBytes += bytes;
    if (!mayShare(entry) || message.requests.length === packing.requests) close(message);
  };
  const forget = (taken: Iterable<SharedMessage>): void => {
    for (const message of taken) {
      if (message.closed) {
        closed -= 1;
        closedBytes -= message.bytes;
      } else {
        open.delete(message.key);
        openBytes -= message.bytes;
      }
    }
  };
  return {
    add,
    putBack(requests) {
      const all = [...requests, ...messages.flatMap((message) => message.requests)];
      forget(messages);
      messages = [];
      for (const request of all) add(request);
    },
    takeCall(maxBytes, all) {
      const due = all || isCrowded() ? messages : messages.filter((message) => message.closed);
      const taken = new Set(due.slice(0, messagesInCall(due, maxBytes)));
      messages = messages.filter((message) => !taken.has(message));
      forget(taken);
      return Array.from(taken, ({ requests }) => requests);
    },
    isFull: (maxBytes) => closed >= MAX_BATCH_ENTRIES || closedBytes >= maxBytes || isCrowded(),
    isEmpty: () => messages.length === 0,
  };
}

/**
 * Requests of one group share messages. One that needs its own leaves those of the others open, but not on a FIFO queue,
 * where requests have deduplication IDs: there it would be overtaken.
 */
function keyOf({ entry, packing }: Waiting): string {
  const shared = mayShare(entry) || entry.deduplicationId !== undefined;
  return `${shared ? packing.requests : 'own'} ${packing.bytes()} ${entry.group ?? ''}`;
}

function mayShare({ containers, payload }: Entry): boolean {
  return containers !== undefined && payload === undefined;
}

function fits({ entry, packing }: Waiting, message: SharedMessage): boolean {
  return (
    mayShare(entry) &&
    message.bytes + addedBytes(entry, message) <= packing.bytes() &&
    message.containers + (entry.containers ?? 0) <= FEW_CONTAINERS
  );
}

/** The second request brings the brackets along, and each after the first a comma. */
function addedBytes({ bytes }: Entry, { requests }: SharedMessage): number {
  return bytes + (requests.length === 0 ? 0 : 1) + (requests.length === 1 ? 2 : 0);
}

/** How many of the first messages one call holds. One with an offloaded payload fills a call alone. */
function messagesInCall(messages: readonly SharedMessage[], maxBytes: number): number {
  let bytes = 0;
  const end = messages.slice(0, MAX_BATCH_ENTRIES).findIndex((message, index) => {
    bytes += message.bytes;
    return index > 0 && bytes > maxBytes;
  });
  return end < 0 ? MAX_BATCH_ENTRIES : end;
}
