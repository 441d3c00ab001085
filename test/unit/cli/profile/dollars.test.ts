import { describe, expect, it } from '@jest/globals';
import {
  type Bill,
  HOST_COSTS,
  type Invocation,
  invocationWith,
  lambdaDollars,
  type Messages,
  PRICES,
  workersFor,
} from '../../../../cli/profile/costs.ts';
import type { Course } from '../../../../cli/profile/simulate.ts';
import { SINGLE, tableOf } from './setup.ts';

/** Invocations that all have so many messages. */
function courseOf(size: number, invocations = 10): Course {
  return { p50Ms: 0, p99Ms: 0, sizes: new Map([[size, invocations]]), messages: size * invocations, invocations };
}

function lasting(ms: number, memoryMb = 1769): Invocation {
  return { memoryMb, times: { rowsPerRun: 1, gain: 1, msOf: () => 0 }, msOf: () => ms };
}

function bill(overrides: Partial<Bill> = {}): Bill {
  return { maximumConcurrency: 5, messages: SINGLE, messagesPerSecond: 10_000, ...overrides };
}

/** Prices of which only one kind costs anything, so that a sum shows one part. */
function only(...names: readonly (keyof typeof PRICES)[]): typeof PRICES {
  const none = { lambdaGbSecond: 0, lambdaMillionRequests: 0, sqsMillionRequests: 0 };
  return { ...PRICES, ...none, ...Object.fromEntries(names.map((name) => [name, PRICES[name]])) };
}

const SQS = only('sqsMillionRequests');

describe('what a million rows cost on Lambda', () => {
  it('is the arithmetic of docs/operations.md with batches of 100, 100 ms and full calls', () => {
    const dollars = (prices: typeof PRICES): number => lambdaDollars(courseOf(100), lasting(100), bill(), prices);
    expect(dollars(only('lambdaGbSecond'))).toBeCloseTo(10_000 * 0.1 * 1.7275 * 0.0000133334, 4);
    expect(dollars(only('lambdaMillionRequests'))).toBeCloseTo(0.002, 10);
    expect(dollars(SQS)).toBeCloseTo(0.12 + 0.12, 10);
    expect(dollars(PRICES)).toBeCloseTo(0.265, 3);
  });

  it('is, one message at a time and rarely, a receive, a delete and a write for each', () => {
    const rare = { messagesPerSecond: 0.001 };
    const prices = only('lambdaGbSecond', 'lambdaMillionRequests');
    // As docs/operations.md has it: 0.661 $ of Lambda.
    expect(lambdaDollars(courseOf(1), lasting(20), bill(rare), prices)).toBeCloseTo(0.661, 3);
    const idle = lambdaDollars(courseOf(1000), lasting(20), bill(rare), SQS) - 0.4 * (0.1 + 1 + 0.1 + 0.3);
    const sqs = lambdaDollars(courseOf(1), lasting(20), bill(rare), SQS);
    expect(sqs - idle).toBeCloseTo(0.4 * (0.1 + 1 + 1) + 0.4 * (1 + 0.1 + 0.1), 3);
  });

  it('is, on ECS, that of as many tasks as the rows keep busy, and of calls with ten messages', () => {
    const table = tableOf((rows) => rows * (1 - HOST_COSTS.messageMs - HOST_COSTS.requestMs));
    const workers = (messagesPerSecond: number) => workersFor(table, 1, { messages: SINGLE, messagesPerSecond });
    expect(workers(1).tasks).toBe(1);
    expect(workers(799).tasks).toBe(1);
    expect(workers(801).tasks).toBe(2);
    const hour = 0.03238 + 2 * 0.00356;
    expect(workers(1000).dollarsPerMillionRows).toBeCloseTo((2 * hour * 1e6) / 3_600_000 + 0.4 * 0.6, 6);
  });

  it('counts milliseconds that were begun', () => {
    const dollars = lambdaDollars(courseOf(1), lasting(1.2, 1024), bill(), only('lambdaGbSecond'));
    expect(dollars).toBeCloseTo(1_000_000 * 0.002 * 0.0000133334, 8);
  });

  it('has the polls of an empty queue, 15 a minute', () => {
    const rate = 1e-6;
    const dollars = lambdaDollars(courseOf(1), lasting(1), bill({ messagesPerSecond: rate }), SQS);
    expect((dollars / 1e6) * rate * 730 * 3600).toBeCloseTo(0.26, 2);
  });

  it('divides by the rows of packed messages, and counts each 64 KiB of a call as a request', () => {
    const messages: Messages = { requestsPerMessage: 100, messageBytes: 65_536, resultBytes: 45_000 };
    // A call with ten results of 45,000 bytes counts as seven requests, sent and received.
    const expected = (0.4 * (1 + 1 + 0.1)) / 100 + (0.4 * (0.7 + 0.7 + 0.1)) / 100;
    expect(lambdaDollars(courseOf(10), lasting(100), bill({ messages }), SQS)).toBeCloseTo(expected, 10);
  });
});

it('an invocation decodes with its share of a core, runs, and waits for its writes', () => {
  const hostMs = HOST_COSTS.messageMs + HOST_COSTS.requestMs;
  const table = tableOf((rows) => 10 * rows);
  const msOf = (memoryMb: number, messages: number): number =>
    invocationWith(memoryMb, table, 1, SINGLE).msOf(messages);
  expect(msOf(1769, 1)).toBeCloseTo(hostMs + 10 + 20, 10);
  // 160 results take 16 calls, which are under way together, 170 one call more.
  expect(msOf(1769, 160)).toBeCloseTo(160 * (hostMs + 10) + 20, 6);
  expect(msOf(1769, 170)).toBeCloseTo(170 * (hostMs + 10) + 40, 6);
  expect(msOf(1769 / 2, 1)).toBeCloseTo(2 * hostMs + 20 + 20, 10);
  expect(msOf(2 * 1769, 1)).toBeCloseTo(msOf(1769, 1), 10);
});
