import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Message } from '@aws-sdk/client-sqs';
import { describe, expect, it } from '@jest/globals';
import { SubmitError, type TensorRequest } from '../../../client/index.ts';
import { interceptSends, sqsError } from '../../helpers/awsServers.ts';
import { useDeployments } from '../../helpers/deployment.ts';
import { bodyOf, countedClient, idsOnQueue, lineAnswer, lineOf, lines, rejectionOf } from './requests.ts';

const deployments = useDeployments();
const { sqs, s3 } = deployments;

describe('submitted requests', () => {
  it('are given message IDs in their order', async () => {
    const { client, requestQueueUrl } = await deployments.create('queue');
    const progress: [number, string][] = [];
    const messageIds = await client().submit(lines(250), {
      onProgress: ({ index, messageId, submitted }) => {
        expect(progress.push([index, messageId])).toBe(submitted);
      },
    });
    expect(progress.toSorted(([a], [b]) => a - b)).toEqual([...messageIds.entries()]);
    const ids = await idsOnQueue(sqs, requestQueueUrl);
    expect(messageIds.map((messageId) => ids.get(messageId))).toEqual(lines(250).map(({ id }) => id));
  });

  it('fill calls of at most 1 MiB', async () => {
    const { client } = await deployments.create('queue');
    const counted = countedClient(sqs);
    await client({ sqs: counted.client }).submit(Array.from({ length: 5 }, () => bodyOf(500_000)));
    expect(counted.calls).toEqual([2, 2, 1]);
  });

  it('are pulled only as fast as they are sent', async () => {
    const { client } = await deployments.create('queue');
    const held = sqs.client();
    const [gate, allHeld] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    let calls = 0;
    interceptSends(held, async (_, reach) => {
      if (++calls === 8) allHeld.resolve();
      await gate.promise;
      return await reach();
    });
    let pulled = 0;
    function* source(): Generator<TensorRequest> {
      for (; pulled < 500; pulled++) yield lineOf(pulled);
    }
    const submitting = client({ sqs: held }).submit(source());
    await allHeld.promise;
    await nextTurn();

    expect(calls).toBe(8);
    expect(pulled).toBeLessThanOrEqual(90);
    gate.resolve();
    await expect(submitting).resolves.toHaveLength(500);
  });
});

describe('a body', () => {
  it('of 1 MiB is sent as it is', async () => {
    const { client, requestQueueUrl, payloadBucket } = await deployments.create('queue');
    await client({ resultQueueUrl: undefined }).submit([bodyOf(1_048_576)]);
    const [message] = await sqs.drain(requestQueueUrl);
    expect(message?.Body).toHaveLength(1_048_576);
    await expect(s3.keys(payloadBucket)).resolves.toEqual([]);
  });

  it('over 1 MiB goes to the payload bucket, as the Extended Client puts it', async () => {
    const { client, requestQueueUrl, payloadBucket } = await deployments.create('queue');
    await client().submit([bodyOf(1_048_577)]);
    const [message] = await sqs.drain(requestQueueUrl);
    const [key = ''] = await s3.keys(payloadBucket);
    expect(JSON.parse(message?.Body ?? '')).toEqual([
      'software.amazon.payloadoffloading.PayloadS3Pointer',
      { s3BucketName: payloadBucket, s3Key: key },
    ]);
    expect(message?.MessageAttributes).toMatchObject({
      ExtendedPayloadSize: { DataType: 'Number', StringValue: '1048577' },
    });
    expect(await s3.text(payloadBucket, key)).toHaveLength(1_048_577);
  });
});

describe('the result queue of the client', () => {
  it('is named beside each body, and counts towards what the queue takes', async () => {
    const { client, requestQueueUrl, resultQueueUrl, payloadBucket } = await deployments.create('queue');
    const name = resultQueueUrl.split('/').at(-1) ?? '';
    const bytes = 1_048_576 - 'resultQueueString'.length - name.length;
    await client().submit([bodyOf(bytes)]);
    expect(await s3.keys(payloadBucket)).toEqual([]);
    await client().submit([bodyOf(bytes + 1)]);
    expect(await s3.keys(payloadBucket)).toHaveLength(1);
    const named = (await sqs.drain(requestQueueUrl)).map(
      ({ MessageAttributes }) => MessageAttributes?.resultQueue?.StringValue,
    );
    expect(named).toEqual([name, name]);
  });
});

