import { z } from 'zod';
import { messageOf } from '../../core/failure.ts';
import type { JobStorage } from '../../core/job/storage.ts';
import type { Spec } from '../../core/job/words.ts';
import { readSpec } from './readSpec.ts';
import { type Executions, type Started, startJob } from './startJob.ts';

/** What an S3 event says of an object. @see https://docs.aws.amazon.com/AmazonS3/latest/userguide/notification-content-structure.html */
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
  /** Told what was not started, and why. */
  readonly warn: (message: string) => void;
}

/** Settings for the objects of a folder and of those below it. */
const DEFAULTS = '_job.json';

/** Whether an event is S3's. */
export function isS3Event(event: unknown): boolean {
  return S3_EVENT.safeParse(event).success;
}

/**
 * Starts a job for each object that S3 tells of, with the settings of the nearest `_job.json` above it. Objects outside of
 * the input prefix start none, nor do empty ones, such as folders of the console, and those whose name, or that of a
 * folder that they lie in, begins with `_` or `.`. S3 tells of an object once or more often: it is one job.
 */
export async function submitEvent(event: unknown, deps: SubmitDependencies): Promise<readonly Started[]> {
  const started: Started[] = [];
  for (const { s3 } of S3_EVENT.parse(event).Records) {
    // As in the query of a URL: a space is a plus.
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

/** Whether an object starts a job as soon as it is put. */
export function startsByItself(
  key: string,
  { inputPrefix, outputPrefix }: Pick<SubmitDependencies, 'inputPrefix' | 'outputPrefix'>,
): boolean {
  if (!key.startsWith(inputPrefix) || key.startsWith(outputPrefix) || key.endsWith('/')) return false;
  return !key
    .slice(inputPrefix.length)
    .split('/')
    .some((name) => /^[_.]/.test(name));
}

/** What the nearest `_job.json` says. @throws Error naming it when it is wrong */
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
