import {
  CreateBucketCommand,
  GetObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  type S3Client,
} from '@aws-sdk/client-s3';
import { afterAll, beforeAll } from '@jest/globals';
import { buildApp } from 'fauxqs';
import { createS3Client, HOST_PATIENCE, type Patience } from '../../lambda/aws/awsClients.ts';
import { type FrontServer, type Step, startFront } from './frontServer.ts';
import { afterThisTest } from './openModels.ts';

export interface S3Server {
  /** A client of the server, or of what is in front of it; it is closed after the test. */
  client(other?: { readonly endpoint: string }, patience?: Patience): S3Client;
  /** Where it listens. */
  endpoint(): string;
  /** What answers requests in the server's place, one step after the other; stopped after the test. */
  front(...steps: readonly (Step | undefined)[]): Promise<FrontServer>;
  /** An empty bucket of its own for the test that asks, with a name of its own unless one is given. @returns its name */
  bucket(name?: string): Promise<string>;
  put(bucket: string, key: string, body: string | Uint8Array): Promise<void>;
  /** The keys of a bucket's objects, in order. */
  keys(bucket: string): Promise<string[]>;
  text(bucket: string, key: string): Promise<string>;
}

/** A real S3 server in this process for the tests of a file, started before the first and stopped after the last. */
export function useS3Server(): S3Server {
  const app = buildApp({ logger: false });
  let endpoint = '';
  let buckets = 0;

  beforeAll(async () => {
    endpoint = await app.listen({ port: 0, host: '127.0.0.1' });
  });
  afterAll(async () => {
    await app.close();
  });

  const client: S3Server['client'] = (other, patience = HOST_PATIENCE) => {
    const s3 = createS3Client(patience, {
      endpoint: other?.endpoint ?? endpoint,
      region: 'us-east-1',
      credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
      forcePathStyle: true,
    });
    afterThisTest(async () => s3.destroy());
    return s3;
  };
  return {
    client,
    endpoint: () => endpoint,
    async front(...steps) {
      const front = await startFront(endpoint, steps);
      afterThisTest(front.stop);
      return front;
    },
    async bucket(Bucket = `bucket-${buckets++}`) {
      await client().send(new CreateBucketCommand({ Bucket }));
      return Bucket;
    },
    async put(Bucket, Key, Body) {
      await client().send(new PutObjectCommand({ Bucket, Key, Body, ContentLength: Buffer.byteLength(Body) }));
    },
    async keys(Bucket) {
      const { Contents = [] } = await client().send(new ListObjectsV2Command({ Bucket }));
      return Contents.map(({ Key }) => Key ?? '');
    },
    async text(Bucket, Key) {
      const { Body } = await client().send(new GetObjectCommand({ Bucket, Key }));
      return (await Body?.transformToString()) ?? '';
    },
  };
}