describe('message groups', () => {
  it('and deduplication IDs go to a FIFO queue as they are given', async () => {
    const { client, requestQueueUrl } = await deployments.create('queue', 'fifo');
    await client().submit([{ ...lineOf(1), group: 'g', deduplicationId: 'd' }]);
    const [message] = await sqs.drain(requestQueueUrl);
    expect(message?.Attributes).toMatchObject({ MessageGroupId: 'g', MessageDeduplicationId: 'd' });
  });

  it('do not merge equal requests of one group that name no deduplication ID', async () => {
    const { client, requestQueueUrl } = await deployments.create('queue', 'fifo');
    const request = { ...lineOf(1), group: 'g' };
    await client().submit([request, request]);
    await expect(sqs.drain(requestQueueUrl)).resolves.toHaveLength(2);
  });
});

async function submitErrorOf(submitting: Promise<unknown>): Promise<SubmitError> {
  const error = await rejectionOf(submitting);
  if (!(error instanceof SubmitError)) throw new Error(`expected a SubmitError, got ${String(error)}`);
  return error;
}

describe('a call that is answered with failures', () => {
  it('has the entries that failed, and those not mentioned, sent again', async () => {
    const { client } = await deployments.create('queue');
    const flaky = sqs.client();
    const sent: (string | undefined)[][] = [];
    interceptSends(flaky, async (entries, reach) => {
      sent.push(entries.map(({ MessageBody = '' }) => JSON.parse(MessageBody).id));
      const answer = await reach();
      if (sent.length > 1) return answer;
      const Successful = answer.Successful?.filter(({ Id }) => Id !== '1' && Id !== '3');
      return { Successful, Failed: [{ Id: '1', Code: 'InternalError', SenderFault: false }] };
    });
    const messageIds = await client({ sqs: flaky }).submit(lines(5));
    expect(sent).toEqual([
      ['0', '1', '2', '3', '4'],
      ['1', '3'],
    ]);
    expect(new Set(messageIds).size).toBe(5);
  });

  it('tells which request failed and which were accepted, so that the rest can be submitted again', async () => {
    const { client, requestQueueUrl } = await deployments.create('queue');
    const refusing = sqs.client();
    interceptSends(refusing, async (entries, reach) => {
      const refused = entries.findIndex(({ MessageBody = '' }) => JSON.parse(MessageBody).id === '12');
      if (refused < 0) return await reach();
      return { Failed: entries.map((_, index) => ({ Id: String(index), Code: 'Refused', SenderFault: true })) };
    });
    const requests = lines(25);
    const error = await submitErrorOf(client({ sqs: refusing }).submit(requests));
    expect(error).toMatchObject({ code: 'SUBMIT_FAILED', index: 10, retryable: false });
    const queue = requestQueueUrl.split('/').at(-1);
    expect(error.message).toMatch(`request 10: the request queue ${queue} did not take it: Refused`);

    await client().submit(requests.filter((_, index) => error.accepted[index] === undefined));
    const ids = [...(await idsOnQueue(sqs, requestQueueUrl)).values()];
    expect(ids.map(Number).toSorted((a, b) => a - b)).toEqual(requests.map(({ id }) => Number(id)));
  });

  it('ends the pulling when a request is refused', async () => {
    const { client, requestQueueUrl } = await deployments.create('queue');
    sqs.deleteQueue(requestQueueUrl);
    function* endless(): Generator<TensorRequest> {
      for (let value = 0; ; value++) yield lineOf(value);
    }
    const error = await submitErrorOf(client().submit(endless()));
    expect(error.index).toBe(0);
  });

  it('names the request that was refused, and the first of those that were not accepted', async () => {
    const { client } = await deployments.create('queue');
    const refusing = sqs.client();
    interceptSends(refusing, async (entries) => {
      const first = entries.some(({ MessageBody = '' }) => JSON.parse(MessageBody).id === '0');
      const failure = first ? { Code: 'Busy', SenderFault: false } : { Code: 'Refused', SenderFault: true };
      return { Failed: entries.map((_, index) => ({ Id: String(index), ...failure })) };
    });
    const error = await submitErrorOf(client({ sqs: refusing }).submit(lines(20)));
    expect(error).toMatchObject({ index: 0, retryable: false });
    expect(error.message).toMatch(
      /^request 10: .*: Refused; request 0 is the first that was not accepted; accepted: 0; submit the others again$/,
    );
  });

  it('may be submitted again when the queue had no time for it', async () => {
    const { client } = await deployments.create('queue');
    const busy = sqs.client();
    interceptSends(busy, () => Promise.reject(sqsError('ServiceUnavailable', 'server')));
    const error = await submitErrorOf(client({ sqs: busy }).submit(lines(1)));
    expect(error).toMatchObject({ index: 0, retryable: true });
  });
});

