import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { SQSClient } from '@aws-sdk/client-sqs';
import { describe, expect, it } from '@jest/globals';
import { createQueueWriter } from '../../../../lambda/aws/resultQueue.ts';
import type { RetryOptions } from '../../../../lambda/aws/sendBatches.ts';
import type { Result } from '../../../../lambda/core/record.ts';

import { interceptSends, type Reach, type SendAnswer, sqsError, useSqsServer } from '../../../helpers/sqsServer.ts';

const server = useSqsServer();
const NEVER = new AbortController().signal;
const WRITTEN = { written: true };
const AT_ONCE: RetryOptions = { random: () => 0 };
/** A pause that no test waits for: it would run into jest's time limit. */
const IN_AN_HOUR: RetryOptions = { baseMs: 3_600_000, capMs: 3_600_000, random: () => 1 };

function resultsOf(...messageIds: string[]): Result[] {
  return messageIds.map((messageId) => ({ messageId, body: `"${messageId}"`, messageGroupId: undefined }));
}

interface Intercepted {
  readonly sqs: SQSClient;
  /** The message IDs of every batch request. */
  readonly calls: string[][];
}

/** A client whose n-th batch request goes through the n-th step; later ones just reach the server. */
function intercepted(...steps: ((reach: Reach) => Promise<SendAnswer>)[]): Intercepted {
  const sqs = server.client();
  const calls: string[][] = [];
  interceptSends(sqs, (entries, reach) => {
    const step = steps[calls.length];
    calls.push(entries.map(({ MessageAttributes }) => MessageAttributes?.messageId?.StringValue ?? ''));
    return step === undefined ? reach() : step(reach);
  });
  return { sqs, calls };
}

/** Makes the server's answer say that the entry at `position` failed. */
async function failing(reach: Reach, position: number, SenderFault: boolean): Promise<SendAnswer> {
  const { Successful = [] } = await reach();
  const failed = { Id: String(position), Code: 'InternalError', Message: 'try later', SenderFault };
  return { Successful: Successful.filter(({ Id }) => Id !== failed.Id), Failed: [failed] };
}

describe('an entry that failed inside of a 200 answer', () => {
  it('is sent again, and it alone', async () => {
    const { sqs, calls } = intercepted((reach) => failing(reach, 1, false));
    const writer = createQueueWriter({ sqs, queueUrl: server.queue(), retry: AT_ONCE });

    const verdicts = await writer.write(resultsOf('a', 'b', 'c'), NEVER);

    expect(verdicts).toEqual([WRITTEN, WRITTEN, WRITTEN]);
    expect(calls).toEqual([['a', 'b', 'c'], ['b']]);
  });

  it('is sent again when the answer does not mention it at all', async () => {
    const { sqs, calls } = intercepted(async (reach) => {
      const { Successful = [] } = await reach();
      return { Successful: Successful.slice(1), Failed: [] };
    });
    const writer = createQueueWriter({ sqs, queueUrl: server.queue(), retry: AT_ONCE });

    const verdicts = await writer.write(resultsOf('a', 'b', 'c'), NEVER);

    expect(verdicts).toEqual([WRITTEN, WRITTEN, WRITTEN]);
    expect(calls).toEqual([['a', 'b', 'c'], ['a']]);
  });

  it('is sent again on its own: no batch request waits for another', async () => {
    const lastTwo = async (reach: Reach): Promise<SendAnswer> => {
      const { Successful = [] } = await reach();
      return { Successful: Successful.slice(0, -2) };
    };
    const { sqs, calls } = intercepted(lastTwo, lastTwo);
    const writer = createQueueWriter({ sqs, queueUrl: server.queue(), retry: AT_ONCE });
    const ids = Array.from({ length: 20 }, (_, index) => `m${index}`);

    await writer.write(resultsOf(...ids), NEVER);

    expect(calls.toSorted((a, b) => b.length - a.length)).toEqual([
      ids.slice(0, 10),
      ids.slice(10),
      ['m8', 'm9'],
      ['m18', 'm19'],
    ]);
  });

  it('is a failure in the end, with what SQS says, when it never gets better', async () => {
    const always = (reach: Reach) => failing(reach, 0, false);
    const { sqs, calls } = intercepted(always, always, always, always);
    const writer = createQueueWriter({ sqs, queueUrl: server.queue(), retry: { ...AT_ONCE, attempts: 3 } });

    const verdicts = await writer.write(resultsOf('a', 'b'), NEVER);

    expect(verdicts).toEqual([
      {
        failed: true,
        code: 'WRITE_FAILED',
        message: 'result queue: InternalError: try later',
        outage: { of: 'result queue', kind: 'busy' },
      },
      WRITTEN,
    ]);
    expect(calls).toEqual([['a', 'b'], ['a'], ['a']]);
  });

  it('is a failure in the end when no answer ever mentions it', async () => {
    const silent = async () => ({});
    const { sqs } = intercepted(silent, silent);
    const writer = createQueueWriter({ sqs, queueUrl: server.queue(), retry: { ...AT_ONCE, attempts: 2 } });

    expect(await writer.write(resultsOf('a'), NEVER)).toMatchObject([
      { code: 'WRITE_FAILED', message: 'result queue: no answer for this entry' },
    ]);
  });

  it('is not sent again when it is the sender’s fault', async () => {
    const { sqs, calls } = intercepted();
    const writer = createQueueWriter({ sqs, queueUrl: server.queue(), retry: AT_ONCE });
    const [good, bad] = resultsOf('good', 'bad') as [Result, Result];

    const verdicts = await writer.write([good, { ...bad, body: '\u0001' }], NEVER);

    expect(verdicts).toEqual([
      WRITTEN,
      { failed: true, code: 'WRITE_FAILED', message: expect.stringContaining('InvalidMessageContents') },
    ]);
    expect(calls).toEqual([['good', 'bad']]);
  });
});

