import type { Batching } from '../base/batching.ts';

/** AWS's own recommendation: a throttled batch can be retried before its messages become visible again. */
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
