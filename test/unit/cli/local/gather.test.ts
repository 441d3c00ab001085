import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import type { SQSRecord } from 'aws-lambda';
import {
  type Batch,
  createGather,
  ENVELOPE_BYTES,
  recordBytes,
  toSqsRecord,
} from '../../../../cli/local/localMapping.ts';
import { MAX_EVENT_BYTES } from '../../../../lambda/core/limits.ts';

beforeEach(() => {
  jest.useFakeTimers();
});

afterEach(() => {
  jest.useRealTimers();
});

function records(count: number, Body = 'body'): SQSRecord[] {
  const Attributes = {
    ApproximateReceiveCount: '1',
    SentTimestamp: '1545082649183',
    SenderId: 'sender',
    ApproximateFirstReceiveTimestamp: '1545082649185',
  };
  const source = { queueArn: 'arn:aws:sqs:us-east-1:000000000000:requests', region: 'us-east-1' };
  return Array.from({ length: count }, (_, index) =>
    toSqsRecord({ MessageId: `m${index}`, ReceiptHandle: `r${index}`, Body, Attributes, MD5OfBody: 'md5' }, source),
  );
}

function gathering(batchSize: number, windowSeconds: number) {
  const closed: [number, Batch['closedBecause']][] = [];
  const gather = createGather({ batchSize, windowSeconds }, (batch) => {
    closed.push([batch.records.length, batch.closedBecause]);
  });
  return { gather, closed };
}

describe('createGather', () => {
  it('closes a batch the moment it is full, and starts the next with what is left of the poll', () => {
    const { gather, closed } = gathering(25, 5);

    gather.add(records(20));
    expect(closed).toEqual([]);
    gather.add(records(10));

    expect(closed).toEqual([[25, 'full']]);
    expect(gather.size()).toBe(5);
  });

  it('closes a batch when the window since its first record has ended, whatever came after', () => {
    const { gather, closed } = gathering(100, 5);

    gather.add(records(1));
    jest.advanceTimersByTime(4000);
    gather.add(records(2));
    jest.advanceTimersByTime(999);
    expect(closed).toEqual([]);
    jest.advanceTimersByTime(1);

    expect(closed).toEqual([[3, 'window']]);
  });

  it('gives every batch a window of its own', () => {
    const { gather, closed } = gathering(2, 5);

    gather.add(records(1));
    jest.advanceTimersByTime(4000);
    gather.add(records(2));
    jest.advanceTimersByTime(4999);
    expect(closed).toEqual([[2, 'full']]);
    jest.advanceTimersByTime(1);

    expect(closed).toEqual([
      [2, 'full'],
      [1, 'window'],
    ]);
  });

  it('keeps nothing waiting with window 0', () => {
    const { gather, closed } = gathering(10, 0);

    gather.add(records(3));
    gather.add([]);
    gather.add(records(10));

    expect(closed).toEqual([
      [3, 'poll'],
      [10, 'full'],
    ]);
  });

  it('starts the next batch with the record that would overflow the event', () => {
    const { gather, closed } = gathering(100, 1);

    gather.add(records(7, 'x'.repeat(1_000_000)));
    gather.flush();

    expect(closed).toEqual([
      [6, 'bytes'],
      [1, 'stop'],
    ]);
  });

  it.each([
    [0, [[3, 'stop']]],
    [
      1,
      [
        [2, 'bytes'],
        [1, 'stop'],
      ],
    ],
  ])('fills an event to its last byte, and not %d more', (excess, expected) => {
    const small = records(2);
    const eventBytes = ENVELOPE_BYTES + [...small, ...records(1, '')].reduce((sum, it) => sum + recordBytes(it), 0);
    const { gather, closed } = gathering(100, 1);

    gather.add([...small, ...records(1, 'x'.repeat(MAX_EVENT_BYTES - eventBytes + excess))]);
    gather.flush();

    expect(closed).toEqual(expected);
  });

  it('hands over what is open when it is flushed, and an empty batch never', () => {
    const { gather, closed } = gathering(100, 5);

    gather.flush();
    gather.add(records(4));
    gather.flush();
    gather.flush();
    jest.advanceTimersByTime(10_000);

    expect(closed).toEqual([[4, 'stop']]);
  });
});
