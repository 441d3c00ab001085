import { INVOCATIONS_AT_FIRST, MB_PER_VCPU } from '../../lambda/core/limits.ts';
import type { ProfileFile } from '../../lambda/onnx/profileFile.ts';
import type { Course } from './simulate.ts';

/**
 * Costs of a message besides its model runs: CPU of the message with its SQS calls, CPU of each request in it
 * (decoding, stacking, encoding), and the round trip of an SQS call. `npm run bench -- --scenario hops` measured the
 * CPU times on two cores. The round trip is AWS's own example within a region.
 *
 * @see
 * https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-throughput-horizontal-scaling-and-batching.html
 */
export const HOST_COSTS = { messageMs: 0.066, requestMs: 0.018, roundTripMs: 20 } as const;

/**
 * Public prices on arm64 in US dollars.
 *
 * @see https://aws.amazon.com/lambda/pricing/, https://aws.amazon.com/fargate/pricing/ and
 * https://aws.amazon.com/sqs/pricing/
 */
export const PRICES = {
  date: '2026-11',
  region: 'us-east-1',
  lambdaGbSecond: 1.33334e-5,
  lambdaMillionRequests: 0.2,
  fargateVcpuHour: 0.03238,
  fargateGbHour: 0.00356,
  sqsMillionRequests: 0.4,
};

export interface Messages {
  /** Number of requests in a message, with one row each. */
  readonly requestsPerMessage: number;
  /** Bytes of a message, and of its result. */
  readonly messageBytes: number;
  readonly resultBytes: number;
}

export type Invocation = ReturnType<typeof invocationWith>;

/**
 * Returns a function's share of the CPUs.
 *
 * @see https://docs.aws.amazon.com/lambda/latest/dg/configuration-memory.html
 */
export function vcpusOf(memoryMb: number): number {
  return memoryMb / MB_PER_VCPU;
}

const MESSAGES_PER_CALL = 10;
/** Maximum number of concurrent calls by the result queue's writer. */
const CALLS_AT_ONCE = 16;
/** Bytes that SQS bills as one request. */
const BILLED_BYTES = 65_536;

/**
 * Creates the cost model of an invocation: it decodes and encodes on one core, runs the model, and writes its results,
 * one step after the other. Real invocations overlap these steps and are slightly shorter.
 *
 * @param length length of the rows
 */
export function invocationWith(memoryMb: number, table: readonly RunCost[], length: number, messages: Messages) {
  const vcpus = vcpusOf(memoryMb);
  const times = runTimes(table, vcpus, length);
  const { requestsPerMessage } = messages;
  const hostMs = (HOST_COSTS.messageMs + requestsPerMessage * HOST_COSTS.requestMs) / Math.min(1, vcpus);
  return {
    memoryMb,
    times,
    msOf(count: number): number {
      const turns = Math.ceil(callsFor(count) / CALLS_AT_ONCE);
      return count * hostMs + times.msOf(count * requestsPerMessage) + turns * HOST_COSTS.roundTripMs;
    },
  };
}

function callsFor(messages: number): number {
  return Math.ceil(messages / MESSAGES_PER_CALL);
}

/** Measured cost of runs of one size. */
export type RunCost = Omit<ProfileFile['table'][number], 'spread'>;

/** Minimum throughput of more rows, relative to fewer. Fewer rows take less memory and answer sooner. */
const MIN_GAIN_OF_MORE_ROWS = 1.05;

/**
 * Returns the knee: the index of the last size that gains over all smaller ones.
 *
 * @param throughput rows per second by size, fewer rows first
 */
export function kneeOf(throughput: readonly number[]): number {
  const gains = (value: number, index: number): boolean =>
    value >= MIN_GAIN_OF_MORE_ROWS * Math.max(...throughput.slice(0, index));
  return Math.max(0, throughput.findLastIndex(gains));
}

