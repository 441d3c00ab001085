import { describe, expect, it } from '@jest/globals';
import { type BucketWriterOptions, createBucketWriter } from '../../../../lambda/aws/resultBucket.ts';
import type { RetryOptions } from '../../../../lambda/aws/sendBatches.ts';
import type { Result } from '../../../../lambda/core/record.ts';
import { useS3Server } from '../../../helpers/awsServers.ts';
import type { Step } from '../../../helpers/frontServer.ts';

const server = useS3Server();
const NEVER = new AbortController().signal;
const WRITTEN = { written: true };
const AT_ONCE: RetryOptions = { random: () => 0 };
/** A pause that no test waits for: it would run into jest's time limit. */
const _IN_AN_HOUR: RetryOptions = { baseMs: 3_600_000, capMs: 3_600_000, random: () => 1 };

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
});
