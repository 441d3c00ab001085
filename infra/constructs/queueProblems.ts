import type { IBucket } from 'aws-cdk-lib/aws-s3';
import type { IQueue } from 'aws-cdk-lib/aws-sqs';
import { outside, SHARDS } from '../../lambda/core/limits.ts';
import { EXPECTED_KEY_PREFIX, isKeyPrefix } from '../../lambda/core/places.ts';

import {
  DEAD_LETTER_RETENTION_DAYS,
  type ExistingQueue,
  fifoOf,
  keyOf,
  MESSAGE_ID_KEY,
  RESULT_RETENTION_DAYS,
  RETENTION_DAYS,
  type ResultStore,
  type ResultStores,
  redriveOf,
  retentionDaysOf,
  useRequestQueue,
} from './channels.ts';
import type { Problem } from './problems.ts';

const MAX_VISIBILITY_SECONDS = 43_200;
const MIN_RECEIVES = 3;

/** The queues as they were given; undefined is left to the default. */
interface GivenQueues {
  readonly fifo?: boolean | undefined;
  readonly requestQueue?: IQueue | undefined;
  readonly resultQueue?: IQueue | undefined;
}

/** An existing request queue must be of the kind that was asked for, and the result queue of the same kind. */
export function queueKindProblems({ fifo, requestQueue, resultQueue }: GivenQueues): Problem[] {
  return [
    requestQueue && otherKind(requestQueue, fifo),
    mixedKinds(requestQueue?.fifo ?? fifo ?? false, resultQueue?.fifo),
  ];
}

function otherKind(requestQueue: IQueue, fifo: boolean | undefined): Problem {
  if (fifo === undefined || fifo === requestQueue.fifo) return undefined;
  const [is, cure] =
    fifoOf(requestQueue) === undefined
      ? ['is taken to be by its import', 'import it with Queue.fromQueueAttributes and fifo']
      : ['is', 'leave it out'];
  return `fifo: expected ${requestQueue.fifo}, as the given request queue ${is}, got ${fifo}; ${cure}`;
}

/** Between queues of different kinds the order of a message group would be lost, or its name would be missing. */
function mixedKinds(requests: boolean, results: boolean | undefined): Problem {
  if (results === undefined || results === requests) return undefined;
  const kind = (isFifo: boolean): string => (isFifo ? 'FIFO' : 'standard');
  return (
    `stores.resultQueue: expected a ${kind(requests)} queue, as the request queue is, got a ${kind(results)} queue; ` +
    'give one of the same kind'
  );
}

/** An existing queue is one: several would have to be given one by one, each with its own timeout and dead letters. */
export function shardsProblem(shards: number, requestQueue: IQueue | undefined): Problem {
  if (requestQueue === undefined || shards === 1) return outside('shards', shards, SHARDS);
  return (
    `shards: expected 1 with a request queue of your own, got ${shards}; leave out one of the two, or make one ` +
    'construct for each queue'
  );
}

/**
 * A message that becomes visible while it is still being scored is scored, and paid for, twice.
 *
 * @param least what the compute needs
 * @param sum how `min` is worked out, such as `6 × 60 s timeout + 1 s window`
 */
export function visibilityProblem(visibilityTimeoutSeconds: number, min: number, sum: string): Problem {
  if (!Number.isInteger(visibilityTimeoutSeconds)) {
    return `visibilityTimeoutSeconds: expected a whole number, got ${visibilityTimeoutSeconds}; give the queue's own`;
  }
  if (visibilityTimeoutSeconds >= min && visibilityTimeoutSeconds <= MAX_VISIBILITY_SECONDS) return undefined;
  if (visibilityTimeoutSeconds > MAX_VISIBILITY_SECONDS) {
    return (
      `visibilityTimeoutSeconds: expected at most ${MAX_VISIBILITY_SECONDS}, which is what SQS allows, ` +
      `got ${visibilityTimeoutSeconds}; lower it`
    );
  }
  return (
    `visibilityTimeoutSeconds: expected at least ${min} = ${sum}, got ${visibilityTimeoutSeconds}; ` +
    "raise the queue's visibility timeout or lower timeoutSeconds"
  );
}