describe('a request that cannot be sent', () => {
  it('is the one that its source fails to give', async () => {
    const { client } = await deployments.create('queue');
    async function* source(): AsyncGenerator<TensorRequest> {
      yield* lines(2);
      throw new Error('no more rows');
    }
    const error = await submitErrorOf(client().submit(source()));
    expect(error).toMatchObject({ index: 2, cause: new Error('no more rows') });
    expect(error.accepted).toEqual([expect.any(String), expect.any(String)]);
  });

  it('is one of no group on a FIFO queue', async () => {
    const { client } = await deployments.create('queue', 'fifo');
    await expect(client().submit([lineOf(1)])).rejects.toThrow('expected a group');
  });

  it('is one of a deduplication ID on a standard queue', async () => {
    const { client } = await deployments.create('queue');
    await expect(client().submit([{ ...lineOf(1), deduplicationId: 'd' }])).rejects.toThrow('a standard queue');
  });

  it.each([
    ['a group with a space', { group: 'my group' }, 'group: expected 1 to 128 letters, digits and'],
    ['a group that is too long', { group: 'g'.repeat(129) }, 'group: expected 1 to 128'],
    ['an empty group', { group: '' }, 'group: expected 1 to 128'],
    ['a deduplication ID beyond ASCII', { deduplicationId: 'ä' }, 'deduplicationId: expected 1 to 128'],
    ['an empty body', { body: '' }, 'expected a body, got an empty text'],
  ])('is one of %s, and is refused at its own index before it is sent', async (_, wrong, message) => {
    const { client } = await deployments.create('queue', 'fifo');
    const [first, second, third] = lines(3).map((request) => ({ ...request, group: 'g' }));
    const bad = ('body' in wrong ? { group: 'g', ...wrong } : { ...second, ...wrong }) as TensorRequest;
    const error = await submitErrorOf(client().submit([first, bad, third] as TensorRequest[]));
    expect(error).toMatchObject({ index: 1, retryable: false, accepted: [expect.any(String), undefined] });
    expect(error.message).toContain(`request 1: ${message}`);
  });

  it('is alone in being refused where SQS refuses its call as a whole', async () => {
    const { client, answer } = await deployments.create('queue');
    const strict = sqs.client();
    interceptSends(strict, async (entries, reach) => {
      if (entries.some(({ MessageBody = '' }) => MessageBody.includes('odd')))
        throw sqsError('InvalidParameterValue', 'client');
      return await reach();
    });
    const producer = client({ sqs: strict });
    const scores = [1, 2, 3].map((value) => producer.score(lineOf(value).inputs));
    const odd = rejectionOf(producer.score(lineOf(4).inputs, { id: 'odd' }));
    await answer(3);
    await expect(Promise.all(scores)).resolves.toEqual([1, 2, 3].map(lineAnswer));
    expect(await odd).toMatchObject({
      code: 'SUBMIT_FAILED',
      message: expect.stringContaining('InvalidParameterValue'),
    });
  });

  it('is one over 1 MiB that the payload bucket does not take', async () => {
    const { client } = await deployments.create('queue');
    await expect(client({ payloadBucket: 'no-such-bucket' }).submit([bodyOf(1_048_577)])).rejects.toThrow(
      'request 0: the payload bucket did not take its body: NoSuchBucket',
    );
  });
});

