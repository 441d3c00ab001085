import { hash } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { open, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
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
import type { LimitFunction } from 'p-limit';
import pLimit from 'p-limit';
import { assertRegion } from '../../client/batchscore.ts';
import { describeLeftOut, gatherModels } from '../../infra/image/gatherModels.ts';
import { checkModelsFolder } from '../../infra/image/modelsFolder.ts';
import { createS3Client } from '../../lambda/aws/awsClients.ts';
import { describeError, isCallersFault } from '../../lambda/aws/awsError.ts';
import {
  digestOf,
  fileKey,
  isSafePath,
  type ModelFile,
  manifestKey,
  type Part,
  partsOf,
  writeManifest,
} from '../../lambda/aws/fetchModels.ts';
import { CLIENT_PATIENCE } from '../../lambda/aws/sqsWire.ts';
import { plural } from '../../lambda/core/failure.ts';
import { EPHEMERAL_STORAGE_MB as STORAGE_MB } from '../../lambda/core/limits.ts';
import { parseModelsUri, parseS3Prefix } from '../../lambda/core/places.ts';
import { parseCommand, type Streams, UsageError } from '../arguments.ts';
import { size } from '../format.ts';
import { listenForInterruption, progressBar, writeLine } from '../terminal.ts';
import { assertCredentials } from './deployment.ts';

const HELP = `Usage: batchscore publish FOLDER s3://BUCKET/PREFIX [options]

Puts a model repository into S3, for functions that fetch their models at start instead of
having them in their image, and prints its URI, s3://BUCKET/PREFIX/<digest>, for the prop models.
The digest is that of the content: what was published stays as it is beside what is published
later, and a deployment has the models that it names.

  FOLDER              the model repository, FOLDER/<name>/<version>/model.onnx; files that no
                      host needs are left out, as they are of images, and named
  s3://BUCKET/PREFIX  where it goes; what is there already is not sent again

  --region REGION     the bucket's region (default: that of the AWS profile)
  --json              print the summary as one JSON object
  --help              show this

The URI goes to stdout, the summary to stderr.
Exit code: 0 published, 1 not, 2 wrong usage, 130 stopped by Ctrl-C, 143 by SIGTERM.
`;

const ATTEMPTS = 6;
const FILES_AT_A_TIME = 8;

async function run(args: readonly string[], streams: Streams): Promise<number> {
  const { options, positionals } = parseCommand(args, ['FOLDER', 's3://BUCKET/PREFIX'], {
    region: { type: 'string' },
    json: { type: 'boolean', default: false },
  });
  const [folder = '', target = ''] = positionals;
  const { bucket, prefix } = targetOf(target);
  const say = (message: string): void => writeLine(streams.stderr, message);
  const stopping = new AbortController();
  const interrupt = (): void => stopping.abort(new Error('interrupted'));
  const { exitCode, finished } = listenForInterruption('the upload, by removing unfinished parts', interrupt);
  const apart = mkdtempSync(join(tmpdir(), 'batchscore-publish-'));
  const removeApart = (): void => rmSync(apart, { recursive: true, force: true });
  process.once('exit', removeApart);
  const s3 = createS3Client(CLIENT_PATIENCE, { region: options.region, maxAttempts: ATTEMPTS });
  let bar: ReturnType<typeof progressBar> | undefined;
  try {
    const { files, leftOut } = await readModels(folder, apart, stopping.signal);
    stopping.signal.throwIfAborted();
    const manifest = writeManifest(files);
    const digest = digestOf(manifest);
    const place = prefix === '' ? digest : `${prefix}/${digest}`;

    await assertCredentials(s3);
    await assertRegion([s3]);
    const bytes = files.reduce((sum, file) => sum + file.bytes, 0);
    bar = progressBar('publishing', bytes);
    let sent = 0;
    const onBytes = (more: number): void => {
      sent += more;
      bar?.update(sent);
    };
    const putFile = createPutFile({ s3, bucket, signal: stopping.signal, onBytes });
    const uploaded = await putFiles(putFile, place, files, stopping);
    // The manifest is written last, so that all files that it names exist.
    const content = Buffer.from(manifest);
    await putFile({
      key: manifestKey(place),
      name: 'the manifest',
      bytes: content.length,
      parts: [digest],
      read: async () => content,
    });
    bar.stop();
    const said = describeLeftOut(leftOut);
    if (said !== undefined) say(said);
    report({ uri: `s3://${bucket}/${place}`, files: files.length, bytes, uploaded }, options.json, streams);
  } catch (error) {
    if (exitCode() === undefined) throw error;
    writeLine(streams.stderr, 'stopped; run the same command again to go on');
  } finally {
    bar?.stop();
    s3.destroy();
    finished();
    process.off('exit', removeApart);
    removeApart();
  }
  return exitCode() ?? 0;
}

/** @throws UsageError if the target is not an S3 prefix, or ends with the digest of a published repository */
function targetOf(target: string) {
  const place = parseS3Prefix(target);
  if (place !== undefined && parseModelsUri(target) === undefined) return place;
  throw new UsageError(`expected s3://BUCKET/PREFIX, ${ruleBrokenBy(target)}, got '${target}'`);
}

function ruleBrokenBy(target: string): string {
  const [, bucket, prefix = ''] = /^s3:\/\/([^/]*)\/?(.*)$/.exec(target) ?? [];
  if (bucket === undefined) return 'which begins with s3://';
  if (parseS3Prefix(`s3://${bucket}`) === undefined) {
    return 'with a bucket of 3 to 63 small letters, digits, dots and hyphens that begins and ends with a letter or digit';
  }
  if (parseS3Prefix(target) !== undefined) return `without a digest at its end, which ${prefix} has already`;
  return 'with a prefix of letters, digits and . _ = + - between single slashes';
}

/**
 * @returns the number of files that were uploaded
 * @throws Error of the first file that failed, after all other uploads have ended
 */
async function putFiles(
  putFile: PutFile,
  place: string,
  files: readonly SourceFile[],
  stopping: AbortController,
): Promise<number> {
  const atATime = pLimit(FILES_AT_A_TIME);
  const put = async ({ path, name, ...file }: SourceFile): Promise<boolean> => {
    stopping.signal.throwIfAborted();
    return putFile({ ...file, key: fileKey(place, path), name, read: (part) => readPart(name, part) });
  };
  const outcomes = files.map((file) => atATime(() => put(file)).catch((error) => void stopping.abort(error)));
  const uploaded = await Promise.all(outcomes);
  stopping.signal.throwIfAborted();
  return uploaded.filter((isNew) => isNew).length;
}

function report(
  summary: { uri: string; files: number; bytes: number; uploaded: number },
  json: boolean,
  streams: Streams,
): void {
  const { uri, files, bytes, uploaded } = summary;
  const { minMb, advice } = storageFor(bytes);
  if (json) {
    writeLine(streams.stdout, JSON.stringify({ ...summary, ephemeralStorageMb: minMb }));
    return;
  }
  writeLine(streams.stdout, uri);
  const what = `${plural(files, 'file')}, ${size(bytes)}`;
  const done = `${uploaded} uploaded, ${files - uploaded} there before`;
  writeLine(streams.stderr, `${what}: ${done}; set models to the URI in infra/app.ts, ${advice}and deploy`);
}

export const publish = { help: HELP, run };

interface SourceFile extends ModelFile {
  readonly name: string;
}

/**
 * Reads the files of a model repository after the checks of a deployment. They are the files that an image would
 * contain.
 *
 * @param apart folder for files that differ from the repository's
 * @param signal stops reading. The files read so far are returned.
 * @throws Error naming what a host would refuse at start, or what does not fit
 */
async function readModels(folder: string, apart: string, signal: AbortSignal) {
  checkModelsFolder(folder, undefined);
  const { files, leftOut } = gatherModels(folder, apart, undefined);
  const read: SourceFile[] = [];
  for (const [path, source] of files) {
    if (signal.aborted) break;
    read.push(await readModelFile(path, source));
  }
  return { files: read, leftOut };
}

async function readModelFile(path: string, source: string): Promise<SourceFile> {
  if (!isSafePath(path)) {
    throw new Error(`${source}: expected a name without backslashes and control characters; rename or remove it`);
  }
  const { size: bytes } = await stat(source);
  const parts: string[] = [];
  for (const part of partsOf(bytes)) parts.push(hash('sha256', await readPart(source, part)));
  return { path, name: source, bytes, parts };
}

/** Reads a part of a file. The result is shorter if the file ends before the part does. */
async function readPart(path: string, { start, end }: Part): Promise<Buffer> {
  const file = await open(path);
  try {
    const part = Buffer.allocUnsafe(end - start);
    let got = 0;
    for (let read = -1; got < part.length && read !== 0; got += read) {
      read = (await file.read(part, got, part.length - got, start + got)).bytesRead;
    }
    return part.subarray(0, got);
  } finally {
    await file.close();
  }
}

/** Object to upload, identified by its content. */
interface Upload extends Omit<ModelFile, 'path'> {
  readonly key: string;
  /** Name of the object in messages. */
  readonly name: string;
  read(part: Part): Promise<Buffer>;
}

interface Bucket {
  readonly s3: S3Client;
  readonly bucket: string;
  readonly signal: AbortSignal;
  /** Takes the number of bytes that the bucket has received. */
  readonly onBytes: (bytes: number) => void;
}

/** Maximum number of parts in memory, 8 MiB each. */
const PARTS_AT_A_TIME = 4;

/** Uploads an object. @returns true if it was uploaded, false if the bucket already contains it */
type PutFile = (upload: Upload) => Promise<boolean>;

/**
 * Creates a function that uploads objects that the bucket lacks. It sends large ones in parts. It compares each part
 * with its checksum before it sends it, so that a file that changes during the upload does not become an object.
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

/** Error for a file that changed during the upload. Hosts refuse an object whose content does not match its digest. */
class Changed extends Error {
  constructor(name: string) {
    super(`${name}: expected what it held a moment ago, got something else; publish again when nobody writes to it`);
  }
}

/**
 * Returns true if the bucket has the object. If S3 denies the request, it returns false: S3 hides that an object is
 * missing from callers who may not list, and the upload then reports the reason.
 */
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

/** Returns one checksum over the parts' checksums. Object metadata has no room for a thousand of them. */
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
    // S3 keeps and bills the parts of an upload that is never completed.
    await s3.send(new AbortMultipartUploadCommand({ ...object, UploadId })).catch(() => {});
    throw error;
  }
}

/**
 * @throws Error of the first part that failed, after all other parts have ended, because S3 would keep a part that
 * arrives later
 */
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

/** @throws Changed if the content differs from its checksum */
async function read(upload: Upload, part: Part, index: number): Promise<Buffer> {
  const content = await upload.read(part);
  if (hash('sha256', content) !== upload.parts[index]) throw new Changed(upload.name);
  return content;
}

const MIB = 1024 * 1024;
/** Space for the file system's own data and for files that a transform writes. */
const SPARE = { share: 0.05, mb: 64 };

/** Returns the minimum storage for models, in MB, and advice as a part of a sentence, empty if the default is enough. */
export function storageFor(bytes: number) {
  const minMb = Math.max(STORAGE_MB.default, Math.ceil((bytes / MIB) * (1 + SPARE.share)) + SPARE.mb);
  if (minMb === STORAGE_MB.default) return { minMb, advice: '' };
  const max = minMb > STORAGE_MB.max ? `, which is more than the ${STORAGE_MB.max} that Lambda has` : '';
  return { minMb, advice: `ephemeralStorageSize to at least ${minMb} MiB${max}, ` };
}