/** @param known what the CDK knows the queue to have; undefined where it does not know */
export function statedVisibilityProblem(stated: number, known: number | undefined): Problem {
  if (known === undefined || stated === known || !Number.isInteger(stated)) return undefined;
  return (
    `visibilityTimeoutSeconds: expected ${known}, as the given request queue has it, got ${stated}; ` +
    "give the queue's own, or change the queue's"
  );
}

/** Throttles and timeouts count as receives, so a limit of one or two would send good messages to the dead letters. */
export function receiveCountProblem(maxReceiveCount: number): Problem {
  if (Number.isInteger(maxReceiveCount) && maxReceiveCount < MIN_RECEIVES) {
    return (
      `maxReceiveCount: expected at least ${MIN_RECEIVES}, because throttles and timeouts count as receives, ` +
      `got ${maxReceiveCount}; raise it to 5`
    );
  }
  return outside('maxReceiveCount', maxReceiveCount, { min: MIN_RECEIVES, max: 1000 });
}

/**
 * Dead letters of an existing request queue that its redrive policy does not name, as far as the CDK knows it: alarm and
 * permissions would be those of a queue that gets none.
 *
 * @param maxReceiveCount as it was given; undefined is left to the queue's own
 */
export function deadLetterProblems(
  existing: ExistingQueue | undefined,
  maxReceiveCount: number | undefined,
): Problem[] {
  if (existing === undefined) return [];
  const { queue, deadLetterQueue } = existing;
  const known = redriveOf(queue);
  return [
    ...(deadLetterQueue === undefined
      ? []
      : [
          deadLettersAreRequests(queue, deadLetterQueue),
          deadLettersOfOtherKind(queue, deadLetterQueue),
          otherQueue(known?.queue, deadLetterQueue),
        ]),
    otherCount(known?.maxReceiveCount, maxReceiveCount),
  ];
}

const NAME = 'requestQueue.deadLetterQueue';

function deadLettersAreRequests(queue: IQueue, deadLetterQueue: IQueue): Problem {
  if (queue.queueArn !== deadLetterQueue.queueArn) return undefined;
  return `${NAME}: expected another queue than the request queue, got the same; give the one that its redrive policy names`;
}

/** @see https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-dead-letter-queues.html */
function deadLettersOfOtherKind(queue: IQueue, deadLetterQueue: IQueue): Problem {
  const [ofQueue, ofDeadLetters] = [fifoOf(queue), fifoOf(deadLetterQueue)];
  if (ofQueue === undefined || ofDeadLetters === undefined || ofQueue === ofDeadLetters) return undefined;
  const kind = (isFifo: boolean): string => (isFifo ? 'FIFO' : 'standard');
  return (
    `${NAME}: expected a ${kind(ofQueue)} queue, as the request queue is, got a ${kind(ofDeadLetters)} queue; ` +
    'give the one that the redrive policy of the request queue names'
  );
}

function otherQueue(known: IQueue | undefined, deadLetterQueue: IQueue): Problem {
  if (known === undefined || known.queueArn === deadLetterQueue.queueArn) return undefined;
  return (
    `${NAME}: expected ${known.node.path}, where the redrive policy of the request queue sends messages, ` +
    `got ${deadLetterQueue.node.path}; leave it out`
  );
}

function otherCount(known: number | undefined, given: number | undefined): Problem {
  if (known === undefined || given === undefined || known === given) return undefined;
  return (
    `maxReceiveCount: expected ${known}, as the given request queue has it, got ${given}; leave it out, or change the ` +
    "queue's"
  );
}

interface GivenStores {
  readonly results: readonly ResultStore[];
  readonly stores: ResultStores;
  readonly requestQueue: IQueue | undefined;
  readonly deadLetterQueue: IQueue | undefined;
}

