import { describe, expect, it } from '@jest/globals';
import { type BucketWriterOptions, createBucketWriter } from '../../../lambda/aws/resultBucket.ts';
import type { Result } from '../../../lambda/core/record.ts';
import { useS3Server } from '../../helpers/awsServers.ts';

const server = useS3Server();
const NEVER = new AbortController().signal;
const WRITTEN = { written: true };

function result(messageId: string, body = JSON.stringify({ message_id: messageId })): Result {
  return { messageId, body, messageGroupId: undefined };
}

/** A writer to a bucket of its own. */
async function opened(options: Partial<BucketWriterOptions> = {}) {
  const bucket = await server.bucket();
  const writer = createBucketWriter({ s3: server.client(), bucket, ...options });
  return { writer, keys: () => server.keys(bucket), text: (key: string) => server.text(bucket, key) };
}

describe('the bucket writer', () => {
  it('writes one object a write, a line a result, under a shard, the day and second in UTC', async () => {
    const ids = ['a-id', 'b-id'];
    const now = () => Date.parse('2026-11-21T04:05:06.789Z');
    const { writer, keys, text } = await opened({ now, newId: () => ids.shift() ?? '' });
    const spread = '{\r\n  "error": "one\\ntwo"\n}';

    expect(await writer.write([result('a'), result('b', spread)], NEVER)).toEqual([WRITTEN, WRITTEN]);
    expect(await writer.write([result('c')], NEVER)).toEqual([WRITTEN]);

    const [first, second] = ['a', 'b'].map(
      (shard) => `results/shard=${shard}/date=2026-11-21/040506-${shard}-id.ndjson`,
    ) as [string, string];
    expect(await keys()).toEqual([first, second]);
    // A line break of a result's JSON would end its line.
    expect(await text(first)).toBe('{"message_id":"a"}\n{    "error": "one\\ntwo" }\n');
    expect(await text(second)).toBe('{"message_id":"c"}\n');
  });

  it('names objects by the clock and an ID of their own, in sixteen shards, under the prefix', async () => {
    const { writer, keys } = await opened({ prefix: 'fraud/' });

    // That one of sixteen is missed has a chance of 16 × (15/16)^400, one in ten thousand millions.
    await Promise.all(Array.from({ length: 400 }, () => writer.write([result('a')], NEVER)));

    const name = /^fraud\/results\/shard=([0-9a-f])\/date=20\d\d-\d\d-\d\d\/\d{6}-\1[0-9a-f-]{35}\.ndjson$/;
    const shards = (await keys()).map((key) => name.exec(key)?.[1] ?? key);
    expect(shards).toHaveLength(400);
    expect([...new Set(shards)]).toEqual([...'0123456789abcdef']);
  });
});
