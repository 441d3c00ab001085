import type { Prices } from '../../../infra/constructs/base/prices.ts';
import { INVOCATIONS_AT_FIRST } from '../../../lambda/core/limits.ts';
import {
  BILLED_BYTES,
  callsFor,
  type HostCosts,
  type Invocation,
  type Messages,
  resultMessages,
} from './invocation.ts';
import type { Course } from './tally.ts';

/** US dollars for a million rows, and what they are for. */
export interface Dollars {
  readonly compute: number;
  readonly invocations: number;
  /** Requests to the request queue, sent by the producer ten to a call. */
  readonly requestQueue: number;
  /** Requests to the result queue, the consumer's among them, ten to a call. */
  readonly resultQueue: number;
  /** What is paid while no message comes. */
  readonly idle: number;
  readonly total: number;
}

export type Architecture = 'arm64' | 'x86_64';

export interface Bill {
  readonly prices: Prices;
  readonly architecture: Architecture;
  readonly messages: Messages;
  readonly host: HostCosts;
  readonly messagesPerSecond: number;
  /** Most invocations at a time. */
  readonly maximumConcurrency: number;
}

const MILLION = 1_000_000;
const MESSAGES_PER_CALL = 10;
/** A poll that finds nothing waits so long. */
const LONG_POLL_SECONDS = 20;

/**
 * What rows cost on Lambda: milliseconds of memory, invocations, and requests to SQS, of which each 64 KiB is one. What is
 * the same for all settings is left out: logs, metrics, alarms.
 *
 * @see https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html for the polling
 */
export function lambdaDollars(
  course: Pick<Course, 'sizes' | 'messages' | 'invocations'>,
  invocation: Pick<Invocation, 'memoryMb' | 'msOf'>,
  bill: Bill,
): Dollars {
  const { prices, architecture, messages } = bill;
  const perGbSecond = architecture === 'arm64' ? prices.lambdaArmGbSecond : prices.lambdaX86GbSecond;
  let [milliseconds, deletes, resultCalls, results] = [0, 0, 0, 0];
  for (const [size, count] of course.sizes) {
    milliseconds += count * Math.ceil(invocation.msOf(size));
    deletes += count * callsFor(size);
    const written = resultMessages(size, messages);
    results += count * written;
    resultCalls += count * (messages.packedResults ? written : callsFor(written));
  }
  const rows = course.messages * messages.requestsPerMessage;
  const perMillionRows = (dollars: number): number => (dollars * MILLION) / rows;
  const sqs = (requests: number): number => perMillionRows((requests * prices.sqsStandardMillionRequests) / MILLION);
  const sends = course.messages * billedPerMessage(MESSAGES_PER_CALL, messages.messageBytes);
  const receives = course.messages * billedPerMessage(messagesPerReceive(bill), messages.messageBytes);
  const taken = messages.packedResults ? results : results * billedPerMessage(MESSAGES_PER_CALL, messages.resultBytes);
  return sumOf({
    compute: perMillionRows((milliseconds / 1000) * (invocation.memoryMb / 1024) * perGbSecond),
    invocations: perMillionRows((course.invocations * prices.lambdaMillionRequests) / MILLION),
    requestQueue: sqs(sends + receives + deletes),
    resultQueue: sqs(resultCalls + taken + results / MESSAGES_PER_CALL),
    idle: (emptyReceivesPerSecond(bill) * prices.sqsStandardMillionRequests) / rowsPerSecond(bill),
  });
}

/** What an instance that always runs costs, with so many of them; its host receives and deletes ten messages to a call. */
export function instanceDollars(
  dollarsPerHour: number,
  perInvocation: number,
  batchSize: number,
  bill: Pick<Bill, 'prices' | 'messages' | 'messagesPerSecond'>,
): Dollars {
  const { prices, messages } = bill;
  const perMessage = (requests: number): number =>
    (requests * prices.sqsStandardMillionRequests) / messages.requestsPerMessage;
  const moved = 2 * billedPerMessage(MESSAGES_PER_CALL, messages.messageBytes) + 1 / MESSAGES_PER_CALL;
  const results = resultMessages(batchSize, messages) / batchSize;
  const taken = messages.packedResults ? 2 : 2 * billedPerMessage(MESSAGES_PER_CALL, messages.resultBytes);
  return sumOf({
    compute: (dollarsPerHour / 3_600 / rowsPerSecond(bill)) * MILLION,
    invocations: (perInvocation * MILLION) / (batchSize * messages.requestsPerMessage),
    requestQueue: perMessage(moved),
    resultQueue: perMessage(results * (taken + 1 / MESSAGES_PER_CALL)),
    idle: 0,
  });
}

export function rowsPerSecond({ messagesPerSecond, messages }: Pick<Bill, 'messagesPerSecond' | 'messages'>): number {
  return messagesPerSecond * messages.requestsPerMessage;
}

function sumOf(parts: Omit<Dollars, 'total'>): Dollars {
  return { ...parts, total: Object.values(parts).reduce((sum, part) => sum + part, 0) };
}

/** SQS requests that a message is billed as, in calls of so many. */
function billedPerMessage(perCall: number, bytes: number): number {
  return Math.max(1, Math.ceil((perCall * bytes) / BILLED_BYTES)) / perCall;
}

/** A poll is answered with the first message that comes; those of the next round trip are in the next one together. */
function messagesPerReceive({ messagesPerSecond, maximumConcurrency, host }: Bill): number {
  const perPoller = messagesPerSecond / Math.min(INVOCATIONS_AT_FIRST, maximumConcurrency);
  return Math.min(MESSAGES_PER_CALL, 1 + (perPoller * host.roundTripMs) / 1000);
}

/** Long polls in which nothing comes: with no traffic 15 a minute. */
function emptyReceivesPerSecond({ messagesPerSecond }: Bill): number {
  const inOnePoll = (messagesPerSecond * LONG_POLL_SECONDS) / INVOCATIONS_AT_FIRST;
  return (INVOCATIONS_AT_FIRST / LONG_POLL_SECONDS) * Math.exp(-inOnePoll);
}
