import { plural } from '../lambda/core/failure.ts';

/** Codes of errors that the client itself raises. Those that come with a result are in docs/message-format.md. */
export type ClientCode =
  /** No result came in time. */
  | 'TIMEOUT'
  /** The request queue did not take the request. */
  | 'SUBMIT_FAILED'
  /** The result store cannot be read. */
  | 'COLLECT_FAILED'
  /** What came under the message ID is not a result, or not one with outputs. */
  | 'INVALID_RESULT'
  /** The result was too large for its store, and the bucket that holds it could not be read; it is still there. */
  | 'RESULT_UNAVAILABLE';

const RETRYABLE: ReadonlySet<string> = new Set<ClientCode>([
  'TIMEOUT',
  'SUBMIT_FAILED',
  'COLLECT_FAILED',
  'RESULT_UNAVAILABLE',
]);

interface ScoringErrorOptions {
  /** @default as its code has it */
  readonly retryable?: boolean | undefined;
  readonly messageId?: string | undefined;
  readonly id?: string | undefined;
  readonly cause?: unknown;
}

/** One request was not scored: the service answered it with an error, or no answer reached this process. */
export class ScoringError extends Error {
  override readonly name = 'ScoringError';
  /** A code of docs/message-format.md, or a {@link ClientCode}. */
  readonly code: string;
  /** The SQS message ID of the request; undefined when it was never accepted. */
  readonly messageId: string | undefined;
  /** The request's own `id`, if it had one. */
  readonly id: string | undefined;
  /** True if the same request may succeed later. One that the service answered with an error never does. */
  readonly retryable: boolean;

  constructor(code: string, message: string, { messageId, id, retryable, cause }: ScoringErrorOptions = {}) {
    super(message, { cause });
    this.code = code;
    this.messageId = messageId;
    this.id = id;
    this.retryable = retryable ?? RETRYABLE.has(code);
  }
}

/** A request cannot be encoded, or is too large for its queue. The queue did not take it. */
export class RequestError extends Error {
  override readonly name = 'RequestError';
  readonly code = 'INVALID_REQUEST';
  readonly retryable = false;
}

/** The queue or the payload bucket did not take a request. */
export class SendError extends Error {
  override readonly name = 'SendError';
  /** False where the sender is at fault: trying again changes nothing. */
  readonly retryable: boolean;

  constructor(message: string, retryable: boolean, cause: unknown) {
    super(message, { cause });
    this.retryable = retryable;
  }
}

/** Why a request was not accepted. */
export interface SubmitFailure {
  /** Index of the request that failed for good; undefined if the signal aborted. */
  readonly index: number | undefined;
  readonly cause: unknown;
}

/**
 * Not all requests were submitted. To resume, submit those that have no message ID in `accepted`, and those from
 * `accepted.length` on, which were never pulled.
 */
export class SubmitError extends Error {
  override readonly name = 'SubmitError';
  readonly code = 'SUBMIT_FAILED';
  /** False where the same requests would fail again: one is invalid, or the sender is at fault. */
  readonly retryable: boolean;
  /** Index of the first request that was not accepted, in the order of the requests. */
  readonly index: number;
  /** Message IDs by request index; undefined where the request was not accepted. */
  readonly accepted: readonly (string | undefined)[];

  /** The `cause` is the error of the request that failed, or the reason of the signal. */
  constructor({ index, cause }: SubmitFailure, accepted: readonly (string | undefined)[]) {
    const count = accepted.filter((messageId) => messageId !== undefined).length;
    const reason = cause instanceof Error ? cause.message : String(cause);
    const first = firstMissing(accepted);
    const failed = index === undefined ? 'aborted' : `request ${index}`;
    const firstOne = first === index ? '' : `; request ${first} is the first that was not accepted`;
    super(`${failed}: ${reason}${firstOne}; accepted: ${count}; submit the others again`, { cause });
    this.index = first;
    this.accepted = accepted;
    this.retryable =
      cause instanceof SendError ? cause.retryable : !(cause instanceof RequestError || cause instanceof TypeError);
  }
}

function firstMissing(accepted: readonly (string | undefined)[]): number {
  const index = accepted.indexOf(undefined);
  return index < 0 ? accepted.length : index;
}

/** Not all results came in time. What came was yielded; `missing` may be collected again. */
export class CollectTimeoutError extends Error {
  override readonly name = 'CollectTimeoutError';
  readonly code = 'TIMEOUT';
  readonly retryable = true;
  /** The message IDs without a result, in the order in which they were given. */
  readonly missing: readonly string[];

  constructor(missing: readonly string[], expected: number, timeoutMs: number, { cause, hidden }: StoreTrouble = {}) {
    const unread = cause === undefined ? '' : `; the result store could not be read: ${String(cause)}`;
    const what =
      hidden === undefined
        ? 'collect the missing ones again, or look for their messages in the dead-letter queue'
        : `${hidden.messages} may be hidden for ${hidden.seconds} s more, as a client received them and ended without ` +
          'close(); collect the missing ones again after that';
    super(
      `expected ${plural(expected, 'result')} within ${timeoutMs} ms, ${missing.length} ${missing.length === 1 ? 'is' : 'are'} ` +
        `missing${unread}; ${what}`,
      { cause },
    );
    this.missing = missing;
  }
}

/** What went on in the result store while a caller waited in vain. */
export interface StoreTrouble {
  /** Why it could not be read the last time. */
  readonly cause?: unknown;
  /** Messages of a result queue that another process received, and seconds after which all of them come again. */
  readonly hidden?: { readonly messages: number; readonly seconds: number } | undefined;
}
