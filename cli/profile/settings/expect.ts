import type { Arrivals } from './arrivals.ts';
import type { Candidate } from './candidates.ts';
import { type Bill, type Dollars, lambdaDollars } from './dollars.ts';
import type { Invocation } from './invocation.ts';
import { simulateMapping } from './simulate.ts';

/** What settings come to. */
export interface Expectation extends Candidate {
  /** Most rows of a run. */
  readonly maxBatchRows: number;
  /** Messages of an invocation on average, and as a share of the batch size. */
  readonly messagesPerInvocation: number;
  readonly fill: number;
  /** Runs of the model in an invocation, on average. */
  readonly microBatchesPerInvocation: number;
  /** From a message's arrival to its result: of half of the messages, and of all but the slowest hundredth. */
  readonly p50AgeMs: number;
  readonly p99AgeMs: number;
  readonly dollarsPerMillionRows: Dollars;
}

/** Simulates a candidate and adds up what it costs. */
export function expect(
  candidate: Candidate,
  invocation: Invocation,
  arrivals: Arrivals,
  bill: Omit<Bill, 'messagesPerSecond' | 'maximumConcurrency'>,
): Expectation {
  const { batchSize, windowSeconds, maximumConcurrency } = candidate;
  const mapping = { batchSize, windowMs: windowSeconds * 1000, maximumConcurrency };
  const course = simulateMapping(arrivals.times, mapping, invocation.msOf, arrivals.from);
  const messagesPerInvocation = course.messages / course.invocations;
  let runs = 0;
  for (const [size, count] of course.sizes) {
    runs += count * invocation.times.runsOf(size * bill.messages.requestsPerMessage);
  }
  return {
    ...candidate,
    maxBatchRows: invocation.times.rowsPerRun,
    messagesPerInvocation,
    fill: messagesPerInvocation / batchSize,
    microBatchesPerInvocation: runs / course.invocations,
    p50AgeMs: course.p50Ms,
    p99AgeMs: course.p99Ms,
    dollarsPerMillionRows: lambdaDollars(course, invocation, {
      ...bill,
      messagesPerSecond: arrivals.perSecond,
      maximumConcurrency,
    }),
  };
}