/** Existing stores must be named by `results`, and fit for them as far as the CDK knows. */
export function storeProblems({ results, stores, requestQueue, deadLetterQueue }: GivenStores): Problem[] {
  const { resultQueue, resultTable, resultBucket } = stores;
  return [
    resultQueue && notNamed('resultQueue', 'queue', results),
    resultTable && notNamed('resultTable', 'table', results),
    resultBucket && notNamed('resultBucket', 'bucket', results),
    sameQueue(resultQueue, requestQueue, 'request queue', 'results would be scored as requests'),
    sameQueue(resultQueue, deadLetterQueue, 'dead-letter queue', 'dead letters would be collected as results'),
    otherKey(keyOf(resultTable)),
  ];
}

function notNamed(name: string, store: ResultStore, results: readonly ResultStore[]): Problem {
  if (results.includes(store)) return undefined;
  return (
    `stores.${name}: expected ${store} among the results where one is given, got ${results.join(',')}; ` +
    `add ${store} or leave out ${name}`
  );
}

function sameQueue(resultQueue: IQueue | undefined, other: IQueue | undefined, role: string, why: string): Problem {
  if (resultQueue === undefined || resultQueue.queueArn !== other?.queueArn) return undefined;
  return `stores.resultQueue: expected another queue than the ${role}, because ${why}, got the same; give one of its own`;
}

function otherKey(key: readonly string[] | undefined): Problem {
  const expected = `${MESSAGE_ID_KEY} (S)`;
  if (key === undefined || key.join() === expected) return undefined;
  return (
    `stores.resultTable: expected the partition key ${expected} and no sort key, got ${key.join(' and ')}; ` +
    'give a table with that key'
  );
}

/** What was given of the buckets; what was not is undefined. */
interface BucketSettings {
  readonly results: readonly ResultStore[];
  readonly keyPrefix: string | undefined;
  readonly payloadBucket: IBucket | undefined;
  readonly resultBucket: IBucket | undefined;
  readonly payloadExpiryDays: number | undefined;
  readonly resultExpiryDays: number | undefined;
}

const EXPIRY_DAYS = { min: 1, max: 3650 };

/** Prefixes and expiry: each belongs to one kind of bucket, to those that exist already or to new ones. */
export function bucketProblems(settings: BucketSettings): Problem[] {
  const { payloadBucket, resultBucket, payloadExpiryDays, resultExpiryDays } = settings;
  return [
    keyPrefixProblem(settings),
    outside('payloadExpiryDays', payloadExpiryDays, EXPIRY_DAYS),
    payloadBucket && expiryOfAnother('payloadExpiryDays', payloadExpiryDays, 'payloadBucket'),
    outside('resultExpiryDays', resultExpiryDays, EXPIRY_DAYS),
    resultBucket && expiryOfAnother('resultExpiryDays', resultExpiryDays, 'resultBucket'),
    expiryOfNone(settings),
  ];
}

function keyPrefixProblem({ keyPrefix, payloadBucket, resultBucket }: BucketSettings): Problem {
  if (keyPrefix === undefined) return undefined;
  if (payloadBucket === undefined && resultBucket === undefined) {
    return (
      `keyPrefix: expected it with a payloadBucket or resultBucket that exists already, as new ones are shared with ` +
      `nobody, got '${keyPrefix}' without; leave it out`
    );
  }
  if (keyPrefix !== '' && isKeyPrefix(keyPrefix)) return undefined;
  return `keyPrefix: ${EXPECTED_KEY_PREFIX}, got '${keyPrefix}'; change it`;
}

function expiryOfAnother(name: string, days: number | undefined, bucket: string): Problem {
  if (days === undefined) return undefined;
  return (
    `${name}: expected none with a ${bucket} that exists already, because objects expire by the lifecycle rules of that ` +
    `bucket, got ${days}; leave it out, and give the bucket a rule`
  );
}

