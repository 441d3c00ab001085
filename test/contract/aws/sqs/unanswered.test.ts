import { describe, expect, it } from '@jest/globals';
import type { Patience } from '../../../../lambda/aws/awsClients.ts';
import { createQueueWriter } from '../../../../lambda/aws/resultQueue.ts';
import type { RetryOptions } from '../../../../lambda/aws/sendBatches.ts';
import type { Result, WriteVerdict } from '../../../../lambda/core/record.ts';

import { silentTo } from '../../../helpers/frontServer.ts';
import { interceptSends, useSqsServer } from '../../../helpers/sqsServer.ts';

const server = useSqsServer();
const NEVER = new AbortController().signal;
/** Enough for what is answered, on a busy machine too. */
const IMPATIENT: Patience = { connectMs: 1_500, answerMs: 1_500 };
const AT_ONCE: RetryOptions = { random: () => 0 };
const RESULTS: readonly Result[] = Array.from({ length: 500 }, (_, index) => {
  const messageId = `m${String(index).padStart(3, '0')}`;
  return { messageId, body: `"${messageId}"`, messageGroupId: undefined };
});
const UNANSWERED = 'm123';
const TEN_OF_IT = Array.from({ length: 10 }, (_, index) => 120 + index);

function unwrittenIn(verdicts: readonly WriteVerdict[]): number[] {
  return [...verdicts.keys()].filter((index) => !('written' in (verdicts[index] ?? {})));
}

describe('one of fifty batch requests that is not answered', () => {
  it('is made again, it alone, and everything is written', async () => {
    const front = await server.front(...silentTo(UNANSWERED, 1));
    const queueUrl = server.queue();
    const writer = createQueueWriter({ sqs: server.client(front, IMPATIENT), queueUrl, retry: AT_ONCE });

    expect(unwrittenIn(await writer.write(RESULTS, NEVER))).toEqual([]);

    expect(front.requests).toHaveLength(51);
    expect(await server.drain(queueUrl)).toHaveLength(500);
  });

  it('fails its ten results and no other, when it never is', async () => {
    const front = await server.front(...silentTo(UNANSWERED, 100));
    const queueUrl = server.queue();
    const retry = { ...AT_ONCE, attempts: 2 };
    const writer = createQueueWriter({ sqs: server.client(front, IMPATIENT), queueUrl, retry });

    const verdicts = await writer.write(RESULTS, NEVER);

    expect(unwrittenIn(verdicts)).toEqual(TEN_OF_IT);
    expect(verdicts[123]).toMatchObject({
      code: 'WRITE_FAILED',
      message: expect.stringMatching(/queue: TimeoutError/),
    });
    expect(await server.drain(queueUrl)).toHaveLength(490);
  });

  it('costs none of the others when the time is up: what was taken by then is written', async () => {
    const front = await server.front(...silentTo(UNANSWERED, 100));
    const sqs = server.client(front);
    const aborting = new AbortController();
    let answered = 0;
    interceptSends(sqs, async (_, reach) => {
      const answer = await reach();
      if (++answered === 49) setImmediate(() => aborting.abort());
      return answer;
    });

    const verdicts = await createQueueWriter({ sqs, queueUrl: server.queue() }).write(RESULTS, aborting.signal);

    expect(unwrittenIn(verdicts)).toEqual(TEN_OF_IT);
    const message = 'result queue: expected an answer before the deadline, got none';
    expect(verdicts[123]).toEqual({
      failed: true,
      code: 'WRITE_FAILED',
      message,
      outage: { of: 'result queue', kind: 'busy' },
    });
  });

  it('is reported when the time is up, even if its connection cannot be ended', async () => {
    const sqs = server.client();
    const aborting = new AbortController();
    interceptSends(sqs, async () => {
      setImmediate(() => aborting.abort());
      return await new Promise(() => {});
    });

    const verdicts = await createQueueWriter({ sqs, queueUrl: server.queue() }).write(
      RESULTS.slice(0, 1),
      aborting.signal,
    );

    expect(unwrittenIn(verdicts)).toEqual([0]);
  });
});
