import { describe, expect, it } from '@jest/globals';
import type { SQSRecord } from 'aws-lambda';
import { createGather, ENVELOPE_BYTES } from '../../../../cli/local/gather.ts';
import {
  type Batch,
  failedMessageIds,
  type Invoke,
  invokeOnce,
  recordBytes,
  toSqsRecord,
} from '../../../../cli/local/localMapping.ts';
import { SYSTEM_CLOCK } from '../../../../lambda/core/concurrency.ts';
import { MAX_EVENT_BYTES } from '../../../../lambda/core/limits.ts';
import { sqsRecord } from '../../../helpers/handler.ts';
import { createManualClock } from '../../../helpers/manualClock.ts';

const records = (count: number, body = 'body'): SQSRecord[] =>
  Array.from({ length: count }, (_, index) => sqsRecord(body, { messageId: `m${index}` }));

describe('a batch', () => {
  function gathering(batchSize: number, windowSeconds: number) {
    const closed: [number, Batch['endedBecause']][] = [];
    const clock = createManualClock();
    const gather = createGather({ batchSize, windowSeconds, clock, bytesOf: recordBytes }, (batch: Batch) => {
      closed.push([batch.records.length, batch.endedBecause]);
    });
    return { gather, closed, clock };
  }

  it('is closed the moment it is full, and the next has a window of its own', () => {
    const { gather, closed, clock } = gathering(25, 5);
    gather.add(records(20));
    clock.advance(4000);
    expect(closed).toEqual([]);
    gather.add(records(10));
    clock.advance(4999);
    expect(closed).toEqual([[25, 'full']]);
    clock.advance(1);
    expect(closed).toEqual([
      [25, 'full'],
      [5, 'window'],
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
    const small = records(2, 'é→😀"quoted"');
    const eventBytes = Buffer.byteLength(JSON.stringify({ Records: [...small, ...records(1, '')] }));
    expect([...small, ...records(1, '')].reduce((sum, it) => sum + recordBytes(it), ENVELOPE_BYTES)).toBe(eventBytes);
    const { gather, closed } = gathering(100, 1);
    gather.add([...small, ...records(1, 'x'.repeat(MAX_EVENT_BYTES - eventBytes + excess))]);
    gather.flush();
    gather.flush();
    expect(closed).toEqual(expected);
  });
});

describe('an invocation', () => {
  const invoking = (invoke: Invoke, now = () => 0) =>
    invokeOnce(records(2), {
      invoke,
      region: 'us-east-1',
      functionTimeoutSeconds: 30,
      clock: { ...SYSTEM_CLOCK, now },
    });

  it('has the context of a function, with an ID of its own and time that runs down', async () => {
    let nowMs = 1000;
    const seen: [id: string, ms: number][] = [];
    for (let round = 0; round < 2; round += 1) {
      await invoking(
        async (_, context) => {
          nowMs += 12_345.5;
          seen.push([context.awsRequestId, context.getRemainingTimeInMillis()]);
          expect(context).toMatchObject({ functionName: 'batchscore-local', functionVersion: '$LATEST' });
          expect(() => context.done()).toThrow('return a promise');
        },
        () => nowMs,
      );
    }
    expect(seen.map(([, ms]) => ms)).toEqual([17_654, 17_654]);
    expect(new Set(seen.map(([id]) => id)).size).toBe(2);
  });

  it('fails as a whole where the handler throws before it returns a promise, or kept the event loop too long', async () => {
    let nowMs = 0;
    const thrown = invoking(() => {
      throw new Error('no model');
    });
    const late = invoking(
      async () => {
        nowMs = 30_001;
      },
      () => nowMs,
    );
    const failed = new Set(['m0', 'm1']);
    expect(await thrown).toMatchObject({ failed, error: { message: 'no model' } });
    const message = expect.stringContaining("the function's timeout of 30 s");
    expect(await late).toMatchObject({ failed, error: { message } });
  });

  const SENT = new Set(['a', 'b', 'c']);

  it.each([[undefined], [null], [{}], [{ batchItemFailures: null }], [{ batchItemFailures: [] }]])(
    'that answers %j has succeeded for all',
    (response) => {
      expect(failedMessageIds(response, SENT)).toEqual(new Set());
    },
  );

  it.each([
    ['a string', 'ok', 'expected {"batchItemFailures"'],
    ['a null identifier', { batchItemFailures: [{ itemIdentifier: null }] }, 'itemIdentifier'],
    [
      'a wrong key',
      { batchItemFailures: [{ itemIdentifier: 'a' }, { id: 'b' }] },
      'batchItemFailures[1].itemIdentifier',
    ],
    ['an unknown identifier', { batchItemFailures: [{ itemIdentifier: 'z' }] }, 'got "z"'],
    ['what JSON cannot hold', { batchItemFailures: 1n }, 'BigInt'],
  ])('that answers %s has failed for all', (_, response, message) => {
    expect(() => failedMessageIds(response, SENT)).toThrow(message);
  });
});

it('a received message says which field a server left out', () => {
  const source = { queueArn: 'arn:aws:sqs:us-east-1:000000000000:requests', region: 'us-east-1' };
  const message = { MessageId: 'm', ReceiptHandle: 'r', Body: 'b', MD5OfBody: 'md5' };
  expect(() => toSqsRecord({ ...message, Attributes: {} }, source)).toThrow('expected ApproximateReceiveCount');
});
