import { PRICES } from '../../infra/constructs/base/prices.ts';
import type { InvocationReport } from '../local/localMapping.ts';

import { HOST_COSTS, lambdaDollars } from '../profile/settings/invocationCosts.ts';

/** What went through the handler in one pass. */
export interface Invoked {
  readonly invocations: readonly InvocationReport[];
  /** From the first request sent to the last result written. */
  readonly seconds: number;
  /** Of a message, and of a result, on average. */
  readonly messageBytes: number;
  readonly resultBytes: number;
  readonly packedResults: boolean;
  readonly maximumConcurrency: number;
}

/** The construct's default function. */
export const FUNCTION = { memoryMb: 1769, architecture: 'arm64' } as const;

/**
 * US dollars for a million messages of one row: for the milliseconds that the invocations took on this machine, as if the
 * function took as long, their number, and the requests to SQS, the producer's and the consumer's among them.
 */
export function dollarsPerMillionRows({ invocations, seconds, maximumConcurrency, ...messages }: Invoked): number {
  const bySize = Map.groupBy(invocations, ({ records }) => records);
  const meanMs = (reports: readonly InvocationReport[]): number =>
    reports.reduce((sum, { durationMs }) => sum + durationMs, 0) / reports.length;
  const count = invocations.reduce((sum, { records }) => sum + records, 0);
  const course = {
    sizes: new Map([...bySize].map(([size, reports]) => [size, reports.length])),
    messages: count,
    invocations: invocations.length,
  };
  const invocation = { memoryMb: FUNCTION.memoryMb, msOf: (size: number) => meanMs(bySize.get(size) ?? []) };
  return lambdaDollars(course, invocation, {
    prices: PRICES,
    architecture: FUNCTION.architecture,
    messages: { requestsPerMessage: 1, ...messages },
    host: HOST_COSTS,
    messagesPerSecond: count / seconds,
    maximumConcurrency,
  }).total;
}
