/** An error in one line, for the message of a failure. */
export function describeError(error: unknown): string {
  return error instanceof Error ? `${error.name}: ${error.message}` : String(error);
}

/**
 * Whether trying again soon is of no use: waiting a little brings back no queue, table, bucket, credential or
 * permission. Throttling, which AWS counts as the caller's fault too, does pass. So does a clock that is wrong: the SDK
 * has set its own by the refusal.
 */
export function isCallersFault(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if (error.name === 'CredentialsProviderError') return true;
  return '$fault' in error && error.$fault === 'client' && !PASSING.test(error.name) && !isClockSetRight(error);
}

function isClockSetRight(error: object): boolean {
  if (!('$metadata' in error) || typeof error.$metadata !== 'object' || error.$metadata === null) return false;
  return 'clockSkewCorrected' in error.$metadata && error.$metadata.clockSkewCorrected === true;
}

const PASSING = /Throttl|ThroughputExceeded|RequestLimitExceeded|TooManyRequests|RequestTimeout|InternalError/;
