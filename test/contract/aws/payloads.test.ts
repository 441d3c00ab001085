import { describe, expect, it } from '@jest/globals';
import { createPayloads, type PayloadsOptions } from '../../../lambda/aws/payloads.ts';
import type { RetryOptions } from '../../../lambda/aws/sendBatches.ts';
import type { Patience } from '../../../lambda/aws/sqsWire.ts';
import { isFailure } from '../../../lambda/core/failure.ts';
import { useS3Server } from '../../helpers/awsServers.ts';
import { hangsUp, meter, neverAnswers, refusesXml, type Step, stallsAfter } from '../../helpers/frontServer.ts';

const server = useS3Server();
const NEVER = new AbortController().signal;
/** No wait for memory, and no deadline. */
const UNHINDERED = { admit: async () => {}, signal: NEVER };
const AT_ONCE: RetryOptions = { random: () => 0 };
/** A pause that no test waits for: it would run into jest's time limit. */
const IN_AN_HOUR: RetryOptions = { baseMs: 3_600_000, capMs: 3_600_000, random: () => 1 };
/** Enough for what is answered, on a busy machine too. */
const IMPATIENT: Patience = { connectMs: 700, answerMs: 700 };
const LENGTH = { 'content-length': '4' };
/** Makes the SDK wrap the body, whose end it then watches. */
const CHECKED = { 'x-amz-checksum-crc32': 'AAAAAA==' };

interface Options extends Partial<PayloadsOptions> {
  readonly patience?: Patience;
}

/** Payloads in a bucket of their own, with the request `text`; the n-th request is answered by the n-th step. */
async function opened({ patience, ...options }: Options = {}, ...steps: (Step | undefined)[]) {
  const bucket = await server.bucket();
  const front = await server.front(...steps);
  const s3 = server.client(front, patience);
  const payloads = createPayloads({ s3, bucket, maxBytes: 1000, retry: AT_ONCE, ...options });
  await server.put(bucket, 'requests/k', 'text');
  const read = (key = 'requests/k', given = UNHINDERED) => payloads.read({ bucket, key }, given);
  return { payloads, bucket, read, requests: front.requests };
}

