import { describe, expect, it } from '@jest/globals';
import { createPayloads } from '../../../../lambda/aws/payloads.ts';
import { useS3Server } from '../../../helpers/awsServers.ts';

const server = useS3Server();
const NEVER = new AbortController().signal;
/** No wait for memory, and no deadline. */
const UNHINDERED = { admit: async () => {}, signal: NEVER };

/** Payloads in a bucket of their own, and the requests to S3. */
async function opened(prefix?: string) {
  const bucket = await server.bucket();
  const front = await server.front();
  const payloads = createPayloads({ s3: server.client(front), bucket, prefix, maxBytes: 1000 });
  return { payloads, bucket, requests: front.requests };
}

describe('the body of a request', () => {
  it.each([
    ['', 'requests/a/ü +&?%2F'],
    ['fraud/', 'fraud/requests/1'],
    ['eu/fraud.v2/', 'eu/fraud.v2/requests/requests/1'],
  ])('is read under requests/ of the prefix %j: %j', async (prefix, key) => {
    const { payloads, bucket } = await opened(prefix);
    await server.put(bucket, key, 'text');

    expect(await payloads.read({ bucket, key }, UNHINDERED)).toBe('text');
  });

  it.each([
    ['', 'secret'],
    ['', 'results/1'],
    ['', 'payloads/1'],
    ['', 'requests'],
    ['', 'requests/'],
    ['', 'requestsX/1'],
    ['', 'requests-of-others/1'],
    ['', 'Requests/1'],
    ['', '/requests/1'],
    ['', './requests/1'],
    ['', ' requests/1'],
    ['', 'requests%2F1'],
    ['', 'a/requests/1'],
    ['fraud/', 'requests/1'],
    ['fraud/', 'fraud/results/1'],
    ['fraud/', 'fraud/1'],
    ['fraud/', 'fraud-2/requests/1'],
    ['fraud/', 'other/fraud/requests/1'],
    ['fraud/', 'FRAUD/requests/1'],
  ])('is asked for by nobody where its key is none of the prefix %j: %j', async (prefix, key) => {
    const { payloads, bucket, requests } = await opened(prefix);
    await server.put(bucket, key, 'secret');

    expect(await payloads.read({ bucket, key }, UNHINDERED)).toEqual({
      failed: true,
      code: 'INVALID_POINTER',
      message: `body[1].s3Key: expected a key that begins with "${prefix}requests/", got "${key}"; upload the body there`,
    });
    expect(requests).toEqual([]);
  });

  it('is asked for by nobody in any other bucket', async () => {
    const other = await server.bucket();
    await server.put(other, 'requests/secret', 'text');
    const { payloads, bucket, requests } = await opened();

    expect(await payloads.read({ bucket: other, key: 'requests/secret' }, UNHINDERED)).toEqual({
      failed: true,
      code: 'INVALID_POINTER',
      message: `body[1].s3BucketName: expected the deployment's payload bucket "${bucket}", got "${other}"`,
    });
    expect(requests).toEqual([]);
  });
});

describe('the body of a result', () => {
  it.each(['', 'fraud/'])(
    'is put under results/ of the prefix %j, where it is not read as a request',
    async (prefix) => {
      const { payloads, bucket } = await opened(prefix);

      const pointer = await payloads.put('1', NEVER);

      const key = expect.stringMatching(new RegExp(`^${prefix}results/[0-9a-f-]{36}$`));
      expect(pointer).toEqual({ bucket, key });
      expect(await server.keys(bucket)).toEqual([key]);
      expect(await payloads.read(pointer as { bucket: string; key: string }, UNHINDERED)).toMatchObject({
        code: 'INVALID_POINTER',
      });
    },
  );
});
