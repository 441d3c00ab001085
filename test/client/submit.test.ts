import { setImmediate as nextTurn } from 'node:timers/promises';
import type { SQSClient } from '@aws-sdk/client-sqs';
import { describe, expect, it } from '@jest/globals';
import { RequestError, type ScoreRequest, SubmitError, type TensorRequest } from '../../client/index.ts';
import { interceptSends, sqsError } from '../helpers/sqsServer.ts';
import { useDeployments } from './deployment.ts';
import { lineOf, lines } from './requests.ts';

const deployments = useDeployments();
const { sqs, s3 } = deployments;

/** The `id` of each request that is on the queue, by message ID. */
async function idsOnQueue(queueUrl: string): Promise<Map<string | undefined, string>> {
  const messages = await sqs.drain(queueUrl);
  return new Map(messages.map(({ MessageId, Body = '' }) => [MessageId, JSON.parse(Body).id]));
}

/** A client of SQS that remembers how many entries each call held. */
function countedClient(): { readonly client: SQSClient; readonly calls: number[] } {
  const calls: number[] = [];
  const client = sqs.client();
  interceptSends(client, async (entries, reach) => {
    calls.push(entries.length);
    return await reach();
  });
  return { client, calls };
}

/** What a promise was rejected with. */
async function submitErrorOf(submitting: Promise<unknown>): Promise<SubmitError> {
  const error = await submitting.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (!(error instanceof SubmitError)) throw new Error(`expected a SubmitError, got ${String(error)}`);
  return error;
}

/** A text of so many bytes that is a request to no model. */
function bodyOf(bytes: number): ScoreRequest {
  return { body: JSON.stringify('x'.repeat(bytes - 2)) };
}

describe('submitted requests', () => {
  it('are given message IDs in their order', async () => {
    const { client, requestQueueUrl } = await deployments.create('queue');
    const messageIds = await client().submit(lines(250));
    const ids = await idsOnQueue(requestQueueUrl);
    expect(messageIds.map((messageId) => ids.get(messageId))).toEqual(lines(250).map(({ id }) => id));
  });

  it('fill calls of ten messages', async () => {
    const { client } = await deployments.create('queue');
    const counted = countedClient();
    await client({ sqs: counted.client }).submit(lines(25));
    expect(counted.calls).toEqual([10, 10, 5]);
  });

  it('fill calls of at most 1 MiB', async () => {
    const { client } = await deployments.create('queue');
    const counted = countedClient();
    await client({ sqs: counted.client }).submit(Array.from({ length: 5 }, () => bodyOf(500_000)));
    expect(counted.calls).toEqual([2, 2, 1]);
  });

  it('are counted as they are taken', async () => {
    const { client } = await deployments.create('queue');
    const progress: number[] = [];
    await client().submit(lines(3), { onProgress: ({ submitted }) => progress.push(submitted) });
    expect(progress).toEqual([1, 2, 3]);
  });

  it('may be none', async () => {
    const { client } = await deployments.create('queue');
    await expect(client().submit([])).resolves.toEqual([]);
  });

  it('are pulled only as fast as they are sent', async () => {
    const { client } = await deployments.create('queue');
    const held = sqs.client();
    const [gate, bothHeld] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    let calls = 0;
    interceptSends(held, async (_, reach) => {
      if (++calls === 2) bothHeld.resolve();
      await gate.promise;
      return await reach();
    });
    let pulled = 0;
    function* source(): Generator<TensorRequest> {
      for (; pulled < 500; pulled++) yield lineOf(pulled);
    }
    const submitting = client({ sqs: held, maxInFlight: 2 }).submit(source());
    await bothHeld.promise;
    await nextTurn();

    expect(calls).toBe(2);
    expect(pulled).toBeLessThanOrEqual(30);
    gate.resolve();
    await expect(submitting).resolves.toHaveLength(500);
  });

  it('are sent without waiting for the next, when that is long in coming', async () => {
    const { client, requestQueueUrl } = await deployments.create('queue');
    async function* source(): AsyncGenerator<TensorRequest> {
      yield lineOf(1);
      await sqs.receive(requestQueueUrl, { waitSeconds: 20, visibilitySeconds: 0 });
      yield lineOf(2);
    }
    await expect(client().submit(source())).resolves.toHaveLength(2);
  });
});

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

  it('is sent again whole when it failed whole', async () => {
    const { client, requestQueueUrl } = await deployments.create('queue');
    const flaky = sqs.client();
    let calls = 0;
    interceptSends(flaky, async (_, reach) => {
      if (++calls === 1) throw sqsError('ServiceUnavailable', 'server');
      return await reach();
    });
    const messageIds = await client({ sqs: flaky }).submit(lines(3));
    expect([...(await idsOnQueue(requestQueueUrl)).keys()].toSorted()).toEqual(messageIds.toSorted());
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
    expect(error).toMatchObject({ code: 'SUBMIT_FAILED', index: 10, retryable: true });
    expect(error.message).toMatch('request 10: the request queue did not take it: Refused');

    await client().submit(requests.filter((_, index) => error.accepted[index] === undefined));
    const ids = [...(await idsOnQueue(requestQueueUrl)).values()];
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

  it('does not hide the request that was refused behind one that was to be sent again', async () => {
    const { client } = await deployments.create('queue');
    const refusing = sqs.client();
    interceptSends(refusing, async (entries) => {
      const first = entries.some(({ MessageBody = '' }) => JSON.parse(MessageBody).id === '0');
      const failure = first ? { Code: 'Busy', SenderFault: false } : { Code: 'Refused', SenderFault: true };
      return { Failed: entries.map((_, index) => ({ Id: String(index), ...failure })) };
    });
    const error = await submitErrorOf(client({ sqs: refusing }).submit(lines(20)));
    expect(error).toMatchObject({ index: 10, message: expect.stringContaining('Refused') });
  });

  it('is not sent again when the queue does not exist', async () => {
    const { client, requestQueueUrl } = await deployments.create('queue');
    sqs.deleteQueue(requestQueueUrl);
    const counted = countedClient();
    const error = await submitErrorOf(client({ sqs: counted.client }).submit(lines(3)));
    expect(error).toMatchObject({ index: 0, accepted: [undefined, undefined, undefined] });
    expect(counted.calls).toEqual([3]);
  });
});

