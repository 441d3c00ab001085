import { createHash, randomUUID } from 'node:crypto';
import * as z from 'zod';
import { messageOf } from '../core/failure.ts';
import { JOB_RANGES } from '../core/limits.ts';
import { IN_OUR_WORDS, problemsIn } from '../core/wrongValue.ts';
import { COMPRESSIONS, FORMATS, type InputFile, JobError, type JobInput, type JobStorage } from './jobFiles.ts';
import type { JobStart, Spec } from './jobTypes.ts';
import { expandColumns, isSeparator, keptColumns, parseCell } from './rowRequests.ts';

/**
 * S3 event notification.
 * @see https://docs.aws.amazon.com/AmazonS3/latest/userguide/notification-content-structure.html
 */
const S3_EVENT = z.object({
  Records: z.array(
    z.object({
      s3: z.object({
        bucket: z.object({ name: z.string() }),
        object: z.object({ key: z.string(), size: z.number().default(0), eTag: z.string().default('') }),
      }),
    }),
  ),
});

export interface SubmitDependencies {
  readonly storage: JobStorage;
  readonly executions: Executions;
  readonly bucket: string;
  readonly inputPrefix: string;
  readonly outputPrefix: string;
  readonly concurrency: number;
  /** Takes the reason why an object started no job. */
  readonly warn: (message: string) => void;
}

/** Settings for the objects of a folder and its subfolders. */
const DEFAULTS = '_job.json';

export function isS3Event(event: unknown): boolean {
  return S3_EVENT.safeParse(event).success;
}

/**
 * Starts a job for each object in an S3 event, with the settings of the nearest `_job.json` above it. S3 may send an
 * event more than once: it starts one job.
 *
 * These objects start no job:
 * - objects outside of the input prefix
 * - empty objects, such as folders that the console creates
 * - objects with a name, or a folder name, that begins with `_` or `.`
 */
export async function submitEvent(event: unknown, deps: SubmitDependencies): Promise<readonly Started[]> {
  const started: Started[] = [];
  for (const { s3 } of S3_EVENT.parse(event).Records) {
    // S3 encodes keys like a URL query: a space is a plus.
    const key = decodeURIComponent(s3.object.key.replaceAll('+', ' '));
    if (s3.bucket.name !== deps.bucket || s3.object.size === 0 || !startsByItself(key, deps)) continue;
    const { spec, concurrency: asked = deps.concurrency } = await settingsOf(key, deps).catch((error: unknown) => {
      deps.warn(messageOf(error));
      throw error;
    });
    const concurrency = Math.min(asked, deps.concurrency);
    const input = { bucket: deps.bucket, key, etag: `"${s3.object.eTag}"`, bytes: s3.object.size };
    const { outputPrefix } = deps;
    started.push(await startJob(input, { spec, outputPrefix, concurrency }, deps.executions));
  }
  return started;
}

/** Returns true if an object starts a job as soon as it is put. */
export function startsByItself(
  key: string,
  { inputPrefix, outputPrefix }: Pick<SubmitDependencies, 'inputPrefix' | 'outputPrefix'>,
): boolean {
  if (!key.startsWith(inputPrefix) || key.startsWith(outputPrefix) || key.endsWith('/')) return false;
  return !isHidden(key.slice(inputPrefix.length));
}

/** Returns the settings in the nearest `_job.json`. @throws Error naming the file if it is wrong */
export async function settingsOf(
  key: string,
  { storage, inputPrefix }: Pick<SubmitDependencies, 'storage' | 'inputPrefix'>,
): Promise<{ readonly spec: Spec; readonly concurrency?: number | undefined }> {
  for (let end = key.lastIndexOf('/'); end + 1 >= inputPrefix.length; end = key.lastIndexOf('/', end - 1)) {
    const where = `${key.slice(0, end + 1)}${DEFAULTS}`;
    const text = await storage.get(where);
    if (text === undefined) continue;
    try {
      return readSpec(text);
    } catch (cause) {
      throw new Error(`${where}: ${messageOf(cause)}`, { cause });
    }
  }
  return { spec: {} };
}