/**
 * Returns the run times of rows of one length with `vcpus`. If each thread has a core, they are the measured ones. With
 * fewer cores than threads they are longer in proportion, as if every thread were always busy. The fastest number of
 * threads counts. Row counts between the measured ones are interpolated.
 *
 * @param table row counts at several lengths, for one or more numbers of threads
 */
export function runTimes(table: readonly RunCost[], vcpus: number, length: number) {
  const ofLength = table.filter((run) => run.length === length).toSorted((a, b) => a.rows - b.rows);
  const byThreads = [...Map.groupBy(ofLength, ({ threads }) => threads)].map(([threads, runs]) => ({
    slower: Math.max(1, threads / vcpus),
    runs,
  }));
  const fastestMs = (rows: number): number =>
    Math.min(...byThreads.map(({ slower, runs }) => slower * millisecondsOf(rows, runs)));
  const counts = [...new Set(ofLength.map(({ rows }) => rows))];
  const rowsPerRun = counts[kneeOf(counts.map((rows) => rows / fastestMs(rows)))] as number;
  const fullRunMs = fastestMs(rowsPerRun);
  return {
    /** Rows of a run beyond which more rows gain little. */
    rowsPerRun,
    /** Throughput of such runs in rows per second, relative to runs of one row. */
    gain: (fastestMs(1) * rowsPerRun) / fullRunMs,
    /** Returns the total milliseconds of the runs for `rows` rows. */
    msOf(rows: number): number {
      const rest = rows % rowsPerRun;
      return Math.floor(rows / rowsPerRun) * fullRunMs + (rest === 0 ? 0 : fastestMs(rest));
    },
  };
}

/** Interpolates linearly between the two nearest row counts. Fewer rows than the fewest take as long as those. */
function millisecondsOf(rows: number, runs: readonly RunCost[]): number {
  const above = runs.findIndex((run) => run.rows >= rows);
  const [lower, upper] = [runs[above - 1], runs[above]];
  if (upper === undefined) throw new Error(`expected at most the rows that were measured, got ${rows}`);
  if (lower === undefined) return upper.medianMs;
  const share = (rows - lower.rows) / (upper.rows - lower.rows);
  return lower.medianMs * (1 - share) + upper.medianMs * share;
}

/** Returns the peak memory of measured runs with up to `rows` rows. */
export function peakBytes(table: readonly RunCost[], rows: number): number {
  return Math.max(...table.filter((run) => run.rows <= rows).map(({ peakRssBytes }) => peakRssBytes));
}

export interface Bill {
  readonly messages: Messages;
  readonly messagesPerSecond: number;
  readonly maximumConcurrency: number;
}

const MILLION = 1_000_000;
/** Duration of a poll that returns nothing. */
const LONG_POLL_SECONDS = 20;

/**
 * Returns US dollars per million rows on Lambda: duration times memory, invocations, and SQS requests of 64 KiB. It
 * excludes costs that are equal for all settings: logs, metrics and alarms.
 *
 * @see https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html for the polling
 */
export function lambdaDollars(
  course: Pick<Course, 'sizes' | 'messages' | 'invocations'>,
  invocation: Pick<Invocation, 'memoryMb' | 'msOf'>,
  bill: Bill,
  prices = PRICES,
): number {
  const { messageBytes, resultBytes, requestsPerMessage } = bill.messages;
  let [milliseconds, deletes, written] = [0, 0, 0];
  for (const [size, count] of course.sizes) {
    milliseconds += count * Math.ceil(invocation.msOf(size));
    deletes += count * callsFor(size);
    written += count * Math.max(callsFor(size), Math.ceil((size * resultBytes) / BILLED_BYTES));
  }
  const sent = billedPerMessage(MESSAGES_PER_CALL, messageBytes);
  const received = billedPerMessage(messagesPerReceive(bill), messageBytes);
  const taken = billedPerMessage(MESSAGES_PER_CALL, resultBytes) + 1 / MESSAGES_PER_CALL;
  const requests = course.messages * (sent + received + taken) + deletes + written;
  const compute = (milliseconds / 1000) * (invocation.memoryMb / 1024) * prices.lambdaGbSecond;
  const calls = (course.invocations * prices.lambdaMillionRequests + requests * prices.sqsMillionRequests) / MILLION;
  const idle = (emptyReceivesPerSecond(bill) * prices.sqsMillionRequests) / rowsPerSecond(bill);
  return ((compute + calls) * MILLION) / (course.messages * requestsPerMessage) + idle;
}

