import { CreateBucketCommand, type S3Client } from '@aws-sdk/client-s3';
import type { buildApp } from 'fauxqs';
import { createS3Client, HOST_PATIENCE } from '../../lambda/aws/awsClients.ts';

export interface LocalBuckets {
  readonly resultBucket: string;
  readonly payloadBucket: string;
}

const BUCKETS: LocalBuckets = { resultBucket: 'batchscore-results', payloadBucket: 'batchscore-payloads' };

/** An S3 client for a local server. */
export function localBucketClient(endpoint: string, region: string): S3Client {
  return createS3Client(HOST_PATIENCE, {
    endpoint,
    region,
    credentials: { accessKeyId: 'local', secretAccessKey: 'local' },
    forcePathStyle: true,
  });
}

/** Creates the result bucket and the payload bucket on the S3 side of the local queue server. */
export async function createLocalBuckets(s3: S3Client): Promise<LocalBuckets> {
  for (const Bucket of Object.values(BUCKETS)) await s3.send(new CreateBucketCommand({ Bucket }));
  return BUCKETS;
}

/** What S3 takes in one PUT. @see https://docs.aws.amazon.com/AmazonS3/latest/userguide/upload-objects.html */
const MOST_PUT_BYTES = 5 * 1024 ** 3;

/**
 * Has the local server, which takes 11 MiB and no empty object whose type is not told, take what S3 takes. To be called
 * before it listens.
 */
export function takeObjectsOfAnySize(server: ReturnType<typeof buildApp>): void {
  server.removeContentTypeParser('*');
  server.addContentTypeParser('*', { parseAs: 'buffer', bodyLimit: MOST_PUT_BYTES }, (_request, body, done) => {
    done(null, body);
  });
  // What `curl --data-binary` calls its body, whatever it is: it would be read as a form.
  server.addHook('onRequest', async ({ method, headers }) => {
    const isForm = headers['content-type']?.startsWith('application/x-www-form-urlencoded');
    if (method === 'PUT' && isForm) headers['content-type'] = 'application/octet-stream';
  });
  server.addHook('preHandler', async (request) => {
    if (request.method === 'PUT') request.body ??= Buffer.alloc(0);
  });
}
