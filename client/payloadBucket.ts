import { randomUUID } from 'node:crypto';
import { GetObjectCommand, PutObjectCommand, type S3Client } from '@aws-sdk/client-s3';
import { requestKeys, resultKeys } from '../lambda/core/places.ts';
import type { PayloadPointer } from '../lambda/core/record.ts';

/** The deployment's bucket as far as results are read from it that were too large for their store. */
export interface PayloadSource {
  readonly bucket: string;
  /** What the keys of results begin with: no others are read. */
  readonly resultKeys: string;
  get(pointer: PayloadPointer): Promise<string>;
}

/** The deployment's bucket for bodies too large for SQS and results too large for their store. */
export interface Payloads extends PayloadSource {
  /** Puts the body of a request there, under a key of its own. */
  put(body: string): Promise<PayloadPointer>;
}

/**
 * @param s3 a client that retries by itself
 * @param prefix of the deployment's keys in the bucket
 */
export function createPayloads(s3: S3Client, bucket: string, prefix: string): Payloads {
  return {
    bucket,
    resultKeys: resultKeys(prefix),
    async put(Body) {
      const key = `${requestKeys(prefix)}${randomUUID()}`;
      await s3.send(new PutObjectCommand({ Bucket: bucket, Key: key, Body, ContentType: 'application/json' }));
      return { bucket, key };
    },
    async get({ bucket: Bucket, key: Key }) {
      const { Body } = await s3.send(new GetObjectCommand({ Bucket, Key }));
      if (Body === undefined) throw new Error(`expected a body at s3://${Bucket}/${Key}, got none`);
      return await Body.transformToString('utf-8');
    },
  };
}
