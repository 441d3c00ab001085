import type { Batching } from '../base/batching.ts';

/** What AWS asks for, so that a batch may be throttled, and tried again, before its messages show up again. */
const FUNCTION_TIMEOUTS = 6;

/** @see https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html */
export function leastVisibility(
  timeoutSeconds: number,
  { windowSeconds }: Batching,
): { readonly seconds: number; readonly sum: string } {
  return {
    seconds: FUNCTION_TIMEOUTS * timeoutSeconds + windowSeconds,
    sum: `${FUNCTION_TIMEOUTS} × ${timeoutSeconds} s timeout + ${windowSeconds} s window`,
  };
}
