import type { Outage } from '../core/failure.ts';

export function describeError(error: unknown): string {
  return error instanceof Error ? `${error.name}: ${error.message}` : String(error);
}

/**
 * Returns true if a retry soon is of no use: a missing queue, table, bucket, credential or permission does not come
 * back. Throttling is the caller's fault for AWS too, but it passes. So does a clock error, because the client corrects
 * its clock after the refusal.
 */
export function isCallersFault(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if (error.name === 'CredentialsProviderError') return true;
  return '$fault' in error && error.$fault === 'client' && !PASSING.test(error.name) && !isOfClock(error);
}

/** Classifies a failed request as an outage of the service. Returns undefined if the request may be at fault. */
export function outageKind(error: unknown): Outage['kind'] | undefined {
  if (!(error instanceof Error)) return undefined;
  if (isCallersFault(error)) return REFUSED.test(error.name) ? 'refused' : undefined;
  const isOfService = '$fault' in error || '$metadata' in error;
  return isOfService || error.name === 'TimeoutError' || ('code' in error && typeof error.code === 'string')
    ? 'busy'
    : undefined;
}

/** Error names of SQS, DynamoDB and S3 for a missing store, key, permission or credential. */
const REFUSED =
  /DoesNotExist|NonExistent|NotFound|NoSuchBucket|Redirect|Denied|Forbidden|Unauthorized|Disabled|Kms|KMS|Credential|Token|Signature|UnrecognizedClient|InvalidAccessKeyId|InvalidSecurity/;

/** Returns true for a clock error. The SDK marks it, except after the machine's clock was set right again. */
function isOfClock(error: Error): boolean {
  if (/^Signature (expired|not yet current)/.test(error.message)) return true;
  if (!('$metadata' in error) || typeof error.$metadata !== 'object' || error.$metadata === null) return false;
  return 'clockSkewCorrected' in error.$metadata && error.$metadata.clockSkewCorrected === true;
}

const PASSING =
  /Throttl|ThroughputExceeded|RequestLimitExceeded|TooManyRequests|RequestTimeout|TimeTooSkewed|InternalError/;

export function isNamed(error: unknown, name: string): boolean {
  return error instanceof Error && error.name === name;
}