/** Returns true if a key is a prefix, which ends in `/`, or a glob. */
export function isListing(key: string): boolean {
  return key.endsWith('/') || key.includes('*');
}

/** Returns true if a file or a folder above it has a name that begins with `_` or `.`, such as `_SUCCESS`. */
function isHidden(path: string): boolean {
  return path.split('/').some((name) => /^[_.]/.test(name));
}

/** Maximum number of files of a job. Planning reads the header of each. */
export const MAX_FILES = 100_000;

/**
 * Lists the files under a prefix or a glob, in the order of their keys, without empty and hidden ones. In a glob, `*`
 * stands for any characters but `/`, and `**` for any. Paths begin after the last `/` before the first `*`.
 *
 * @throws JobError if there are none, or more than a job may have
 */
export async function listFiles(
  storage: Pick<JobStorage, 'list'>,
  { bucket, key }: Pick<JobInput, 'bucket' | 'key'>,
): Promise<readonly InputFile[]> {
  const [literal = ''] = key.split('*', 1);
  const base = literal.lastIndexOf('/') + 1;
  const pattern = patternOf(key);
  const files: InputFile[] = [];
  for await (const { key: found, etag, bytes } of storage.list(literal)) {
    const path = found.slice(base);
    if (bytes === 0 || found.endsWith('/') || isHidden(path) || !pattern.test(found)) continue;
    files.push({ bucket, key: found, etag, bytes, path });
    if (files.length <= MAX_FILES) continue;
    throw new JobError(
      'INVALID_JOB',
      `${key}: expected at most ${MAX_FILES} files in a job, got more; submit several jobs, or join the files`,
    );
  }
  if (files.length > 0) return files;
  throw new JobError(
    'INPUT_NOT_FOUND',
    `${key}: expected files that are not empty and whose names begin with neither _ nor '.', got none`,
  );
}

/** Returns a hash of keys and versions, in the form of an ETag. */
export function etagOf(files: readonly InputFile[]): string {
  const hash = createHash('sha256');
  for (const { key, etag, bytes } of files) hash.update(`${JSON.stringify([key, etag, bytes])}\n`);
  return `"${hash.digest('hex').slice(0, 32)}"`;
}

function patternOf(key: string): RegExp {
  if (!key.includes('*')) return /^/;
  const parts = key.split(/(\*\*\/|\*+)/).map((part) => {
    if (part === '**/') return '(?:.*/)?';
    if (part === '*') return '[^/]*';
    return part.startsWith('**') ? '.*' : part.replace(/[.+?^${}()|[\]\\]/g, '\\$&');
  });
  return new RegExp(`^${parts.join('')}$`, 's');
}

interface Executions {
  /**
   * Starts an execution.
   * @returns false if an execution of that name has ended, or was started with another input
   */
  start(name: string, input: JobStart): Promise<boolean>;
}

interface StartOptions {
  readonly spec: Spec;
  /** Parent of the job folders. It ends in `/`. */
  readonly outputPrefix: string;
  readonly concurrency: number;
  /** True to start a new job even if the same job was started before. @default false */
  readonly again?: boolean | undefined;
}

export interface Started {
  readonly start: JobStart;
  /**
   * False if the same job was started before for this object. True if that job is still running with the same input,
   * too: Step Functions does not distinguish it from a new one.
   */
  readonly isNew: boolean;
}

/**
 * Maximum size of the execution's input. Step Functions allows 256 KiB between states, and the plan and an error need
 * some of it.
 *
 * @see https://docs.aws.amazon.com/step-functions/latest/dg/service-quotas.html
 */
const MAX_START_BYTES = 200 * 1024;