describe('an aborted submission', () => {
  it.each([1, 20])(
    'rejects once the calls under way have ended, with the IDs of all that was sent: %d a message',
    async (requestsPerMessage) => {
      const { client, requestQueueUrl } = await deployments.create('queue');
      const held = sqs.client();
      const [gate, reached] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      let calls = 0;
      interceptSends(held, async (_, reach) => {
        if (++calls === 8) reached.resolve();
        await gate.promise;
        return await reach();
      });
      const abort = new AbortController();
      const producer = client({ sqs: held, requestsPerMessage });
      let isSettled = false;
      const submitting = submitErrorOf(producer.submit(lines(3_000), { signal: abort.signal })).finally(() => {
        isSettled = true;
      });
      await reached.promise;
      abort.abort(new Error('enough'));
      await nextTurn();
      expect(isSettled).toBe(false);
      gate.resolve();

      const error = await submitting;
      expect(error).toMatchObject({ cause: new Error('enough'), retryable: true });
      const sent = (await sqs.drain(requestQueueUrl)).flatMap(({ MessageId = '', Body = '' }) => {
        const body: unknown = JSON.parse(Body);
        if (!Array.isArray(body)) return [[MessageId, (body as { id: string }).id]];
        return body.map(({ id }, position) => [`${MessageId}/${position}`, id]);
      });
      expect(sent.length).toBe(80 * requestsPerMessage);
      const accepted = error.accepted.flatMap((id, index) => (id === undefined ? [] : [[id, String(index)]]));
      expect(accepted.toSorted()).toEqual(sent.toSorted());
      expect(error.message).toMatch(
        `aborted: enough; request ${error.index} is the first that was not accepted; accepted: ${sent.length};`,
      );
    },
  );

  it('stops pulling, closes its source and rejects with the reason as its cause', async () => {
    const { client } = await deployments.create('queue');
    const abort = new AbortController();
    const reason = new Error('enough');
    const closed = Promise.withResolvers<void>();
    let pulled = 0;
    async function* source(): AsyncGenerator<TensorRequest> {
      try {
        for (; ; pulled++) yield lineOf(pulled);
      } finally {
        closed.resolve();
      }
    }
    const onProgress = ({ submitted }: { submitted: number }) => {
      if (submitted === 30) abort.abort(reason);
    };
    const submitting = client().submit(source(), { signal: abort.signal, onProgress });
    expect((await submitErrorOf(submitting)).cause).toBe(reason);
    await closed.promise;
    expect(pulled).toBeLessThanOrEqual(200);
  });

  it('does not wait for a source that never answers', async () => {
    const { client } = await deployments.create('queue');
    const abort = new AbortController();
    const asked = Promise.withResolvers<void>();
    const never: AsyncIterable<TensorRequest> = {
      [Symbol.asyncIterator]: () => ({
        next: () => {
          asked.resolve();
          return new Promise(() => {});
        },
      }),
    };
    const producer = client();
    const submitting = producer.submit(never, { signal: abort.signal });
    await asked.promise;
    abort.abort();
    expect(await submitErrorOf(submitting)).toMatchObject({ cause: abort.signal.reason, accepted: [] });
    await expect(producer.submit(never, { signal: abort.signal })).rejects.toThrow(
      'aborted: This operation was aborted',
    );
  });

  it('sends nothing when it was aborted before', async () => {
    const { client, requestQueueUrl } = await deployments.create('queue');
    await expect(client().submit(lines(3), { signal: AbortSignal.abort() })).rejects.toThrow('aborted');
    await expect(sqs.drain(requestQueueUrl)).resolves.toEqual([]);
  });
});

const OLDER_QUEUE = { MaximumMessageSize: '262144' };

