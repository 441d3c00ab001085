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

export interface ScoringErrorOptions {
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
  /** Whether the same request may succeed later. One that the service answered with an error never does. */
  readonly retryable: boolean;

  constructor(code: string, message: string, { messageId, id, cause }: ScoringErrorOptions = {}) {
    super(message, { cause });
    this.code = code;
    this.messageId = messageId;
    this.id = id;
    this.retryable = RETRYABLE.has(code);
  }
}

/** A request cannot be encoded. It was not sent. */
export class RequestError extends Error {
  override readonly name = 'RequestError';
  readonly code = 'INVALID_REQUEST';
  readonly retryable = false;
}

/**
 * Not all requests were submitted. To resume, submit those that have no message ID in `accepted`, and those from
 * `accepted.length` on, which were never pulled.
 */
export class SubmitError extends Error {
  override readonly name = 'SubmitError';
  readonly code = 'SUBMIT_FAILED';
  readonly retryable: boolean;
  /** Index of the first request that failed, in the order of the requests. */
  readonly index: number;
  /** Message IDs by request index; undefined where the request was not accepted. */
  readonly accepted: readonly (string | undefined)[];

  constructor(index: number, accepted: readonly (string | undefined)[], cause: unknown) {
    const count = accepted.filter((messageId) => messageId !== undefined).length;
    const reason = cause instanceof Error ? cause.message : String(cause);
    super(`request ${index}: ${reason}; ${count} were accepted, submit the others again`, { cause });
    this.index = index;
    this.accepted = accepted;
    this.retryable = !(cause instanceof RequestError || cause instanceof TypeError);
  }
}

/** Not all results came in time. What came was yielded; `missing` may be collected again. */
export class CollectTimeoutError extends Error {
  override readonly name = 'CollectTimeoutError';
  readonly code = 'TIMEOUT';
  readonly retryable = true;
  /** The message IDs without a result, in the order in which they were given. */
  readonly missing: readonly string[];

  constructor(missing: readonly string[], expected: number, timeoutMs: number, cause?: unknown) {
    const reason = cause === undefined ? '' : `; the result store could not be read: ${String(cause)}`;
    super(
      `expected ${expected} results within ${timeoutMs} ms, ${missing.length} are missing${reason}; collect the ` +
        'missing ones again, or look for their messages in the dead-letter queue',
      { cause },
    );
    this.missing = missing;
  }
}
