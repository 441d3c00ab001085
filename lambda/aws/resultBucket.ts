import { randomUUID } from 'node:crypto';
import type { S3Client } from '@aws-sdk/client-s3';
import { resultKeys } from '../core/places.ts';
import type { ResultWriter } from '../core/record.ts';
import { putObject } from './payloads.ts';
import type { RetryOptions } from './sendBatches.ts';

export interface BucketWriterOptions {
  readonly s3: S3Client;
  readonly bucket: string;
  /** What comes before `results/` in every key. @default '' */
  readonly prefix?: string | undefined;
  /** Milliseconds since the epoch. @default Date.now */
  readonly now?: () => number;
  /** What makes keys of the same second differ; its first digit is the shard. @default randomUUID */
  readonly newId?: () => string;
  readonly retry?: RetryOptions;
}

/**
 * Writes results to an S3 bucket, one NDJSON object per write, under Hive-style partitions that Athena and Glue find by
 * themselves: a shard and a date (UTC). A line is a result as it is, so each names its message ID. An object is written
 * whole or not at all, so the results of one write share one status.
 */
export function createBucketWriter(options: BucketWriterOptions): ResultWriter {
  const { s3, bucket, prefix = '', now = Date.now, newId = randomUUID, retry } = options;

  return {
    async write(results, signal) {
      if (results.length === 0) return [];
      const object = {
        Bucket: bucket,
        Key: `${resultKeys(prefix)}${partitionedName(new Date(now()), newId())}`,
        Body: results.map(({ body }) => `${onOneLine(body)}\n`).join(''),
        ContentType: 'application/x-ndjson',
      };
      const status = await putObject(s3, object, { store: 'result bucket', signal, retry });
      return results.map(() => status);
    },
  };
}

/**
 * `shard=3/date=2026-11-21/142530-3….ndjson`. Dates first would send all writes of a day to one end of the key space,
 * and S3 divides the key space to share the load. With sixteen shards first, that are the same every day, it is divided
 * once and for all.
 *
 * @see https://docs.aws.amazon.com/AmazonS3/latest/userguide/optimizing-performance.html
 */
function partitionedName(time: Date, id: string): string {
  const [date = '', clock = ''] = time.toISOString().split('T');
  return `shard=${id.slice(0, 1)}/date=${date}/${clock.slice(0, 8).replaceAll(':', '')}-${id}.ndjson`;
}

/** A line break in a JSON text stands between tokens, never in a string, so a space means the same. */
function onOneLine(json: string): string {
  return json.replace(/[\r\n]/g, ' ');
}