/** Task of a worker on Fargate, and the share of its time that it may be busy. */
export const TASK = { vcpus: 1, gb: 2, busyShare: 0.8 } as const;

/** Returns the number of tasks for the traffic, and their US dollars per million rows. @param length of the rows */
export function workersFor(
  table: readonly RunCost[],
  length: number,
  bill: Pick<Bill, 'messages' | 'messagesPerSecond'>,
  prices = PRICES,
) {
  const { requestsPerMessage, messageBytes, resultBytes } = bill.messages;
  const { rowsPerRun, msOf } = runTimes(table, TASK.vcpus, length);
  const hostMs = HOST_COSTS.requestMs + HOST_COSTS.messageMs / requestsPerMessage;
  const busy = (rowsPerSecond(bill) * (msOf(rowsPerRun) / rowsPerRun + hostMs)) / 1000;
  const tasks = Math.max(1, Math.ceil(busy / TASK.busyShare));
  const hourly = tasks * (TASK.vcpus * prices.fargateVcpuHour + TASK.gb * prices.fargateGbHour);
  // Requests and results are each sent, received and deleted.
  const bytes = [messageBytes, resultBytes];
  const requests = bytes.reduce(
    (sum, size) => sum + 2 * billedPerMessage(MESSAGES_PER_CALL, size) + 1 / MESSAGES_PER_CALL,
    0,
  );
  const perMillion = (hourly / 3_600 / rowsPerSecond(bill)) * MILLION;
  return { tasks, dollarsPerMillionRows: perMillion + (requests * prices.sqsMillionRequests) / requestsPerMessage };
}

export function rowsPerSecond({ messagesPerSecond, messages }: Pick<Bill, 'messagesPerSecond' | 'messages'>): number {
  return messagesPerSecond * messages.requestsPerMessage;
}

/** Seconds of a month as AWS bills it: 730 hours. */
export const SECONDS_A_MONTH = 730 * 3_600;

/** Returns the time from a message's first request, which waits for the last one, to the message. */
export function gatheringMs(bill: Pick<Bill, 'messagesPerSecond' | 'messages'>): number {
  return (1000 * (bill.messages.requestsPerMessage - 1)) / rowsPerSecond(bill);
}

/** Returns the billed SQS requests per message, for calls with `perCall` messages. */
function billedPerMessage(perCall: number, bytes: number): number {
  return Math.max(1, Math.ceil((perCall * bytes) / BILLED_BYTES)) / perCall;
}

/**
 * Returns the average number of messages per poll. The first message ends a poll, and the next poll also gets those
 * that arrive during the round trip.
 */
function messagesPerReceive({ messagesPerSecond, maximumConcurrency }: Bill): number {
  const perPoller = messagesPerSecond / Math.min(INVOCATIONS_AT_FIRST, maximumConcurrency);
  return Math.min(MESSAGES_PER_CALL, 1 + (perPoller * HOST_COSTS.roundTripMs) / 1000);
}

/** Returns the rate of long polls that return nothing. There are 15 per minute without traffic. */
function emptyReceivesPerSecond({ messagesPerSecond }: Bill): number {
  const inOnePoll = (messagesPerSecond * LONG_POLL_SECONDS) / INVOCATIONS_AT_FIRST;
  return (INVOCATIONS_AT_FIRST / LONG_POLL_SECONDS) * Math.exp(-inOnePoll);
}
