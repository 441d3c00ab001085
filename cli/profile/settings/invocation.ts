import { MB_PER_VCPU } from '../../../lambda/core/limits.ts';
import type { RunCost, RunTimes } from './runTimes.ts';
import { runTimes } from './runTimes.ts';

/** What a message takes besides the runs of its rows. */
export interface HostCosts {
  /** CPU of a message with its calls of SQS, and of each request in it: decoding, stacking, encoding. */
  readonly messageMs: number;
  readonly requestMs: number;
  /** From a call of SQS to its answer. */
  readonly roundTripMs: number;
}

/**
 * CPU as `npm run bench:scale` has it by default; the round trip is AWS's own example of one within a region. Nothing
 * here measures AWS.
 *
 * @see https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-throughput-horizontal-scaling-and-batching.html
 */
export const HOST_COSTS: HostCosts = { messageMs: 0.066, requestMs: 0.018, roundTripMs: 20 };

/** What comes in a message and goes out for it. */
export interface Messages {
  /** Requests in a message, of one row each. */
  readonly requestsPerMessage: number;
  /** Of a message, and of the results of one. */
  readonly messageBytes: number;
  readonly resultBytes: number;
  /** Whether results share messages of the result queue, or each message's have their own. */
  readonly packedResults: boolean;
}

/** An invocation of the function, by the memory that it has. */
export interface Invocation {
  readonly memoryMb: number;
  readonly times: RunTimes;
  /** Milliseconds with so many messages. */
  msOf(messages: number): number;
}

/** What a function has of the CPUs, for its memory. @see https://docs.aws.amazon.com/lambda/latest/dg/configuration-memory.html */
export function vcpusOf(memoryMb: number): number {
  return memoryMb / MB_PER_VCPU;
}

const MESSAGES_PER_CALL = 10;
/** Of the result queue's writer, at a time. */
const CALLS_AT_ONCE = 16;
/** SQS bills each as one request, and packed results fill one. */
export const BILLED_BYTES = 65_536;

/**
 * An invocation decodes and encodes with one core, runs, and waits for its results to be written, one after the other: what
 * overlaps in fact makes it shorter.
 *
 * @param length of rows
 */
export function invocationWith(
  memoryMb: number,
  table: readonly RunCost[],
  length: number,
  messages: Messages,
  host: HostCosts,
): Invocation {
  const vcpus = vcpusOf(memoryMb);
  const times = runTimes(table, vcpus, length);
  const hostMs = (host.messageMs + messages.requestsPerMessage * host.requestMs) / Math.min(1, vcpus);
  const known: number[] = [];
  const msOf = (count: number): number => {
    const turns = Math.ceil(callsFor(resultMessages(count, messages)) / CALLS_AT_ONCE);
    return count * hostMs + times.msOf(count * messages.requestsPerMessage) + turns * host.roundTripMs;
  };
  return {
    memoryMb,
    times,
    msOf: (count) => {
      const ms = known[count] ?? msOf(count);
      known[count] = ms;
      return ms;
    },
  };
}

/** Messages of the result queue that the results of so many messages take. */
export function resultMessages(count: number, { packedResults, resultBytes }: Messages): number {
  return packedResults ? Math.ceil(count / Math.max(1, Math.floor(BILLED_BYTES / resultBytes))) : count;
}

/** Batch requests for so many messages. */
export function callsFor(messages: number): number {
  return Math.ceil(messages / MESSAGES_PER_CALL);
}