describe('a body that is put', () => {
  it('lies in the bucket under a key of its own, as it was', async () => {
    const { payloads, bucket } = await opened();
    const body = '{"text":"ä€𝄞\\u0000"}';

    const [one, other] = await Promise.all([payloads.put(body, NEVER), payloads.put('2', NEVER)]);

    if (isFailure(one) || isFailure(other)) throw new Error('expected two pointers');
    expect((await server.keys(bucket)).toSorted()).toEqual(['requests/k', one.key, other.key].toSorted());
    expect(await server.text(bucket, one.key)).toBe(body);
  });

  it('is put again under the same key when S3 asks for it, or does not answer', async () => {
    const { payloads, requests, bucket } = await opened(
      { patience: IMPATIENT },
      refusesXml(503, 'SlowDown'),
      neverAnswers,
    );

    expect(await payloads.put('1', NEVER)).toMatchObject({ bucket });

    expect(requests.map(({ path }) => path)).toEqual(Array(3).fill(requests[0]?.path));
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

it('sixteen bodies are read, and sixteen put, at once', async () => {
  const [reading, putting] = [meter(16), meter(16)];
  const steps = [...Array<Step>(20).fill(reading.step), ...Array<Step>(20).fill(putting.step)];
  const { payloads, read } = await opened({}, ...steps);

  await Promise.all(Array.from({ length: 20 }, () => read()));
  await Promise.all(Array.from({ length: 20 }, () => payloads.put('1', NEVER)));

  expect([reading.max(), putting.max()]).toEqual([16, 16]);
});

describe('a body that is read', () => {
  it('may be empty, and may begin with a byte order mark', async () => {
    const { read, bucket } = await opened();
    await server.put(bucket, 'requests/empty', '');
    await server.put(bucket, 'requests/marked', '\uFEFF{}');

    expect(await read('requests/empty')).toBe('');
    expect(await read('requests/marked')).toBe('{}');
  });

  it('is not found for good', async () => {
    const { read, requests } = await opened({ retry: IN_AN_HOUR });

    expect(await read('requests/none')).toMatchObject({
      code: 'PAYLOAD_NOT_FOUND',
      message: expect.stringMatching(/^s3 object "requests\/none": expected it in the payload bucket, got none; /),
    });
    expect(requests).toHaveLength(1);
  });

  it('is refused when it is not UTF-8', async () => {
    const { read, bucket } = await opened();
    await server.put(bucket, 'requests/gzip', Uint8Array.of(0x1f, 0x8b, 0x08));

    expect(await read('requests/gzip')).toMatchObject({
      code: 'INVALID_JSON',
      message: expect.stringMatching(/^s3 object "requests\/gzip": expected JSON in UTF-8, got /),
    });
  });

  it('is read whole when a character spans two chunks', async () => {
    const euro = Buffer.from('€');
    const { read } = await opened({}, ({ response }) => {
      response.writeHead(200).write(euro.subarray(0, 1), () => response.end(euro.subarray(1)));
    });

    expect(await read()).toBe('€');
  });

  it('is refused when it is too large by a byte', async () => {
    const { read, bucket } = await opened();
    await server.put(bucket, 'requests/exact', 'x'.repeat(1000));
    await server.put(bucket, 'requests/large', 'x'.repeat(1001));

    expect(await read('requests/exact')).toHaveLength(1000);
    expect(await read('requests/large')).toMatchObject({
      code: 'PAYLOAD_TOO_LARGE',
      message: 's3 object "requests/large": expected at most 1000 bytes, got 1001; send several requests',
    });
  });

  it.each([
    ['when S3 says its size', { 'content-length': '1001' }, ''],
    ['when S3 says its size and its checksum', { ...CHECKED, 'content-length': '1001' }, ''],
    ['when it grows on the way', {}, 'x'.repeat(1001)],
    ['when it grows on the way, with a checksum', CHECKED, 'x'.repeat(1001)],
  ])('is let go when it is too large: %s', async (_, headers, body) => {
    const letGo = Promise.withResolvers<void>();
    const { read } = await opened({}, ({ response }) => {
      response.on('close', letGo.resolve).writeHead(200, headers).flushHeaders();
      response.write(body);
    });

    expect(await read()).toMatchObject({ code: 'PAYLOAD_TOO_LARGE' });
    await letGo.promise;
  });
});

describe('a body that S3 does not give now', () => {
  const breaksOff: Step = ({ response }) => {
    response.writeHead(200, LENGTH).write('te', () => response.destroy());
  };
  const damages: Step = ({ response }) => {
    response.writeHead(200, CHECKED).end('test');
  };

  it.each([
    ['S3 asks to slow down', refusesXml(503, 'SlowDown')],
    ['S3 has an error of its own', refusesXml(500, 'InternalError')],
    ['the connection breaks', hangsUp],
    ['the body breaks off', breaksOff],
    ['the body does not match its checksum', damages],
    ['it is not answered', neverAnswers],
    ['it stalls', stallsAfter('te', LENGTH)],
    ['it stalls, with a checksum', stallsAfter('te', { ...LENGTH, ...CHECKED })],
  ])('is asked for again when %s', async (_, step) => {
    const { read, requests } = await opened({ patience: IMPATIENT }, step, step);

    expect(await read()).toBe('text');
    expect(requests).toHaveLength(3);
  });

  it('is unavailable in the end', async () => {
    const slow = refusesXml(503, 'SlowDown');
    const { read, requests } = await opened({ retry: { ...AT_ONCE, attempts: 2 } }, slow, slow, slow);

    expect(await read()).toMatchObject({
      code: 'PAYLOAD_UNAVAILABLE',
      message: 's3 object "requests/k": expected to read it, got SlowDown: SlowDown it is',
    });
    expect(requests).toHaveLength(2);
  });

  it.each([
    ['AccessDenied', 403, 's3:ListBucket'],
    ['NoSuchBucket', 404, 'NoSuchBucket'],
  ])('is unavailable at once, and not missing, when S3 answers %s', async (code, status, said) => {
    const { read, requests } = await opened({ retry: IN_AN_HOUR }, refusesXml(status, code));

    expect(await read()).toMatchObject({ code: 'PAYLOAD_UNAVAILABLE', message: expect.stringContaining(said) });
    expect(requests).toHaveLength(1);
  });

  it('is asked for by nobody when there is no time', async () => {
    const { read, requests } = await opened();

    expect(await read('requests/k', { ...UNHINDERED, signal: AbortSignal.abort() })).toMatchObject({
      code: 'PAYLOAD_UNAVAILABLE',
    });
    expect(requests).toEqual([]);
  });

  it.each([
    ['before it begins', neverAnswers],
    ['on its way', stallsAfter('te')],
  ])('is given up at the deadline when it stalls %s', async (_, stall) => {
    const aborting = new AbortController();
    const { read } = await opened({ retry: IN_AN_HOUR }, (exchange) => {
      stall(exchange);
      setImmediate(() => aborting.abort());
    });

    expect(await read('requests/k', { ...UNHINDERED, signal: aborting.signal })).toMatchObject({
      code: 'PAYLOAD_UNAVAILABLE',
      message: expect.stringContaining('no answer before the deadline'),
    });
  });

  it.each([
    ['', LENGTH],
    [', checksum or not', { ...LENGTH, ...CHECKED }],
  ])('is read after all when it waited for memory longer than its connection lasts%s', async (_, headers) => {
    const letGo = Promise.withResolvers<void>();
    const { read } = await opened({ patience: IMPATIENT }, (exchange) => {
      exchange.response.on('close', letGo.resolve);
      stallsAfter('te', headers)(exchange);
    });

    expect(await read('requests/k', { ...UNHINDERED, admit: () => letGo.promise })).toBe('text');
  });

  it('takes neither place nor connection from others while it waits for memory', async () => {
    const room = Promise.withResolvers<void>();
    const { read } = await opened();
    // More than the client has connections.
    const waiting = Array.from({ length: 64 }, () => read('requests/k', { ...UNHINDERED, admit: () => room.promise }));

    expect(await read()).toBe('text');
    room.resolve();
    expect(await Promise.all(waiting)).toEqual(waiting.map(() => 'text'));
  });

  it('is given up with the deadline while it waits for memory', async () => {
    const aborting = new AbortController();
    const { read } = await opened();
    const admit = () => {
      setImmediate(() => aborting.abort());
      return new Promise<void>(() => {});
    };

    expect(await read('requests/k', { admit, signal: aborting.signal })).toMatchObject({
      code: 'PAYLOAD_UNAVAILABLE',
      message: 's3 object "requests/k": expected to read it, got no answer before the deadline',
    });
  });
});

describe('the keys of bodies', () => {
  it.each([
    ['', 'requests/a/ü +&?%2F'],
    ['eu/fraud.v2/', 'eu/fraud.v2/requests/requests/1'],
  ])('of requests are read under requests/ of the prefix %j: %j', async (prefix, key) => {
    const { read, bucket } = await opened({ prefix });
    await server.put(bucket, key, 'text');

    expect(await read(key)).toBe('text');
  });

  it.each([
    ['', 'requests/'],
    ['', 'requests-of-others/1'],
    ['', 'Requests/1'],
    ['', '/requests/1'],
    ['', 'a/requests/1'],
    ['fraud/', 'fraud-2/requests/1'],
    ['fraud/', 'other/fraud/requests/1'],
  ])('of all else are asked for by nobody, with the prefix %j: %j', async (prefix, key) => {
    const { read, bucket, requests } = await opened({ prefix });
    await server.put(bucket, key, 'secret');

    expect(await read(key)).toEqual({
      failed: true,
      code: 'INVALID_POINTER',
      message: `body[1].s3Key: expected a key that begins with "${prefix}requests/", got "${key}"; upload the body there`,
    });
    expect(requests).toEqual([]);
  });
});
