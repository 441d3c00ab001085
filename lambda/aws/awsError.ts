import type { Outage } from '../core/failure.ts';

/** An error in one line, for the message of a failure. */
export function describeError(error: unknown): string {
  return error instanceof Error ? `${error.name}: ${error.message}` : String(error);
}

/**
 * Returns true if trying again soon is of no use: waiting a little brings back no queue, table, bucket, credential or
 * permission. Throttling, which AWS counts as the caller's fault too, does pass. So does a clock that is wrong, or is set
 * right again: the client has set its own by the refusal.
 */
export function isCallersFault(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if (error.name === 'CredentialsProviderError') return true;
  return '$fault' in error && error.$fault === 'client' && !PASSING.test(error.name) && !isOfClock(error);
}

/**
 * What a failed request says of the service or the store that it went to. Undefined where the request itself may be at
 * fault, such as one that is invalid, or a bug.
 */
export function outageKind(error: unknown): Outage['kind'] | undefined {
  if (!(error instanceof Error)) return undefined;
  if (isCallersFault(error)) return REFUSED.test(error.name) ? 'refused' : undefined;
  const isOfService = '$fault' in error || '$metadata' in error;
  return isOfService || error.name === 'TimeoutError' || ('code' in error && typeof error.code === 'string')
    ? 'busy'
    : undefined;
}

/** A store, a key, a permission or a credential that is missing, as SQS, DynamoDB and S3 name it. */
const REFUSED =
  /DoesNotExist|NonExistent|NotFound|NoSuchBucket|Redirect|Denied|Forbidden|Unauthorized|Disabled|Kms|KMS|Credential|Token|Signature|UnrecognizedClient|InvalidAccessKeyId|InvalidSecurity/;

/** The SDK tells of a clock that is wrong, and not of one that is right again. */
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