describe('a request queue that takes less than 1 MiB', () => {
  it('gets a larger body as a pointer, the first after one refusal and the others at once', async () => {
    const { client, payloadBucket } = await deployments.create('queue');
    const requestQueueUrl = sqs.queue(OLDER_QUEUE);
    const counted = countedClient(sqs);
    const producer = client({ requestQueueUrl, resultQueueUrl: undefined, sqs: counted.client });
    await producer.submit([lineOf(1), bodyOf(400_000), lineOf(2)]);
    expect(counted.calls).toEqual([3, 1]);
    await producer.submit([bodyOf(262_145), bodyOf(262_144)]);
    expect(counted.calls).toEqual([3, 1, 1, 1]);
    await expect(s3.keys(payloadBucket)).resolves.toHaveLength(2);
    const sizes = (await sqs.drain(requestQueueUrl)).map(
      ({ MessageAttributes }) => MessageAttributes?.ExtendedPayloadSize?.StringValue,
    );
    expect(sizes.toSorted()).toEqual(['262145', '400000', undefined, undefined, undefined]);
  });

  it('refuses it for good where there is no payload bucket, naming its limit', async () => {
    const { client } = await deployments.create('queue');
    const counted = countedClient(sqs);
    const producer = client({
      requestQueueUrl: sqs.queue(OLDER_QUEUE),
      resultQueueUrl: undefined,
      payloadBucket: undefined,
      sqs: counted.client,
    });
    const limit =
      'expected a body of at most 262144 bytes, the most that the request queue takes in a message, got 400000; ' +
      "set payloadBucket, the deployment's bucket for larger ones, raise the queue's MaximumMessageSize, or send fewer rows";
    for (const calls of [[2], [2, 1]]) {
      const error = await rejectionOf(producer.submit([lineOf(1), bodyOf(400_000)]));
      expect(error).toBeInstanceOf(SubmitError);
      expect(error).toMatchObject({
        index: 1,
        retryable: false,
        accepted: [expect.any(String), undefined],
        message: expect.stringContaining(`request 1: ${limit}; accepted: 1`),
      });
      expect(counted.calls).toEqual(calls);
    }
  });
});

describe('requests of a message group', () => {
  it('are on a FIFO queue in their order, however long each call takes', async () => {
    const { client, requestQueueUrl } = await deployments.create('queue', 'fifo');
    const slow = sqs.client();
    let underWay = 0;
    let max = 0;
    interceptSends(slow, async (_, reach) => {
      max = Math.max(max, ++underWay);
      await nextTurn();
      const answer = await reach();
      underWay -= 1;
      return answer;
    });
    const requests = lines(35).map((request) => ({ ...request, group: 'one' }));

    await client({ sqs: slow }).submit(requests);

    expect(max).toBe(1);
    const bodies = (await sqs.drain(requestQueueUrl)).map(({ Body = '' }) => JSON.parse(Body));
    expect(bodies.map(({ id }) => id)).toEqual(requests.map(({ id }) => id));
  });

  it.each([
    ['in the payload bucket', true, 1],
    ['in the payload bucket, packed,', true, 10_000],
    ['fewer to a message', false, 10_000],
  ] as const)('stay in order where the queue takes less than 1 MiB: %s', async (_, hasBucket, requestsPerMessage) => {
    const { client, requestQueueUrl, payloadBucket } = await deployments.create('queue', 'fifo');
    const strict = sqs.client();
    interceptSends(strict, async (entries, reach) => {
      const bytes = entries.reduce((sum, { MessageBody = '' }) => sum + MessageBody.length, 0);
      if (bytes <= 20_000) return await reach();
      const message = `Batch requests cannot be longer than 20000 bytes. You have sent ${bytes} bytes.`;
      throw Object.assign(sqsError('BatchRequestTooLong', 'client'), { message });
    });
    const requests = Array.from({ length: 30 }, (_, value) => ({
      body: { id: String(value), inputs: 'x'.repeat(value % 10 === 3 ? 30_000 - (hasBucket ? 0 : 15_000) : 4_000) },
      group: 'one',
    }));

    const place = hasBucket ? payloadBucket : undefined;
    const ids = await client({ sqs: strict, payloadBucket: place, requestsPerMessage }).submit(requests);

    expect(new Set(ids).size).toBe(30);
    const messages: Message[] = [];
    while (messages.length < new Set(ids.map((id) => id.split('/')[0])).size) {
      messages.push(...(await sqs.drain(requestQueueUrl)));
    }
    const sent = await Promise.all(messages.map(({ Body = '' }) => idsIn(Body)));
    expect(sent.flat()).toEqual(requests.map(({ body }) => body.id));
  });

  /** The `id` of each request in a body, be it a pointer or packed. */
  const idsIn = async (body: string): Promise<string[]> => {
    const [first, place] = [JSON.parse(body)].flat();
    if (typeof first === 'string') return await idsIn(await s3.text(place.s3BucketName, place.s3Key));
    return [JSON.parse(body)].flat().map(({ id }) => id);
  };
});
