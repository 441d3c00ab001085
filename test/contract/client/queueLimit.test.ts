import { describe, expect, it } from '@jest/globals';
import { ScoringError, SubmitError } from '../../../client/index.ts';
import { interceptSends, sqsError } from '../../helpers/awsServers.ts';
import { useDeployments } from '../../helpers/deployment.ts';
import { lineOf, lines } from './requests.ts';
import { bodyOf, countedClient, rejectionOf } from './sends.ts';

const deployments = useDeployments();
const { sqs, s3 } = deployments;
const OLDER_QUEUE = { MaximumMessageSize: '262144' };

describe('a request queue that takes less than 1 MiB', () => {
  it('gets a larger body as a pointer, the first after one refusal and the others at once', async () => {
    const { client, payloadBucket } = await deployments.create('queue');
    const requestQueueUrl = sqs.queue(OLDER_QUEUE);
    const counted = countedClient(sqs);
    const producer = client({ requestQueueUrl, sqs: counted.client });
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

  it('gets messages that are too long together again in calls of its size', async () => {
    const { client, requestQueueUrl, payloadBucket } = await deployments.create('queue');
    const strict = sqs.client();
    const calls: number[] = [];
    interceptSends(strict, async (entries, reach) => {
      calls.push(entries.length);
      const bytes = entries.reduce((sum, { MessageBody = '' }) => sum + MessageBody.length, 0);
      if (bytes <= 262_144) return await reach();
      const error = sqsError('BatchRequestTooLong', 'client');
      error.message = `Batch requests cannot be longer than 262144 bytes. You have sent ${bytes} bytes.`;
      throw error;
    });
    const producer = client({ sqs: strict });
    await producer.submit([...lines(2), bodyOf(250_000), bodyOf(300_000)]);
    expect(calls.splice(0)).toEqual([4, 3, 1]);
    await producer.submit(Array.from({ length: 5 }, () => bodyOf(100_000)));
    expect(calls).toEqual([2, 2, 1]);
    await expect(sqs.drain(requestQueueUrl)).resolves.toHaveLength(9);
    await expect(s3.keys(payloadBucket)).resolves.toHaveLength(1);
  });
});

describe('a refusal that is the fault of the sender', () => {
  it('is not worth another try for a caller of score either', async () => {
    const { client } = await deployments.create('queue');
    const refusing = sqs.client();
    interceptSends(refusing, async () => ({ Failed: [{ Id: '0', Code: 'Refused', SenderFault: true }] }));
    const error = await rejectionOf(client({ sqs: refusing }).score(lineOf(1).inputs));
    expect(error).toBeInstanceOf(ScoringError);
    expect(error).toMatchObject({ code: 'SUBMIT_FAILED', retryable: false });
  });
});
