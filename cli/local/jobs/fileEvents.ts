import { HeadObjectCommand, type S3Client } from '@aws-sdk/client-s3';
import type { buildApp } from 'fauxqs';

type Server = ReturnType<typeof buildApp>;
/** Told of an object that was put. */
type Listener = (bucket: string, key: string) => void;

/** What S3 tells a function. @see https://docs.aws.amazon.com/AmazonS3/latest/userguide/notification-content-structure.html */
export interface FileEvent {
  readonly Records: readonly {
    readonly s3: {
      readonly bucket: { readonly name: string };
      readonly object: { readonly key: string; readonly size: number; readonly eTag: string };
    };
  }[];
}

/** Has the local server, which knows no notifications, tell of objects that are put, in one piece or in several. */
export function listenToObjects(server: Server): (listener: Listener) => void {
  const listeners: Listener[] = [];
  server.addHook('onResponse', async (request, reply) => {
    if (reply.statusCode !== 200) return;
    const { pathname, searchParams } = new URL(request.url, 'http://local');
    const [, bucket = '', ...steps] = pathname.split('/');
    const key = decodeURIComponent(steps.join('/'));
    if (bucket === '' || key === '' || !putsObject(request.method, searchParams)) return;
    for (const listener of listeners) listener(bucket, key);
  });
  return (listener) => void listeners.push(listener);
}

/** An upload in several pieces is an object once it is completed. */
function putsObject(method: string, query: URLSearchParams): boolean {
  return query.has('uploadId') ? method === 'POST' : method === 'PUT';
}

/** The event of an object, as S3 spells it. */
export async function fileEvent(s3: S3Client, bucket: string, key: string): Promise<FileEvent> {
  const { ContentLength = 0, ETag = '' } = await s3.send(new HeadObjectCommand({ Bucket: bucket, Key: key }));
  const object = {
    key: encodeURIComponent(key).replaceAll('%2F', '/').replaceAll('%20', '+'),
    size: ContentLength,
    eTag: ETag.replaceAll('"', ''),
  };
  return { Records: [{ s3: { bucket: { name: bucket }, object } }] };
}
