import { describe, expect, it } from '@jest/globals';
import { createPayloads, type PayloadsOptions } from '../../../../lambda/aws/payloads.ts';
import type { RetryOptions } from '../../../../lambda/aws/sendBatches.ts';
import { isFailure } from '../../../../lambda/core/failure.ts';
import { useS3Server } from '../../../helpers/awsServers.ts';
import { hangsUp, meter, refusesXml, type Step } from '../../../helpers/frontServer.ts';

const server = useS3Server();
const NEVER = new AbortController().signal;
/** No wait for memory, and no deadline. */
const UNHINDERED = { admit: async () => {}, signal: NEVER };
const AT_ONCE: RetryOptions = { random: () => 0 };
/** A pause that no test waits for: it would run into jest's time limit. */
const IN_AN_HOUR: RetryOptions = { baseMs: 3_600_000, capMs: 3_600_000, random: () => 1 };

/** Payloads in a bucket of their own; the n-th request is answered by the n-th step. */
async function opened(options: Partial<PayloadsOptions> = {}, ...steps: (Step | undefined)[]) {
  const bucket = await server.bucket();
  const front = await server.front(...steps);
  const payloads = createPayloads({ s3: server.client(front), bucket, maxBytes: 1000, retry: AT_ONCE, ...options });
  return { payloads, bucket, requests: front.requests };
}

/** Answers only when `count` requests are here at once. */
function togetherOnly(count: number): Step {
  const all = Promise.withResolvers<void>();
  let arrived = 0;
  return async ({ response }) => {
    arrived += 1;
    if (arrived === count) all.resolve();
    await all.promise;
    response.end('body');
  };
}

describe('bodies that are read together', () => {
  it('are read at the same time, not one after the other', async () => {
    const together = togetherOnly(8);
    const { payloads, bucket } = await opened({}, ...new Array<Step>(8).fill(together));
    const pointers = Array.from({ length: 8 }, (_, index) => ({ bucket, key: `requests/k${index}` }));
    expect(await Promise.all(pointers.map((pointer) => payloads.read(pointer, UNHINDERED)))).toEqual(
      new Array(8).fill('body'),
    );
  });
});

describe('a body that is put', () => {
  it('lies in the bucket under a key of its own, as it was', async () => {
    const { payloads, bucket } = await opened();
    const body = '{"text":"ä€𝄞\\u0000"}';

    const [one, other] = await Promise.all([payloads.put(body, NEVER), payloads.put('2', NEVER)]);

    if (isFailure(one) || isFailure(other)) throw new Error('expected two pointers');
    expect(one).toEqual({ bucket, key: expect.stringMatching(/^results\/[0-9a-f-]{36}$/) });
    expect((await server.keys(bucket)).toSorted()).toEqual([one.key, other.key].toSorted());
    expect(await server.text(bucket, one.key)).toBe(body);
  });

  it('is put again under the same key when S3 asks for it', async () => {
    const { payloads, requests, bucket } = await opened(
      {},
      refusesXml(503, 'SlowDown'),
      refusesXml(500, 'InternalError'),
    );

    const pointer = await payloads.put('1', NEVER);

    expect(requests.map(({ path }) => path)).toEqual(Array(3).fill(requests[0]?.path));
    expect(await server.keys(bucket)).toEqual(isFailure(pointer) ? [] : [pointer.key]);
  });

  it('is a failure when S3 refuses it for good, at once', async () => {
    const { payloads, requests } = await opened({ retry: IN_AN_HOUR }, refusesXml(403, 'AccessDenied'));

    expect(await payloads.put('1', NEVER)).toMatchObject({
      code: 'WRITE_FAILED',
      message: 'payload bucket: AccessDenied: AccessDenied it is',
    });
    expect(requests).toHaveLength(1);
  });
});

