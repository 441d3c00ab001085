import { plural } from '../lambda/core/failure.ts';

/** Codes of errors that the client itself raises. docs/message-format.md lists those of results. */
export type ClientCode =
  /** No result arrived in time. */
  | 'TIMEOUT'
  /** The request queue did not accept the request. */
  | 'SUBMIT_FAILED'
  /** The result store cannot be read. */
  | 'COLLECT_FAILED'
  /** The stored value is not a result, or is a result without outputs. */
  | 'INVALID_RESULT'
  /** The result was too large for its store, and its payload could not be read. It is still in the payload bucket. */
  | 'RESULT_UNAVAILABLE';

const RETRYABLE: ReadonlySet<string> = new Set<ClientCode>([
  'TIMEOUT',
  'SUBMIT_FAILED',
  'COLLECT_FAILED',
  'RESULT_UNAVAILABLE',
]);

interface ScoringErrorOptions {
  /** @default depends on the code */
  readonly retryable?: boolean | undefined;
  readonly messageId?: string | undefined;
  readonly id?: string | undefined;
  readonly cause?: unknown;
}

/** Error of a request that was not scored, because the service answered with an error, or no answer arrived. */
export class ScoringError extends Error {
  override readonly name = 'ScoringError';
  /** Code in docs/message-format.md, or a {@link ClientCode}. */
  readonly code: string;
  /** SQS message ID of the request. Undefined if it was never accepted. */
  readonly messageId: string | undefined;
  /** The request's own `id`, if it had one. */
  readonly id: string | undefined;
  /** True if the same request may succeed later. False if the service answered it with an error. */
  readonly retryable: boolean;

  constructor(code: string, message: string, { messageId, id, retryable, cause }: ScoringErrorOptions = {}) {
    super(message, { cause });
    this.code = code;
    this.messageId = messageId;
    this.id = id;
    this.retryable = retryable ?? RETRYABLE.has(code);
  }
}

/** Error of a request that cannot be encoded, or is too large for its queue. The queue did not accept it. */
export class RequestError extends Error {
  override readonly name = 'RequestError';
  readonly code = 'INVALID_REQUEST';
  readonly retryable = false;
}

/** Error of a request that the queue or the payload bucket did not accept. */
export class SendError extends Error {
  override readonly name = 'SendError';
  /** False if the sender is at fault, so that a retry fails again. */
  readonly retryable: boolean;

  constructor(message: string, retryable: boolean, cause: unknown) {
    super(message, { cause });
    this.retryable = retryable;
  }
}

export interface SubmitFailure {
  /** Index of the request that cannot be accepted. Undefined if the signal aborted or the client was closed. */
  readonly index: number | undefined;
  readonly cause: unknown;
}

/**
 * Error of a `submit` that did not send all requests. To resume, submit those without a message ID in `accepted`, and
 * those from `accepted.length` on, which were not pulled.
 */
export class SubmitError extends Error {
  override readonly name = 'SubmitError';
  readonly code = 'SUBMIT_FAILED';
  /** False if the same requests would fail again, because one is invalid or the sender is at fault. */
  readonly retryable: boolean;
  /** Index of the first request that was not accepted. */
  readonly index: number;
  /** Message IDs by request index. Undefined for requests that were not accepted. */
  readonly accepted: readonly (string | undefined)[];

  /** Creates an error whose `cause` is the error of the failed request, or the reason of the signal. */
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

/**
 * Error of a `collect` whose results did not all arrive in time. Results that arrived were yielded. You can collect
 * `missing` again.
 */
export class CollectTimeoutError extends Error {
  override readonly name = 'CollectTimeoutError';
  readonly code = 'TIMEOUT';
  readonly retryable = true;
  /** Message IDs without a result, in the given order. */
  readonly missing: readonly string[];

  constructor(missing: readonly string[], expected: number, timeoutMs: number, { cause, hidden }: StoreTrouble = {}) {
    const unread = cause === undefined ? '' : `; the result store could not be read: ${String(cause)}`;
    super(
      `expected ${plural(expected, 'result')} within ${timeoutMs} ms, ${missing.length} ${missing.length === 1 ? 'is' : 'are'} ` +
        `missing${unread}; ${adviceFor(hidden)}`,
      { cause },
    );
    this.missing = missing;
  }
}

function adviceFor(hidden: StoreTrouble['hidden']): string {
  if (hidden === undefined)
    return 'collect the missing ones again, or look for their messages in the dead-letter queue';
  const { messages, seconds } = hidden;
  return seconds === 0
    ? `${messages} may be hidden, as another client reads this result queue; give each client a queue of its own`
    : `${messages} may be hidden for ${seconds} s more, as a client received them that ended without close() or reads ` +
        'this result queue too; collect the missing ones again after that';
}

export interface StoreTrouble {
  /** Error of the last read that failed. */
  readonly cause?: unknown;
  /**
   * Messages of a result queue that another process received, and seconds until those are visible that it received
   * before this client started. 0 if it received them later.
   */
  readonly hidden?: { readonly messages: number; readonly seconds: number } | undefined;
}