/**
 * Starts the job of an object. Repeated calls with the same version and settings start one job, unless `again` is set.
 * @throws Error if the settings are too large
 */
export async function startJob(
  input: JobInput,
  { spec, outputPrefix, concurrency, again = false }: StartOptions,
  executions: Executions,
): Promise<Started> {
  const job = jobId(input, spec, again ? randomUUID() : undefined);
  const start: JobStart = { ...input, job, run: 1, folder: `${outputPrefix}${job}/`, concurrency, spec };
  const bytes = Buffer.byteLength(JSON.stringify(start));
  if (bytes > MAX_START_BYTES) {
    throw new Error(
      `job: expected settings of at most ${MAX_START_BYTES} bytes, got ${bytes}; ` +
        'name fewer or shorter columns, which take most of it',
    );
  }
  return { start, isNew: await executions.start(job, start) };
}

/**
 * Names a job by the object's version and the settings, so that repeated submissions are one job. The name is also that
 * of an execution, which Step Functions limits to 80 characters.
 *
 * @param again unique value of a job that scores the same object again
 * @returns 32 hexadecimal digits
 * @see https://docs.aws.amazon.com/step-functions/latest/apireference/API_StartExecution.html
 */
export function jobId({ bucket, key, etag }: Omit<JobInput, 'bytes'>, spec: Spec, again?: string): string {
  const { model, version, format, compression, inputs, keep, ...others } = spec;
  const columns = inputs === undefined ? undefined : Object.entries(inputs).toSorted(([a], [b]) => (a < b ? -1 : 1));
  const asked: unknown[] = [bucket, key, unquote(etag), model, version, format, compression, columns, keep];
  const { separator, missing, results } = others;
  if (Object.values(others).some((value) => value !== undefined)) asked.push({ separator, missing, results });
  const text = JSON.stringify(again === undefined ? asked : [...asked, again]);
  return createHash('sha256').update(text).digest('hex').slice(0, 32);
}

/** Removes quotes from an ETag: S3 quotes it in responses, but not in events. */
function unquote(etag: string): string {
  return etag.replace(/^"|"$/g, '');
}

const names = z.array(z.string().min(1)).min(1);

/** Content of `_job.json`: a spec and the concurrency. Columns may be ranges such as `p0..p63`. */
const SETTINGS = z.strictObject({
  model: z.string().min(1).optional(),
  version: z.string().min(1).optional(),
  format: z.enum(FORMATS).optional(),
  compression: z.enum(COMPRESSIONS).optional(),
  inputs: z.record(z.string().min(1), names).optional(),
  keep: names.optional(),
  separator: z
    .string()
    .refine(isSeparator, "expected one character, such as ';' or a tab, that is neither a quote nor a line break")
    .optional(),
  missing: z
    .string()
    .refine(
      (text) => parseCell(text) !== undefined,
      'expected the value of an empty cell: nan, a number, true or false',
    )
    .optional(),
  results: z.enum(FORMATS).optional(),
  concurrency: z.int().min(JOB_RANGES.concurrency.min).max(JOB_RANGES.concurrency.max).optional(),
});

/** Parses the text of a `_job.json`. @throws Error naming everything that is wrong */
export function readSpec(text: string): { readonly spec: Spec; readonly concurrency?: number | undefined } {
  const value: unknown = JSON.parse(text);
  const parsed = SETTINGS.safeParse(value, IN_OUR_WORDS);
  if (!parsed.success) {
    throw new Error(`expected the settings of a job: ${problemsIn(parsed.error.issues, value).join('; ')}`);
  }
  const { concurrency, inputs, keep, ...rest } = parsed.data;
  const spec = {
    ...rest,
    ...(inputs && {
      inputs: Object.fromEntries(Object.entries(inputs).map(([input, columns]) => [input, expandColumns(columns)])),
    }),
    ...(keep && { keep: keptColumns(keep) }),
  };
  return { spec, concurrency };
}
