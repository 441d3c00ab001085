/**
 * Error codes of messages. A `permanent` failure is answered with an error. A `transient` one hands the message back to
 * SQS; only a body that takes all memory when it runs alone is answered, with `OUT_OF_MEMORY`. docs/message-format.md
 * documents them.
 */
export const ERROR_CODES = {
  INVALID_JSON: 'permanent',
  INVALID_REQUEST: 'permanent',
  UNKNOWN_MODEL: 'permanent',
  UNKNOWN_VERSION: 'permanent',
  MISSING_INPUT: 'permanent',
  UNKNOWN_INPUT: 'permanent',
  DUPLICATE_INPUT: 'permanent',
  UNKNOWN_OUTPUT: 'permanent',
  INVALID_DATATYPE: 'permanent',
  INVALID_SHAPE: 'permanent',
  INVALID_DATA: 'permanent',
  TOO_MANY_ROWS: 'permanent',
  TOO_MANY_REQUESTS: 'permanent',
  INVALID_POINTER: 'permanent',
  PAYLOAD_NOT_FOUND: 'permanent',
  PAYLOAD_TOO_LARGE: 'permanent',
  TRANSFORM_FAILED: 'permanent',
  RUN_FAILED: 'permanent',
  RUN_TIMED_OUT: 'permanent',
  MODEL_CRASHED: 'permanent',
  RESULT_TOO_LARGE: 'permanent',
  EXPIRED: 'permanent',
  PAYLOAD_UNAVAILABLE: 'transient',
  MODEL_UNAVAILABLE: 'transient',
  TRANSFORM_UNAVAILABLE: 'transient',
  OUT_OF_MEMORY: 'transient',
  DEADLINE: 'transient',
  WRITE_FAILED: 'transient',
  BEHIND_RETRY: 'transient',
  INTERNAL: 'transient',
} as const satisfies Record<string, 'permanent' | 'transient'>;

export type ErrorCode = keyof typeof ERROR_CODES;
export type TransientCode = { [C in ErrorCode]: (typeof ERROR_CODES)[C] extends 'transient' ? C : never }[ErrorCode];

/** Unreachable dependency of bodies. No body is to blame. */
export interface Outage {
  /** Name of the dependency: `result queue`, `payload bucket`, `model 'digits'`. */
  readonly of: string;
  /** `refused`: it is missing or denied, or cannot be opened. `busy`: it throttles, fails or does not answer. */
  readonly kind: 'refused' | 'busy';
}

export const PAYLOAD_BUCKET = 'payload bucket';

/** Expected failure of one request. `message` says what was expected, what came and what to do. */
export interface Failure<C extends ErrorCode = ErrorCode> {
  readonly failed: true;
  readonly code: C;
  readonly message: string;
  /** Unreachable dependency of a transient failure. Undefined if the body itself may be at fault. */
  readonly outage?: Outage | undefined;
}

/** Class for a fast check by `instanceof`, which runs a dozen times for each request. */
class ExpectedFailure<C extends ErrorCode> implements Failure<C> {
  readonly failed = true;
  readonly code: C;
  readonly message: string;
  readonly outage: Outage | undefined;

  constructor(code: C, message: string, outage: Outage | undefined) {
    this.code = code;
    this.message = message;
    this.outage = outage;
  }
}

export function failure<C extends ErrorCode>(code: C, message: string, outage?: Outage): Failure<C> {
  return new ExpectedFailure(code, message, outage);
}

export function isFailure(value: unknown): value is Failure {
  return value instanceof ExpectedFailure;
}

/** Returns true if the failure hands the message back instead of answering it with an error. */
export function isTransient(failed: Failure): failed is Failure<TransientCode> {
  return ERROR_CODES[failed.code] === 'transient';
}

const PREVIEW_CHARACTERS = 60;

/** Quotes a foreign value for a message: on one line, and short. */
export function preview(value: unknown): string {
  if (Array.isArray(value)) return `an array of ${value.length}`;
  if (typeof value === 'object' && value !== null) return 'an object';
  if (value === undefined) return 'nothing';
  const text = typeof value === 'string' ? JSON.stringify(value.slice(0, PREVIEW_CHARACTERS + 1)) : String(value);
  return text.length > PREVIEW_CHARACTERS ? `${text.slice(0, PREVIEW_CHARACTERS).toWellFormed()}…` : text;
}

const MAX_REASON_CHARACTERS = 500;

/** Returns the message of an error of foreign code, shortened for a producer. */
export function reasonOf(error: unknown): string {
  return messageOf(error).trim().slice(0, MAX_REASON_CHARACTERS).toWellFormed();
}

export function messageOf(error: unknown): string {
  if (error === undefined || error === null) return `${error} was thrown`;
  if (typeof error !== 'object') return String(error);
  return 'message' in error && typeof error.message === 'string' ? error.message : 'an object that is no Error';
}

/** Returns true if a system error has one of these codes, such as `ENOENT`. */
export function hasCode(error: unknown, ...codes: readonly string[]): boolean {
  if (typeof error !== 'object' || error === null || !('code' in error)) return false;
  return typeof error.code === 'string' && codes.includes(error.code);
}

/** Returns an error of foreign code, or a replacement if reading its properties throws. */
export function readable(thrown: unknown): unknown {
  try {
    isRetryable(thrown);
    messageOf(thrown);
    if (thrown instanceof Error) String(thrown.name);
    return thrown;
  } catch {
    return new Error('it threw an error that cannot be read');
  }
}

/** Returns true if a transform marked its error as retryable, for example because a store does not answer. */
export function isRetryable(error: unknown): boolean {
  return typeof error === 'object' && error !== null && 'retryable' in error && error.retryable === true;
}

/**
 * Creates the failure for an error of a transform.
 *
 * @param thrown error of the model's transform, or its value instead of a result
 * @param tell creates the message for the producer, which may quote the request. A retryable failure has only the
 *   error's name, because its message goes to a log
 */
export function transformFailure(model: string, thrown: unknown, tell: (reason: string) => string): Failure {
  const error = readable(thrown);
  if (isFailure(error)) return error;
  if (!isRetryable(error)) return failure('TRANSFORM_FAILED', tell(reasonOf(error)));
  const of = `transform of model '${model}'`;
  const name = error instanceof Error ? error.name : 'a value that is no Error';
  return failure('TRANSFORM_UNAVAILABLE', `${of}: expected an answer, got ${name}, which it calls retryable`, {
    of,
    kind: 'busy',
  });
}

/** Creates the failure of a request that ran alone and did not fit into memory, because of `why`. */
export function tooLargeAlone(why: string): Failure {
  const message = `expected this request alone to fit into the memory that the host leaves, but ${why}`;
  return failure('OUT_OF_MEMORY', `${message}; send fewer rows, or deploy more memory`);
}

/** Formats a count: 1 row, 12345 rows. */
export function plural(value: number, noun: string): string {
  return `${value} ${noun}${value === 1 ? '' : 's'}`;
}