function expiryOfNone({ results, resultExpiryDays }: BucketSettings): Problem {
  if (resultExpiryDays === undefined || results.includes('bucket')) return undefined;
  return (
    `resultExpiryDays: expected it with bucket among the results, as it is the expiry of that bucket, ` +
    `got ${resultExpiryDays} without; add bucket or leave it out`
  );
}

const SECONDS_A_DAY = 86_400;

/** A payload must not expire before the last message or result that points to it. */
export function payloadExpiryProblem(payloadExpiryDays: number, references: PayloadReferences): Problem {
  const [longest] = reasonsToStay(references).toSorted((a, b) => b.days - a.days);
  if (longest === undefined || payloadExpiryDays >= longest.days) return undefined;
  const { days, reason, cure } = longest;
  return `payloadExpiryDays: expected at least ${Math.ceil(days)}, because ${reason}, got ${payloadExpiryDays}; ${cure}`;
}

interface ReasonToStay {
  readonly days: number;
  readonly reason: string;
  readonly cure: string;
}

function reasonsToStay(references: PayloadReferences): ReasonToStay[] {
  const { resultQueueDays, resultTtlSeconds } = references;
  const ofTable = resultTtlSeconds === undefined ? undefined : resultTtlSeconds / SECONDS_A_DAY;
  return [
    ...requestReasons(references),
    ...reason(resultQueueDays, `the result queue keeps pointers to large results for ${resultQueueDays}`),
    ...reason(
      ofTable,
      `the table keeps pointers to large results for ${resultTtlSeconds} s`,
      'raise it or lower resultTtlSeconds',
    ),
  ];
}

/**
 * On a standard queue the days of a dead letter count from the first send, on a FIFO queue from when it became one.
 *
 * @see https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-dead-letter-queues.html
 */
function requestReasons({ fifo, requestDays, deadLetterDays }: PayloadReferences): ReasonToStay[] {
  const inQueue = `the request queue keeps pointers to large requests for ${requestDays}`;
  if (fifo && requestDays !== undefined && deadLetterDays !== undefined) {
    return reason(requestDays + deadLetterDays, `${inQueue} and the dead letters for ${deadLetterDays} more`);
  }
  return [
    ...reason(requestDays, inQueue),
    ...reason(deadLetterDays, `the dead letters keep pointers to large requests for ${deadLetterDays}`),
  ];
}

function reason(days: number | undefined, why: string, cure = 'raise it'): ReasonToStay[] {
  return days === undefined ? [] : [{ days, reason: why, cure }];
}

/** How long what points into the payload bucket stays; undefined where nothing does, or the CDK does not know. */
interface PayloadReferences {
  readonly fifo: boolean;
  readonly requestDays: number | undefined;
  readonly deadLetterDays: number | undefined;
  readonly resultQueueDays: number | undefined;
  /** Of results in the table. */
  readonly resultTtlSeconds: number | undefined;
}

interface Settings {
  readonly fifo: boolean;
  readonly results: readonly ResultStore[];
  readonly resultTtlSeconds: number;
}

/** Results in the bucket are whole: they point to nothing. */
export function payloadReferences(
  existing: ExistingQueue | undefined,
  { resultQueue }: ResultStores,
  { fifo, results, resultTtlSeconds }: Settings,
): PayloadReferences {
  const given = existing && useRequestQueue(existing);
  const ofResults = resultQueue === undefined ? RESULT_RETENTION_DAYS : retentionDaysOf(resultQueue);
  return {
    fifo,
    requestDays: existing === undefined ? RETENTION_DAYS : retentionDaysOf(existing.queue),
    deadLetterDays: given === undefined ? DEAD_LETTER_RETENTION_DAYS : retentionDaysOf(given.deadLetterQueue),
    resultQueueDays: results.includes('queue') ? ofResults : undefined,
    resultTtlSeconds: results.includes('table') ? resultTtlSeconds : undefined,
  };
}
