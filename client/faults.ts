/** An SDK error as one line for a message. */
export function reasonOf(error: unknown): string {
  return error instanceof Error ? `${error.name}: ${error.message}` : String(error);
}

/** A missing queue, table or permission does not get better by waiting; throttling, though a fault of ours, does. */
export function isCallersFault(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if (error.name === 'CredentialsProviderError') return true;
  if (!('$fault' in error) || error.$fault !== 'client') return false;
  return !/Throttl|TooManyRequests|RequestTimeout|ThroughputExceeded|RequestLimitExceeded|InternalError/.test(
    error.name,
  );
}
