import {
  INVOCATIONS_ADDED_PER_MINUTE,
  INVOCATIONS_AT_FIRST,
  INVOCATIONS_PER_POLLER,
  MOST_INVOCATIONS,
} from '../../lambda/core/limits.ts';

/*
 * What AWS documents of the services between a producer and the function: the rules of the simulation. Where AWS documents
 * nothing, the simulation says what it assumes (simulate.ts).
 */

/**
 * How an event source mapping of a standard queue grows: concurrent invocations at first, more each minute while messages
 * are left waiting, and at the most.
 *
 * @see https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-scaling.html
 */
export const MAPPING = {
  atFirst: INVOCATIONS_AT_FIRST,
  perMinute: INVOCATIONS_ADDED_PER_MINUTE,
  most: MOST_INVOCATIONS,
};

/**
 * With provisioned pollers. Each starts so many invocations at a time, makes so many calls of ReceiveMessage a second, and
 * moves so many bytes a second.
 *
 * @see https://docs.aws.amazon.com/lambda/latest/dg/invocation-eventsourcemapping.html#invocation-eventsourcemapping-provisioned-mode
 */
export const POLLER = {
  invocations: INVOCATIONS_PER_POLLER,
  callsPerSecond: 10,
  bytesPerSecond: 1_000_000,
  atFirst: 2,
};

/** Concurrent invocations that provisioned pollers add in a minute. @see the page of {@link POLLER} */
export const PROVISIONED_PER_MINUTE = 1_000;

/** @see https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_ReceiveMessage.html */
export const MESSAGES_PER_RECEIVE = 10;

/**
 * Calls a second of each action on a FIFO queue with high throughput, in the region of the prices; each moves at most ten
 * messages.
 *
 * @see https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html
 */
export const FIFO_CALLS_PER_SECOND = 70_000;

/**
 * Concurrent invocations of an account in a region unless it asks for more, and invocations a second for each of them.
 *
 * @see https://docs.aws.amazon.com/lambda/latest/dg/lambda-concurrency.html
 */
export const ACCOUNT = { concurrency: 1_000, invocationsPerSecond: 10 };

/**
 * Execution environments that one function may add: refilled continuously, never more than these at once.
 *
 * @see https://docs.aws.amazon.com/lambda/latest/dg/scaling-behavior.html
 */
export const ENVIRONMENTS = { atOnce: 1_000, perSecond: 100 };

/**
 * Write units a second of an on-demand table: by default at the most, and of a new one at once. One result of up to 1 KB
 * takes one.
 *
 * @see https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ServiceQuotas.html
 * @see https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/on-demand-capacity-mode.html
 */
export const TABLE = { writesPerSecond: 40_000, writesPerSecondWhenNew: 4_000, unitBytes: 1_024 };

/**
 * PUTs a second under one partitioned prefix, and the shards that the result bucket's keys begin with, by which S3 can
 * divide it.
 *
 * @see https://docs.aws.amazon.com/AmazonS3/latest/userguide/optimizing-performance.html
 */
export const BUCKET = { putsPerSecond: 3_500, shards: 16 };
