import { describe, expect, it } from '@jest/globals';
import type { Patience } from '../../../../lambda/aws/awsClients.ts';
import { createPayloads } from '../../../../lambda/aws/payloads.ts';
import { useS3Server } from '../../../helpers/awsServers.ts';
import { neverAnswers, type Step, stallsAfter } from '../../../helpers/frontServer.ts';

const server = useS3Server();
const NEVER = new AbortController().signal;
const UNHINDERED = { admit: async () => {}, signal: NEVER };
/** Enough for what is answered, on a busy machine too. */
const IMPATIENT: Patience = { connectMs: 700, answerMs: 700 };
const RETRY = { attempts: 2, random: () => 0 };
const LENGTH = { 'content-length': '4' };
const CHECKED = { ...LENGTH, 'x-amz-checksum-crc32': 'AAAAAA==' };

async function opened(...steps: readonly (Step | undefined)[]) {
  const bucket = await server.bucket();
  const front = await server.front(...steps);
  const s3 = server.client(front, IMPATIENT);
  const payloads = createPayloads({ s3, bucket, maxBytes: 1000, retry: RETRY });
  await server.put(bucket, 'requests/k', 'text');
  return { s3, bucket, payloads, requests: front.requests };
}

describe('a body in the payload bucket', () => {
  it.each([
    ['is not answered', neverAnswers],
    ['stalls', stallsAfter('te', LENGTH)],
    ['stalls, with a checksum', stallsAfter('te', CHECKED)],
  ])('is asked for again when its download %s', async (_, step) => {
    const { payloads, bucket, requests } = await opened(step);

    expect(await payloads.read({ bucket, key: 'requests/k' }, UNHINDERED)).toBe('text');

    expect(requests).toHaveLength(2);
  });

  it('is unavailable when no download gets on', async () => {
    const { payloads, bucket } = await opened(stallsAfter('te', LENGTH), neverAnswers);

    expect(await payloads.read({ bucket, key: 'requests/k' }, UNHINDERED)).toMatchObject({
      code: 'PAYLOAD_UNAVAILABLE',
    });
  });

  it.each([
    ['', LENGTH],
    [', checksum or not', CHECKED],
  ])('is read after all when it waited for memory longer than its connection lasts%s', async (_, headers) => {
    const letGo = Promise.withResolvers<void>();
    const { payloads, bucket } = await opened((exchange) => {
      exchange.response.on('close', letGo.resolve);
      stallsAfter('te', headers)(exchange);
    });

    expect(await payloads.read({ bucket, key: 'requests/k' }, { admit: () => letGo.promise, signal: NEVER })).toBe(
      'text',
    );
  });

  it('is given up with the deadline while it waits for memory', async () => {
    const aborting = new AbortController();
    const { payloads, bucket } = await opened();
    const admit = () => {
      setImmediate(() => aborting.abort());
      return new Promise<void>(() => {});
    };

    expect(await payloads.read({ bucket, key: 'requests/k' }, { admit, signal: aborting.signal })).toMatchObject({
      code: 'PAYLOAD_UNAVAILABLE',
      message: 's3 object "requests/k": expected to read it, got no answer before the deadline',
    });
  });

  it('is put again when S3 does not answer, under the same key', async () => {
    const { payloads, bucket, requests } = await opened(neverAnswers);

    const pointer = await payloads.put('text', NEVER);

    expect(pointer).toMatchObject({ bucket });
    expect(new Set(requests.map(({ path }) => path)).size).toBe(1);
    expect(requests).toHaveLength(2);
  });
});
