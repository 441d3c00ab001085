import { describe, expect, it } from '@jest/globals';
import { Duration } from 'aws-cdk-lib';
import { Bucket } from 'aws-cdk-lib/aws-s3';
import { Queue } from 'aws-cdk-lib/aws-sqs';
import type { BatchScoringProps } from '../../infra/index.ts';
import { createStack, refusalOf } from '../helpers/stacks.ts';

const stack = createStack();
const visibilityTimeout = Duration.seconds(400);

/** An existing request queue that keeps messages for so many days, and its dead letters, if it has any. */
function ordersOf(id: string, days: number, deadLetterDays?: number): Partial<BatchScoringProps> {
  const dead = (keptDays: number) => ({
    queue: new Queue(stack, `${id}Dead`, { retentionPeriod: Duration.days(keptDays) }),
    maxReceiveCount: 5,
  });
  const queue = new Queue(stack, id, {
    visibilityTimeout,
    retentionPeriod: Duration.days(days),
    ...(deadLetterDays !== undefined && { deadLetterQueue: dead(deadLetterDays) }),
  });
  return { requestQueue: { queue, visibilityTimeout } };
}

describe('payloads must not go before', () => {
  it.each<[what: string, props: Partial<BatchScoringProps>, days: number, why: string]>([
    ['results in the queue', ordersOf('Quick', 1), 14, 'the result queue keeps pointers to large results for 14'],
    ['dead letters', { results: ['bucket'] }, 14, 'the dead letters keep pointers to large requests for 14'],
    [
      'dead letters of a FIFO queue, whose days begin anew',
      { fifo: true },
      18,
      'the request queue keeps pointers to large requests for 4 and the dead letters for 14 more',
    ],
    [
      'dead letters of an existing queue',
      { ...ordersOf('Kept', 3, 9), results: ['bucket'] },
      9,
      'the dead letters keep pointers to large requests for 9',
    ],
    [
      'requests of an existing queue',
      { ...ordersOf('Waiting', 6), results: ['bucket'] },
      6,
      'the request queue keeps pointers to large requests for 6',
    ],
    [
      'results in an existing queue, which keeps them for four days unless it is told otherwise',
      { ...ordersOf('Short', 1), stores: { resultQueue: new Queue(stack, 'Scores') } },
      4,
      'the result queue keeps pointers to large results for 4',
    ],
  ])('%s', (_, props, days, why) => {
    expect(refusalOf({ ...props, payloadExpiry: Duration.days(days - 1) })).toBe(
      `payloadExpiryDays: expected at least ${days}, because ${why}, got ${days - 1}; raise it`,
    );
    expect(refusalOf({ ...props, payloadExpiry: Duration.days(days) })).toBe('not refused');
  });

  it('results in the table', () => {
    const resultTtl = Duration.seconds(2_592_001);
    expect(refusalOf({ results: ['table'], resultTtl, payloadExpiry: Duration.days(30) })).toBe(
      'payloadExpiryDays: expected at least 31, because the table keeps pointers to large results for 2592001 s, got 30; ' +
        'raise it or lower resultTtlSeconds',
    );
    expect(refusalOf({ results: ['table'], resultTtl, payloadExpiry: Duration.days(31) })).toBe('not refused');
    expect(refusalOf({ results: ['queue'], resultTtl, payloadExpiry: Duration.days(30) })).toBe('not refused');
  });

  it('what the CDK knows nothing of', () => {
    const queue = Queue.fromQueueArn(stack, 'Orders', 'arn:aws:sqs:eu-central-1:123456789012:orders');
    const props = { results: ['bucket'], requestQueue: { queue, visibilityTimeout } } as const;
    expect(refusalOf({ ...props, payloadExpiry: Duration.days(1) })).toBe('not refused');
  });

  it('what points into a given bucket, whose owner expires it', () => {
    const payloadBucket = new Bucket(stack, 'Payloads');
    const resultTtl = Duration.days(60);
    expect(refusalOf({ results: ['table'], resultTtl, payloadBucket })).toBe('not refused');
  });
});
