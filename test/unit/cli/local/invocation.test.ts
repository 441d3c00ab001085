import { describe, expect, it } from '@jest/globals';
import type { SQSRecord } from 'aws-lambda';
import { type Invoke, invokeOnce, toSqsRecord } from '../../../../cli/local/localMapping.ts';
import { SYSTEM_CLOCK } from '../../../../lambda/aws/clock.ts';

function record(MessageId: string): SQSRecord {
  const Attributes = {
    ApproximateReceiveCount: '1',
    SentTimestamp: '1545082649183',
    SenderId: 'sender',
    ApproximateFirstReceiveTimestamp: '1545082649185',
  };
  const source = { queueArn: 'arn:aws:sqs:us-east-1:000000000000:requests', region: 'us-east-1' };
  return toSqsRecord({ MessageId, ReceiptHandle: 'r', Body: '{}', Attributes, MD5OfBody: 'md5' }, source);
}

function invoking(invoke: Invoke, now = () => 0) {
  const clock = { ...SYSTEM_CLOCK, now };
  return invokeOnce([record('a'), record('b')], { invoke, region: 'us-east-1', functionTimeoutSeconds: 30, clock });
}

describe('invokeOnce', () => {
  it('hands the handler every record and gives what it failed', async () => {
    const bodies: string[][] = [];

    const verdict = await invoking(async ({ Records }) => {
      bodies.push(Records.map(({ messageId }) => messageId));
      return { batchItemFailures: [{ itemIdentifier: 'b' }] };
    });

    expect(bodies).toEqual([['a', 'b']]);
    expect(verdict).toEqual({ failed: new Set(['b']) });
  });

  it('counts the remaining time down from the timeout', async () => {
    let nowMs = 1000;
    const remaining: number[] = [];

    await invoking(
      async (_, context) => {
        remaining.push(context.getRemainingTimeInMillis());
        nowMs += 12_345.5;
        remaining.push(context.getRemainingTimeInMillis());
      },
      () => nowMs,
    );

    expect(remaining).toEqual([30_000, 17_654]);
  });

  it('gives every invocation an ID of its own, and the context of a function', async () => {
    const ids = new Set<string>();

    for (let round = 0; round < 2; round += 1) {
      await invoking(async (_, context) => {
        ids.add(context.awsRequestId);
        expect(context).toMatchObject({
          functionName: 'batchscore-local',
          functionVersion: '$LATEST',
          invokedFunctionArn: 'arn:aws:lambda:us-east-1:000000000000:function:batchscore-local',
          memoryLimitInMB: expect.stringMatching(/^\d+$/),
        });
        expect(() => context.done()).toThrow('return a promise');
      });
    }

    expect(ids.size).toBe(2);
  });

  it.each<[string, Invoke]>([
    [
      'rejects',
      async () => {
        throw new Error('model not found');
      },
    ],
    [
      'throws before it returns a promise',
      () => {
        throw new Error('model not found');
      },
    ],
  ])('fails the whole batch when the handler %s', async (_, invoke) => {
    const { failed, error } = await invoking(invoke);

    expect(failed).toEqual(new Set(['a', 'b']));
    expect(error).toMatchObject({ message: 'model not found' });
  });

  it('fails the whole batch for a malformed response', async () => {
    const { failed, error } = await invoking(async () => ({ batchItemFailures: [{ itemIdentifier: '' }] }));

    expect(failed).toEqual(new Set(['a', 'b']));
    expect(error).toMatchObject({ message: expect.stringContaining('expected the messageId of a record') });
  });

  it('fails the whole batch when the handler kept the event loop beyond the timeout', async () => {
    let nowMs = 0;

    const { failed, error } = await invoking(
      async () => {
        nowMs = 30_001;
      },
      () => nowMs,
    );

    expect(failed).toEqual(new Set(['a', 'b']));
    expect(error).toMatchObject({ message: expect.stringContaining("the function's timeout of 30 s") });
  });
});
