import { isUtf8 } from 'node:buffer';
import pLimit from 'p-limit';
import * as z from 'zod';
import { plural } from '../core/failure.ts';
import { parseIfJson } from '../core/json.ts';
import { type InputFile, JobError, type JobInput, type JobStorage } from './jobFiles.ts';
import { etagOf, isListing, listFiles, MAX_FILES } from './submitJob.ts';

const MAX_MANIFEST_BYTES = 32 * 1024 * 1024;
const LOOKS = 64;

/**
 * Finds the files of a job's input: one object, those that a manifest names, or those under a prefix or a glob.
 *
 * @throws JobError if the files are not those of the submission, or cannot be one job
 */
export async function findFiles(
  storage: Pick<JobStorage, 'list' | 'look' | 'readRange'>,
  { bucket, key, etag, bytes }: JobInput,
): Promise<readonly InputFile[]> {
  const input = { bucket, key, etag, bytes };
  if (!isListing(key)) {
    return /\.manifest$/i.test(key) ? filesOfManifest(storage, input) : [{ ...input, path: '' }];
  }
  const files = await listFiles(storage, input);
  if (etagOf(files) === etag) return files;
  throw new JobError(
    'INPUT_CHANGED',
    `${key}: expected the files that were there when the job was submitted, got others; submit it again`,
  );
}

/** SageMaker's manifest: a prefix, and names behind it. */
const SAGEMAKER = z.tuple([z.strictObject({ prefix: z.string() })], z.string());

/**
 * Reads a manifest: SageMaker's JSON, or lines of `s3://` URIs and of names in the manifest's own folder. Paths are the
 * names behind SageMaker's prefix, or begin after the last folder that all files share.
 *
 * @see https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_S3DataSource.html
 */
async function filesOfManifest(
  storage: Pick<JobStorage, 'look' | 'readRange'>,
  manifest: JobInput,
): Promise<readonly InputFile[]> {
  const { bucket, key: name, bytes } = manifest;
  if (bytes > MAX_MANIFEST_BYTES) throw wrong(name, `at most ${MAX_MANIFEST_BYTES} bytes`, `${bytes}`);
  const content = bytes === 0 ? Buffer.alloc(0) : await storage.readRange(manifest, { start: 0, end: bytes });
  if (!isUtf8(content)) throw wrong(name, 'UTF-8', 'other bytes');
  const { uris, base } = namesIn(
    Buffer.from(content)
      .toString()
      .replace(/^\uFEFF/, ''),
    manifest,
  );
  if (uris.length === 0) throw wrong(name, 'the names of files', 'none');
  if (uris.length > MAX_FILES) throw wrong(name, `at most ${MAX_FILES} files in a job`, `${uris.length}`);
  const own = `s3://${bucket}/`;
  const foreign = uris.find((uri) => !uri.startsWith(own) || uri.endsWith('/'));
  if (foreign !== undefined) throw wrong(name, `objects in ${own}`, foreign);
  const twice = firstRepeated(uris);
  if (twice !== undefined) throw wrong(name, 'each file once', `${twice} twice`);
  const keys = uris.map((uri) => uri.slice(own.length));
  const start = base === undefined ? sharedFolder(keys).length : base.length - own.length;
  const looks = await pLimit(LOOKS).map(keys, (key) => storage.look(key));
  const missing = uris.filter((_, index) => looks[index] === undefined);
  if (missing.length > 0) {
    const some = missing.slice(0, 3).join(', ');
    throw new JobError(
      'INPUT_NOT_FOUND',
      `${name}: expected all ${plural(uris.length, 'file')} to be there, ${missing.length} are not: ${some}; ` +
        'put them, or remove their names',
    );
  }
  return keys.map((key, index) => {
    const { etag, bytes } = looks[index] as NonNullable<(typeof looks)[number]>;
    return { bucket, key, etag, bytes, path: key.slice(start) };
  });
}

/** @returns the URIs, and the prefix of all of them in SageMaker's format */
function namesIn(text: string, { bucket, key }: JobInput): { uris: readonly string[]; base?: string } {
  if (/^\s*[[{]/.test(text)) {
    const { data } = SAGEMAKER.safeParse(parseIfJson(text));
    if (data === undefined)
      throw wrong(key, '[{"prefix": "s3://BUCKET/FOLDER/"}, "NAME", …] or a name a line', 'other JSON');
    const [{ prefix }, ...names] = data;
    return { uris: names.map((name) => prefix + name), base: prefix };
  }
  const names = text.split('\n').map((line) => line.trim());
  const folder = `s3://${bucket}/${key.slice(0, key.lastIndexOf('/') + 1)}`;
  return {
    uris: names.filter((name) => name !== '').map((name) => (/^s3:\/\//.test(name) ? name : folder + name)),
  };
}

/** Returns the longest folder that all keys share. It ends in `/` unless it is empty. */
function sharedFolder(keys: readonly string[]): string {
  const folders = (keys[0] ?? '').split('/').slice(0, -1);
  let shared = folders.length;
  for (const key of keys) {
    const own = key.split('/').slice(0, -1);
    while (shared > 0 && !own.slice(0, shared).every((name, at) => name === folders[at])) shared -= 1;
  }
  return folders
    .slice(0, shared)
    .map((name) => `${name}/`)
    .join('');
}

function firstRepeated(values: readonly string[]): string | undefined {
  const seen = new Set<string>();
  for (const value of values) {
    if (seen.has(value)) return value;
    seen.add(value);
  }
  return undefined;
}

function wrong(manifest: string, expected: string, got: string): JobError {
  return new JobError('INVALID_JOB', `${manifest}: expected ${expected}, got ${got}; write the manifest again`);
}
