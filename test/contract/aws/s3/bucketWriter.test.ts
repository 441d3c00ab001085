import { describe, expect, it } from '@jest/globals';
import { type BucketWriterOptions, createBucketWriter } from '../../../../lambda/aws/resultBucket.ts';
import type { RetryOptions } from '../../../../lambda/aws/sendBatches.ts';
import type { Result } from '../../../../lambda/core/record.ts';

import { hangsUp, refusesXml, type Step } from '../../../helpers/frontServer.ts';
import { useS3Server } from '../../../helpers/s3Server.ts';

const server = useS3Server();
const NEVER = new AbortController().signal;
const WRITTEN = { written: true };
const AT_ONCE: RetryOptions = { random: () => 0 };
/** A pause that no test waits for: it would run into jest's time limit. */
const IN_AN_HOUR: RetryOptions = { baseMs: 3_600_000, capMs: 3_600_000, random: () => 1 };

function result(messageId: string, body = JSON.stringify({ message_id: messageId })): Result {
  return { messageId, body, messageGroupId: undefined };
}

/** A writer to a bucket of its own at 04:05:06 UTC; the n-th request is answered by the n-th step. */
async function opened(options: Partial<BucketWriterOptions> = {}, ...steps: Step[]) {
  const bucket = await server.bucket();
  const front = await server.front(...steps);
  let ids = 0;
  const writer = createBucketWriter({
    s3: server.client(front),
    bucket,
    now: () => Date.parse('2026-11-21T04:05:06.789Z'),
    newId: () => `${(10 + ids++).toString(16)}-id`,
    retry: AT_ONCE,
    ...options,
  });
  return {
    writer,
    requests: front.requests,
    keys: () => server.keys(bucket),
    text: (key: string) => server.text(bucket, key),
  };
}

describe('the bucket writer', () => {
  it('writes one object a write, a line a result, under a shard, the day and second in UTC', async () => {
    const { writer, keys, text } = await opened();

    expect(await writer.write([result('a'), result('b', '[{"message_id":"b"}]')], NEVER)).toEqual([WRITTEN, WRITTEN]);
    expect(await writer.write([result('c')], NEVER)).toEqual([WRITTEN]);

    const [first, second] = ['a', 'b'].map(
      (shard) => `results/shard=${shard}/date=2026-11-21/040506-${shard}-id.ndjson`,
    ) as [string, string];
    expect(await keys()).toEqual([first, second]);
    expect(await text(first)).toBe('{"message_id":"a"}\n[{"message_id":"b"}]\n');
    expect(await text(second)).toBe('{"message_id":"c"}\n');
  });

  it('names objects by the clock and an ID of their own, under the prefix that was asked for', async () => {
    const { writer, keys } = await opened({ prefix: 'fraud/', now: undefined, newId: undefined });

    await Promise.all([writer.write([result('a')], NEVER), writer.write([result('b')], NEVER)]);

    const name = expect.stringMatching(
      /^fraud\/results\/shard=[0-9a-f]\/date=20\d\d-\d\d-\d\d\/\d{6}-[0-9a-f-]{36}\.ndjson$/,
    );
    expect(await keys()).toEqual([name, name]);
  });

  it('spreads objects over sixteen shards, so that those of a day do not lie in a row', async () => {
    const { writer, keys } = await opened({ newId: undefined });

    // That one of sixteen is missed has a chance of 16 × (15/16)^400, one in ten thousand millions.
    await Promise.all(Array.from({ length: 400 }, () => writer.write([result('a')], NEVER)));

    const shards = (await keys()).map((key) => /^results\/shard=(.)\//.exec(key)?.[1] ?? key);
    expect([...new Set(shards)]).toEqual([...'0123456789abcdef']);
  });

  it('keeps a result on one line whatever white space its JSON has', async () => {
    const { writer, keys, text } = await opened();
    const spread = '{\r\n  "error": "one\\ntwo"\n}';

    await writer.write([result('a', spread), result('b')], NEVER);

    const [key = ''] = await keys();
    const lines = (await text(key)).trimEnd().split('\n');
    expect(lines.map((line) => JSON.parse(line))).toEqual([JSON.parse(spread), { message_id: 'b' }]);
  });

  it('writes no object for nothing', async () => {
    const { writer, requests } = await opened();

    expect(await writer.write([], NEVER)).toEqual([]);
    expect(requests).toEqual([]);
  });

  it.each([
    ['S3 asks to slow down', refusesXml(503, 'SlowDown')],
    ['S3 has an error of its own', refusesXml(500, 'InternalError')],
    ['the request timed out', refusesXml(400, 'RequestTimeout')],
    ['the connection breaks', hangsUp],
  ])('writes the same object again when %s', async (_, step) => {
    const { writer, requests, keys } = await opened({}, step, step);

    expect(await writer.write([result('a')], NEVER)).toEqual([WRITTEN]);

    expect(requests.map(({ path }) => path)).toEqual(Array(3).fill(requests[0]?.path));
    expect(await keys()).toHaveLength(1);
  });

  it('fails all results of a write together in the end', async () => {
    const slow = refusesXml(503, 'SlowDown');
    const { writer, requests } = await opened({ retry: { ...AT_ONCE, attempts: 2 } }, slow, slow, slow);

    const outage = { of: 'result bucket', kind: 'busy' };
    const failed = { failed: true, code: 'WRITE_FAILED', message: 'result bucket: SlowDown: SlowDown it is', outage };
    expect(await writer.write([result('a'), result('b')], NEVER)).toEqual([failed, failed]);
    expect(requests).toHaveLength(2);
  });

  it('does not try again without the bucket or the permission', async () => {
    const denied = await opened({ retry: IN_AN_HOUR }, refusesXml(403, 'AccessDenied'));
    const gone = await opened({ retry: IN_AN_HOUR, bucket: 'no-such-bucket' });

    expect(await denied.writer.write([result('a')], NEVER)).toMatchObject([{ code: 'WRITE_FAILED' }]);
    expect(await gone.writer.write([result('a')], NEVER)).toMatchObject([
      { code: 'WRITE_FAILED', message: expect.stringMatching(/^result bucket: NoSuchBucket/) },
    ]);
    expect([denied.requests.length, gone.requests.length]).toEqual([1, 1]);
  });

  it('claims nothing when it was aborted, before or during the write', async () => {
    const aborting = new AbortController();
    const { writer, requests } = await opened({ retry: IN_AN_HOUR }, () => aborting.abort());

    expect(await writer.write([result('a')], AbortSignal.abort())).toMatchObject([{ code: 'WRITE_FAILED' }]);
    expect(requests).toEqual([]);
    expect(await writer.write([result('a')], aborting.signal)).toMatchObject([{ code: 'WRITE_FAILED' }]);
    expect(requests).toHaveLength(1);
  });
});
