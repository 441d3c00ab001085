import prices from '../../infra/prices.json' with { type: 'json' };
import type { Delivered } from '../contestants/startAwsServer.ts';
import { billedSends } from '../workload/packing.ts';

/** What is known of one event, from which a million requests are reckoned up. */
export interface Event {
  readonly requests: number;
  /** Of the messages that hold them. */
  readonly messageBytes: readonly number[];
  /** What their results came to. */
  readonly delivered: Delivered;
  readonly microsecondsPerRequest: number;
}

const MILLION = 1_000_000;
const MESSAGES_PER_CALL = 10;
/** As in docs/operations.md: arm64, 1,769 MB, batches of 100 messages, 100 ms a batch or what was measured. */
const FUNCTION_GB = 1769 / 1024;
const BATCH_MESSAGES = 100;
const LEAST_BATCH_SECONDS = 0.1;
/** What SQS hands over at most. */
const BATCH_BYTES = 6_000_000;

/** US dollars for a million requests, scored and their results read. */
export function dollarsPerMillion(event: Event): number {
  return sqsDollars(event) + lambdaDollars(event) + storeDollars(event);
}

/** The queues' part: each message is sent, received and deleted, ten in a call. */
export function sqsDollars({ requests, messageBytes, delivered }: Event): number {
  const queued = (chunks: number, messages: number): number => 2 * chunks + messages / MESSAGES_PER_CALL;
  const results = delivered.chunks === 0 ? 0 : queued(delivered.chunks, delivered.messages);
  const billed = queued(billedSends(messageBytes), messageBytes.length) + results;
  return (billed / requests) * prices.sqsStandardMillionRequests;
}

function lambdaDollars({ requests, messageBytes, microsecondsPerRequest }: Event): number {
  const bytesPerMessage = messageBytes.reduce((sum, bytes) => sum + bytes, 0) / messageBytes.length;
  const batchMessages = Math.min(BATCH_MESSAGES, BATCH_BYTES / bytesPerMessage);
  const batchRequests = (batchMessages * requests) / messageBytes.length;
  const seconds = Math.max(LEAST_BATCH_SECONDS, (batchRequests * microsecondsPerRequest) / MILLION);
  const invocation = seconds * FUNCTION_GB * prices.lambdaArmGbSecond + prices.lambdaMillionRequests / MILLION;
  return (MILLION / batchRequests) * invocation;
}

/** Of the table each result is written and read, of the bucket each object is written. */
function storeDollars({ requests, delivered: { writeUnits, readUnits, objects } }: Event): number {
  const dollars =
    (writeUnits * prices.dynamodbMillionWrites) / MILLION +
    (readUnits * prices.dynamodbMillionReads) / MILLION +
    (objects * prices.s3ThousandPuts) / 1_000;
  return (dollars / requests) * MILLION;
}