describe('a request that cannot be sent', () => {
  it('is named by its index, and those before it are sent', async () => {
    const { client, requestQueueUrl } = await deployments.create('queue');
    const wrong: TensorRequest = { inputs: { x: { data: Float32Array.of(1), shape: [2, 1] } } };
    const error = await submitErrorOf(client().submit([...lines(3), wrong, ...lines(3)]));
    expect(error).toMatchObject({ index: 3, retryable: false, cause: expect.any(RequestError) });
    expect(error.accepted).toEqual([...(await idsOnQueue(requestQueueUrl)).keys(), undefined]);
  });

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

  it('is one over 1 MiB where there is no payload bucket', async () => {
    const { client } = await deployments.create('queue');
    await expect(client({ payloadBucket: undefined }).submit([bodyOf(1_048_577)])).rejects.toThrow(
      'request 0: expected a body of at most 1048576 bytes, the size of an SQS message, got 1048577; set payloadBucket',
    );
  });

  it('is one over 1 MiB that the payload bucket does not take', async () => {
    const { client } = await deployments.create('queue');
    await expect(client({ payloadBucket: 'no-such-bucket' }).submit([bodyOf(1_048_577)])).rejects.toThrow(
      'request 0: the payload bucket did not take its body: NoSuchBucket',
    );
  });
});

describe('a body', () => {
  it('of 1 MiB is sent as it is', async () => {
    const { client, requestQueueUrl, payloadBucket } = await deployments.create('queue');
    await client().submit([bodyOf(1_048_576)]);
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

describe('message groups', () => {
  it('keep their order on a FIFO queue, over many calls', async () => {
    const { client, requestQueueUrl } = await deployments.create('queue', 'fifo');
    await client().submit(lines(35).map((request) => ({ ...request, group: 'one' })));
    const ids = [...(await idsOnQueue(requestQueueUrl)).values()];
    expect(ids).toEqual(lines(35).map(({ id }) => id));
  });

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

  it('go to a standard queue too', async () => {
    const { client } = await deployments.create('queue');
    const seen = sqs.client();
    const groups: (string | undefined)[] = [];
    // Read on the way: the server in these tests forgets the group of a message on a standard queue.
    interceptSends(seen, async (entries, reach) => {
      groups.push(...entries.map(({ MessageGroupId }) => MessageGroupId));
      return await reach();
    });
    await client({ sqs: seen }).submit([{ ...lineOf(1), group: 'tenant' }, lineOf(2)]);
    expect(groups).toEqual(['tenant', undefined]);
  });
});

describe('an aborted submission', () => {
  it('stops pulling, closes its source and rejects with the reason', async () => {
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
    const submitting = client({ maxInFlight: 1 }).submit(source(), { signal: abort.signal, onProgress });
    await expect(submitting).rejects.toBe(reason);
    await closed.promise;
    expect(pulled).toBeLessThanOrEqual(60);
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
    await expect(submitting).rejects.toBe(abort.signal.reason);
    await expect(producer.submit(never, { signal: abort.signal })).rejects.toBe(abort.signal.reason);
  });

  it('sends nothing when it was aborted before', async () => {
    const { client, requestQueueUrl } = await deployments.create('queue');
    await expect(client().submit(lines(3), { signal: AbortSignal.abort() })).rejects.toThrow('aborted');
    await expect(sqs.drain(requestQueueUrl)).resolves.toEqual([]);
  });
});
