import { describe, expect, it } from '@jest/globals';
import { SubmitError, type TensorRequest } from '../../../client/index.ts';
import { interceptSends, sqsError } from '../../helpers/awsServers.ts';
import { useDeployments } from '../../helpers/deployment.ts';
import { lineOf, lines } from './requests.ts';
import { bodyOf, countedClient, idsOnQueue, rejectionOf } from './sends.ts';

const deployments = useDeployments();
const { sqs } = deployments;

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

  it('is sent again whole when it failed whole', async () => {
    const { client, requestQueueUrl } = await deployments.create('queue');
    const flaky = sqs.client();
    let calls = 0;
    interceptSends(flaky, async (_, reach) => {
      if (++calls === 1) throw sqsError('ServiceUnavailable', 'server');
      return await reach();
    });
    const messageIds = await client({ sqs: flaky }).submit(lines(3));
    expect([...(await idsOnQueue(sqs, requestQueueUrl)).keys()].toSorted()).toEqual(messageIds.toSorted());
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

  it('is not sent again when the queue does not exist', async () => {
    const { client, requestQueueUrl } = await deployments.create('queue');
    sqs.deleteQueue(requestQueueUrl);
    const counted = countedClient(sqs);
    const error = await submitErrorOf(client({ sqs: counted.client }).submit(lines(3)));
    expect(error).toMatchObject({ index: 0, accepted: [undefined, undefined, undefined] });
    expect(counted.calls).toEqual([3]);
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

  it('is one over 1 MiB that the payload bucket does not take', async () => {
    const { client } = await deployments.create('queue');
    await expect(client({ payloadBucket: 'no-such-bucket' }).submit([bodyOf(1_048_577)])).rejects.toThrow(
      'request 0: the payload bucket did not take its body: NoSuchBucket',
    );
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
