import { randomUUID } from 'node:crypto';
import type { S3Client } from '@aws-sdk/client-s3';
import { resultKeys } from '../core/places.ts';
import type { ResultWriter } from '../core/record.ts';
import { putObject } from './payloads.ts';
import type { RetryOptions } from './sendBatches.ts';
import { type OpenStore, placeOf } from './storeEntries.ts';

export const openBucketStore: OpenStore = async ({ resultBucket, resultPrefix }, { clients }) =>
  createBucketWriter({ s3: await clients.s3(), bucket: placeOf('bucket', resultBucket), prefix: resultPrefix });

export interface BucketWriterOptions {
  readonly s3: S3Client;
  readonly bucket: string;
  /** Prefix of `results/` in every key. @default '' */
  readonly prefix?: string | undefined;
  /** Milliseconds since the epoch. @default Date.now */
  readonly now?: () => number;
  /** Creates the unique part of a key. Its first digit is the shard. @default randomUUID */
  readonly newId?: () => string;
  readonly retry?: RetryOptions;
}

/**
 * Writes results to an S3 bucket, one NDJSON object per write, in Hive-style partitions for Athena and Glue: a shard
 * and a date (UTC). A line is a result, which has its message ID. All results of one write share one status.
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
 * Formats `shard=3/date=2026-11-21/142530-3….ndjson`. S3 splits the key space to share the load. If dates came first,
 * all writes of a day would go to one end of it. Sixteen shards come first, so one split lasts.
 *
 * @see https://docs.aws.amazon.com/AmazonS3/latest/userguide/optimizing-performance.html
 */
function partitionedName(time: Date, id: string): string {
  const [date = '', clock = ''] = time.toISOString().split('T');
  return `shard=${id.slice(0, 1)}/date=${date}/${clock.slice(0, 8).replaceAll(':', '')}-${id}.ndjson`;
}

/** Replaces line breaks with spaces. In JSON they occur only between tokens, never in a string. */
function onOneLine(json: string): string {
  return json.replace(/[\r\n]/g, ' ');
}
