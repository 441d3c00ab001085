/** An error in one line, for the message of a failure. */
export function describeError(error: unknown): string {
  return error instanceof Error ? `${error.name}: ${error.message}` : String(error);
}

/**
 * Whether trying again at once is no use. A missing queue, table, bucket or permission does not get better within an
 * invocation; throttling, which AWS counts as the caller's fault, does.
 */
export function isCallersFault(error: unknown): boolean {
  if (!(error instanceof Error) || !('$fault' in error)) return false;
  return error.$fault === 'client' && !PASSING.test(error.name);
}

const PASSING = /Throttl|ThroughputExceeded|RequestLimitExceeded|TooManyRequests|RequestTimeout/;