describe('a body that is read', () => {
  it('may be empty, and may begin with a byte order mark', async () => {
    const { payloads, bucket } = await opened();
    await server.put(bucket, 'requests/empty', '');
    await server.put(bucket, 'requests/marked', '\uFEFF{}');

    expect(await payloads.read({ bucket, key: 'requests/empty' }, UNHINDERED)).toBe('');
    expect(await payloads.read({ bucket, key: 'requests/marked' }, UNHINDERED)).toBe('{}');
  });

  it('is not found for good', async () => {
    const { payloads, bucket, requests } = await opened({ retry: IN_AN_HOUR });

    expect(await payloads.read({ bucket, key: 'requests/none' }, UNHINDERED)).toMatchObject({
      code: 'PAYLOAD_NOT_FOUND',
      message: expect.stringMatching(/^s3 object "requests\/none": expected it in the payload bucket, got none; /),
    });
    expect(requests).toHaveLength(1);
  });

  it('is refused when it is not UTF-8', async () => {
    const { payloads, bucket } = await opened();
    await server.put(bucket, 'requests/gzip', Uint8Array.of(0x1f, 0x8b, 0x08));

    expect(await payloads.read({ bucket, key: 'requests/gzip' }, UNHINDERED)).toMatchObject({
      code: 'INVALID_JSON',
      message: expect.stringMatching(/^s3 object "requests\/gzip": expected JSON in UTF-8, got /),
    });
  });

  it('is read whole when a character spans two chunks', async () => {
    const euro = Buffer.from('€');
    const { payloads, bucket } = await opened({}, ({ response }) => {
      response.writeHead(200).write(euro.subarray(0, 1), () => response.end(euro.subarray(1)));
    });

    expect(await payloads.read({ bucket, key: 'requests/k' }, UNHINDERED)).toBe('€');
  });

  it('has no more reads under way than it may', async () => {
    const { step, max } = meter();
    const { payloads, bucket } = await opened({ concurrency: 2 }, ...Array<Step>(9).fill(step));

    await Promise.all(
      Array.from({ length: 9 }, (_, key) => payloads.read({ bucket, key: `requests/${key}` }, UNHINDERED)),
    );

    expect(max()).toBe(2);
  });
});

describe('bodies that are read and put while nothing says how many at once', () => {
  it('are sixteen at once', async () => {
    const bucket = await server.bucket();
    const s3 = server.client();
    let underWay = 0;
    let max = 0;
    s3.middlewareStack.add(
      (next) => async (args) => {
        max = Math.max(max, ++underWay);
        try {
          return await next(args);
        } finally {
          underWay -= 1;
        }
      },
      { step: 'initialize' },
    );
    const payloads = createPayloads({ s3, bucket, maxBytes: 1000 });

    await Promise.all(Array.from({ length: 20 }, () => payloads.put('1', NEVER)));
    expect(max).toBe(16);
    max = 0;
    await Promise.all(
      Array.from({ length: 20 }, (_, key) => payloads.read({ bucket, key: `requests/${key}` }, UNHINDERED)),
    );
    expect(max).toBe(16);
  });
});

describe('a body that is too large', () => {
  it('is refused by a byte', async () => {
    const { payloads, bucket } = await opened();
    await server.put(bucket, 'requests/exact', 'x'.repeat(1000));
    await server.put(bucket, 'requests/large', 'x'.repeat(1001));

    expect(await payloads.read({ bucket, key: 'requests/exact' }, UNHINDERED)).toHaveLength(1000);
    expect(await payloads.read({ bucket, key: 'requests/large' }, UNHINDERED)).toMatchObject({
      code: 'PAYLOAD_TOO_LARGE',
      message: 's3 object "requests/large": expected at most 1000 bytes, got 1001; send several requests',
    });
  });

  it.each([
    ['', {}],
    [' and its checksum', { 'x-amz-checksum-crc32': 'AAAAAA==' }],
  ])('is not downloaded when S3 says its size%s', async (_, headers) => {
    const letGo = Promise.withResolvers<void>();
    const { payloads, bucket } = await opened({}, ({ response }) => {
      response
        .on('close', letGo.resolve)
        .writeHead(200, { ...headers, 'content-length': '1001' })
        .flushHeaders();
    });

    expect(await payloads.read({ bucket, key: 'requests/k' }, UNHINDERED)).toMatchObject({ code: 'PAYLOAD_TOO_LARGE' });
    await letGo.promise;
  });

  it.each([
    ['', {}],
    [', checksum or not', { 'x-amz-checksum-crc32': 'AAAAAA==' }],
  ])('is let go when it grows beyond its limit on the way%s', async (_, headers) => {
    const letGo = Promise.withResolvers<void>();
    const { payloads, bucket } = await opened({}, ({ response }) => {
      response.on('close', letGo.resolve).writeHead(200, headers).write('x'.repeat(1001));
    });

    expect(await payloads.read({ bucket, key: 'requests/k' }, UNHINDERED)).toMatchObject({
      code: 'PAYLOAD_TOO_LARGE',
      message: expect.stringContaining('got more'),
    });
    await letGo.promise;
  });
});