describe('a batch request that failed', () => {
  it.each([
    ['ThrottlingException', 'client'],
    ['RequestThrottled', 'client'],
    ['KmsThrottled', 'client'],
    ['TooManyRequestsException', 'client'],
    ['RequestTimeout', 'client'],
    ['InternalFailure', 'server'],
    ['ServiceUnavailable', 'server'],
  ] as const)('because of %s is made again', async (name, fault) => {
    const fail = async () => Promise.reject(sqsError(name, fault));
    const { sqs, calls } = intercepted(fail, fail);
    const queueUrl = server.queue();

    const verdicts = await createQueueWriter({ sqs, queueUrl, retry: AT_ONCE }).write(resultsOf('a', 'b'), NEVER);

    expect(verdicts).toEqual([WRITTEN, WRITTEN]);
    expect(calls).toHaveLength(3);
    expect(await server.drain(queueUrl)).toHaveLength(2);
  });

  it('does not hold up the results of other batch requests', async () => {
    const { sqs } = intercepted(async () => Promise.reject(sqsError('AccessDenied', 'client')));
    const ids = Array.from({ length: 12 }, (_, index) => `m${index}`);

    const verdicts = await createQueueWriter({ sqs, queueUrl: server.queue() }).write(resultsOf(...ids), NEVER);

    expect(verdicts.map((verdict) => 'written' in verdict)).toEqual(ids.map((_, index) => index >= 10));
  });

  it('because the queue is gone is not made again', async () => {
    const queueUrl = server.queue();
    server.deleteQueue(queueUrl);
    const { sqs, calls } = intercepted();

    const verdicts = await createQueueWriter({ sqs, queueUrl, retry: IN_AN_HOUR }).write(resultsOf('a'), NEVER);

    expect(verdicts).toMatchObject([
      { code: 'WRITE_FAILED', message: expect.stringMatching(/^result queue: QueueDoesNotExist/) },
    ]);
    expect(calls).toEqual([['a']]);
  });

  it('because the clock of this machine is wrong is made again by the clock of SQS', async () => {
    const inAnHour = new Date(Date.now() + 3_600_000).toUTCString();
    const front = await server.front(({ response }) => {
      const refusal = { __type: 'com.amazonaws.sqs#InvalidSignatureException', message: 'Signature expired' };
      response.writeHead(403, { date: inAnHour, 'content-type': 'application/x-amz-json-1.0' });
      response.end(JSON.stringify(refusal));
    });
    const writer = createQueueWriter({ sqs: server.client(front), queueUrl: server.queue(), retry: AT_ONCE });

    expect(await writer.write(resultsOf('a'), NEVER)).toEqual([WRITTEN]);

    expect(front.requests).toHaveLength(2);
  });

  it('because the connection broke is made again, and is a failure in the end', async () => {
    const sqs = await clientOf((answer) => answer.destroy());
    const writer = createQueueWriter({ ...sqs, retry: { ...AT_ONCE, attempts: 4 } });

    const verdicts = await writer.write(resultsOf('a', 'b'), NEVER);

    expect(verdicts).toMatchObject([{ code: 'WRITE_FAILED' }, { code: 'WRITE_FAILED' }]);
    expect(sqs.requests()).toBe(4);
  });
});

describe('an aborted write', () => {
  it('does not claim that anything was written when it was aborted before the first batch request', async () => {
    const { sqs, calls } = intercepted();
    const queueUrl = server.queue();

    const verdicts = await createQueueWriter({ sqs, queueUrl }).write(resultsOf('a', 'b'), AbortSignal.abort());

    expect(verdicts).toMatchObject([{ code: 'WRITE_FAILED' }, { code: 'WRITE_FAILED' }]);
    expect(calls).toEqual([]);
  });

  it('stops waiting for the next attempt at once, and says what the last one met', async () => {
    const aborting = new AbortController();
    const { sqs, calls } = intercepted(async (reach) => {
      const answer = await failing(reach, 0, false);
      setImmediate(() => aborting.abort());
      return answer;
    });
    const writer = createQueueWriter({ sqs, queueUrl: server.queue(), retry: IN_AN_HOUR });

    const verdicts = await writer.write(resultsOf('a', 'b'), aborting.signal);

    expect(verdicts).toMatchObject([
      { code: 'WRITE_FAILED', message: 'result queue: InternalError: try later' },
      WRITTEN,
    ]);
    expect(calls).toEqual([['a', 'b']]);
  });

  it('gives up a batch request that is not answered', async () => {
    const aborting = new AbortController();
    const sqs = await clientOf(() => aborting.abort());

    const verdicts = await createQueueWriter({ ...sqs, retry: IN_AN_HOUR }).write(resultsOf('a'), aborting.signal);

    const message = 'result queue: expected an answer before the deadline, got none';
    expect(verdicts).toEqual([
      { failed: true, code: 'WRITE_FAILED', message, outage: { of: 'result queue', kind: 'busy' } },
    ]);
    expect(sqs.requests()).toBe(1);
  });
});

/** A client of a server that does with every request what it is told; both are closed with the test's own clients. */
async function clientOf(onRequest: (answer: { destroy(): void }) => void) {
  let requests = 0;
  const silent = createServer((request, response) => {
    request.resume().on('end', () => {
      requests += 1;
      onRequest(response);
    });
  });
  silent.listen(0, '127.0.0.1').unref();
  await once(silent, 'listening');
  const endpoint = `http://127.0.0.1:${(silent.address() as AddressInfo).port}`;
  const sqs = server.client({ endpoint });
  return { sqs, queueUrl: `${endpoint}/000000000000/any`, requests: () => requests };
}
