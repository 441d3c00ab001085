import { hash } from 'node:crypto';
import {
  AbortMultipartUploadCommand,
  type CompletedPart,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  HeadObjectCommand,
  PutObjectCommand,
  type S3Client,
  UploadPartCommand,
} from '@aws-sdk/client-s3';
import pLimit, { type LimitFunction } from 'p-limit';
import { describeError, isCallersFault } from '../../lambda/aws/awsError.ts';
import { type ModelFile, type Part, partsOf } from '../../lambda/aws/modelManifest.ts';

/** An object that is to be in a bucket, known by its content. */
export interface Upload extends Omit<ModelFile, 'path'> {
  readonly key: string;
  /** What messages call it. */
  readonly name: string;
  read(part: Part): Promise<Buffer>;
}

export interface Bucket {
  readonly s3: S3Client;
  readonly bucket: string;
  /** Gives up what is under way. */
  readonly signal: AbortSignal;
  /** Told of bytes that the bucket has. */
  readonly onBytes: (bytes: number) => void;
}

/** Parts in memory at a time, of 8 MiB each. */
const PARTS_AT_A_TIME = 4;

/** @returns whether it was put: it may have been there */
export type PutFile = (upload: Upload) => Promise<boolean>;

/**
 * Puts objects that are not there yet, large ones in parts. Each part is compared with its checksum before it is sent,
 * so that no object comes to be of a file that changes meanwhile.
 */
export function createPutFile(bucket: Bucket): PutFile {
  const slots = pLimit(PARTS_AT_A_TIME);
  return async (upload) => {
    try {
      if (await isThere(bucket, upload)) {
        bucket.onBytes(upload.bytes);
        return false;
      }
      await (upload.parts.length > 1 ? putInParts : putWhole)(bucket, upload, slots);
      return true;
    } catch (cause) {
      bucket.signal.throwIfAborted();
      if (cause instanceof Changed) throw cause;
      throw new Error(
        `s3://${bucket.bucket}/${upload.key}: expected the bucket to take it, got ${describeError(cause)}; ` +
          'check the bucket and your permissions, then run the same command again',
        { cause },
      );
    }
  };
}

/** Other content under a digest would be refused when it is fetched. */
class Changed extends Error {
  constructor(name: string) {
    super(`${name}: expected what it held a moment ago, got something else; publish again when nobody writes to it`);
  }
}

/** What S3 does not let us look at is put: it hides what is missing from those who may not list, and putting says why. */
async function isThere({ s3, bucket, signal }: Bucket, upload: Upload): Promise<boolean> {
  try {
    const command = new HeadObjectCommand({ Bucket: bucket, Key: upload.key });
    const { ContentLength, Metadata } = await s3.send(command, { abortSignal: signal });
    return ContentLength === upload.bytes && Metadata?.parts === metadataOf(upload).parts;
  } catch (error) {
    if (isCallersFault(error)) return false;
    throw error;
  }
}

/** Of a thousand checksums the object keeps one. */
function metadataOf({ parts }: Upload): { parts: string } {
  return { parts: hash('sha256', parts.join('\n')) };
}

async function putWhole(bucket: Bucket, upload: Upload, slots: LimitFunction): Promise<void> {
  const object = { Bucket: bucket.bucket, Key: upload.key, Metadata: metadataOf(upload) };
  await slots(async () => {
    const Body = await read(upload, { start: 0, end: upload.bytes }, 0);
    await bucket.s3.send(new PutObjectCommand({ ...object, Body }), { abortSignal: bucket.signal });
  });
  bucket.onBytes(upload.bytes);
}

async function putInParts(bucket: Bucket, upload: Upload, slots: LimitFunction): Promise<void> {
  const { s3, signal } = bucket;
  const object = { Bucket: bucket.bucket, Key: upload.key };
  const asked = { ...object, Metadata: metadataOf(upload), ChecksumAlgorithm: 'CRC32' as const };
  const { UploadId } = await s3.send(new CreateMultipartUploadCommand(asked), { abortSignal: signal });
  try {
    const Parts = await putParts(bucket, upload, { ...object, UploadId }, slots);
    const whole = { ...object, UploadId, MultipartUpload: { Parts } };
    await s3.send(new CompleteMultipartUploadCommand(whole), { abortSignal: signal });
  } catch (error) {
    // Parts that nobody completes are kept and paid for.
    await s3.send(new AbortMultipartUploadCommand({ ...object, UploadId })).catch(() => {});
    throw error;
  }
}

/** @throws Error of the first part that was not taken, once none is under way any more: S3 would keep it */
async function putParts(
  { s3, signal, onBytes }: Bucket,
  upload: Upload,
  multipart: { readonly Bucket: string; readonly Key: string; readonly UploadId: string | undefined },
  slots: LimitFunction,
): Promise<CompletedPart[]> {
  const failing = new AbortController();
  const stop = AbortSignal.any([signal, failing.signal]);
  const putPart = async (part: Part, index: number): Promise<CompletedPart> => {
    stop.throwIfAborted();
    const Body = await read(upload, part, index);
    const asked = { ...multipart, PartNumber: index + 1, Body, ChecksumAlgorithm: 'CRC32' as const };
    const { ETag, ChecksumCRC32 } = await s3.send(new UploadPartCommand(asked), { abortSignal: stop });
    onBytes(Body.length);
    return { PartNumber: index + 1, ETag, ChecksumCRC32 };
  };
  const parts = partsOf(upload.bytes).map((part, index) => slots(() => putPart(part, index)));
  for (const part of parts) part.catch((error) => failing.abort(error));
  await Promise.allSettled(parts);
  stop.throwIfAborted();
  return Promise.all(parts);
}

/** @throws Changed when it is not what it was */
async function read(upload: Upload, part: Part, index: number): Promise<Buffer> {
  const content = await upload.read(part);
  if (hash('sha256', content) !== upload.parts[index]) throw new Changed(upload.name);
  return content;
}