describe('a body that S3 does not give now', () => {
  const breaksOff: Step = ({ response }) => {
    response.writeHead(200, { 'content-length': '4' }).write('te', () => response.destroy());
  };
  const damages: Step = ({ response }) => {
    response.writeHead(200, { 'x-amz-checksum-crc32': 'AAAAAA==' }).end('test');
  };

  it.each([
    ['S3 asks to slow down', refusesXml(503, 'SlowDown')],
    ['S3 has an error of its own', refusesXml(500, 'InternalError')],
    ['the connection breaks', hangsUp],
    ['the body breaks off', breaksOff],
    ['the body does not match its checksum', damages],
  ])('is asked for again when %s', async (_, step) => {
    const { payloads, bucket, requests } = await opened({}, step, step);
    await server.put(bucket, 'requests/k', 'text');

    expect(await payloads.read({ bucket, key: 'requests/k' }, UNHINDERED)).toBe('text');
    expect(requests).toHaveLength(3);
  });

  it('is unavailable in the end', async () => {
    const slow = refusesXml(503, 'SlowDown');
    const { payloads, bucket, requests } = await opened({ retry: { ...AT_ONCE, attempts: 2 } }, slow, slow, slow);

    expect(await payloads.read({ bucket, key: 'requests/k' }, UNHINDERED)).toMatchObject({
      code: 'PAYLOAD_UNAVAILABLE',
      message: 's3 object "requests/k": expected to read it, got SlowDown: SlowDown it is',
    });
    expect(requests).toHaveLength(2);
  });

  it('is unavailable at once, and not missing, when access is denied', async () => {
    const { payloads, bucket, requests } = await opened({ retry: IN_AN_HOUR }, refusesXml(403, 'AccessDenied'));

    expect(await payloads.read({ bucket, key: 'requests/k' }, UNHINDERED)).toMatchObject({
      code: 'PAYLOAD_UNAVAILABLE',
      message: expect.stringContaining('s3:ListBucket'),
    });
    expect(requests).toHaveLength(1);
  });

  it('is unavailable, and not missing, when the bucket itself is gone', async () => {
    const { payloads } = await opened({ bucket: 'no-such-bucket', retry: IN_AN_HOUR });

    expect(await payloads.read({ bucket: 'no-such-bucket', key: 'requests/k' }, UNHINDERED)).toMatchObject({
      code: 'PAYLOAD_UNAVAILABLE',
      message: expect.stringContaining('NoSuchBucket'),
    });
  });

  it('is asked for by nobody when there is no time', async () => {
    const { payloads, bucket, requests } = await opened();

    expect(
      await payloads.read({ bucket, key: 'requests/k' }, { ...UNHINDERED, signal: AbortSignal.abort() }),
    ).toMatchObject({
      code: 'PAYLOAD_UNAVAILABLE',
    });
    expect(requests).toEqual([]);
  });

  it.each([
    ['before it begins', (): Step => () => undefined],
    [
      'on its way',
      (): Step =>
        ({ response }) => {
          response.writeHead(200).write('te');
        },
    ],
  ])('is given up at the deadline when it stalls %s', async (_, stall) => {
    const aborting = new AbortController();
    const { payloads, bucket } = await opened({ retry: IN_AN_HOUR }, (exchange) => {
      stall()(exchange);
      setImmediate(() => aborting.abort());
    });

    expect(
      await payloads.read({ bucket, key: 'requests/k' }, { ...UNHINDERED, signal: aborting.signal }),
    ).toMatchObject({
      code: 'PAYLOAD_UNAVAILABLE',
    });
  });
});
