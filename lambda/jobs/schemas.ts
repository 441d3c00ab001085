import { z } from 'zod';
import {
  COMPRESSIONS,
  type FailedPiece,
  FORMATS,
  type JobHead,
  type JobStart,
  type Part,
  type Report,
} from '../core/job/words.ts';
import { DATATYPES, type Datatype } from '../core/tensor.ts';
import { IN_OUR_WORDS, problemsIn } from '../core/wrongValue.ts';

/*
 * What calls read that others have written, perhaps of another version of the deployment: keys that are not known are
 * left out, and what lacks one that is needed is refused.
 */

const names = z.array(z.string());
const count = z.int().min(0);
const counts = z.record(z.string(), count);
const input = { bucket: z.string(), key: z.string(), etag: z.string(), bytes: count };
const datatypes = z.string().refine((name): name is Datatype => Object.hasOwn(DATATYPES, name));

const SPEC = z.object({
  model: z.string().optional(),
  version: z.string().optional(),
  format: z.enum(FORMATS).optional(),
  compression: z.enum(COMPRESSIONS).optional(),
  inputs: z.record(z.string(), names).optional(),
  keep: names.optional(),
});

export const JOB_START = z.object({
  ...input,
  job: z.string(),
  run: count,
  folder: z.string(),
  concurrency: count,
  spec: SPEC,
}) satisfies z.ZodType<JobStart>;

export const JOB_HEAD = z.object({
  ...input,
  job: z.string(),
  model: z.string(),
  version: z.string(),
  format: z.enum(FORMATS),
  compression: z.enum(COMPRESSIONS),
  partBytes: z.int().min(1),
  pieceBytes: z.int().min(1),
  parts: count,
  pieces: count.optional(),
  columns: names.optional(),
  inputs: z
    .array(z.object({ input: z.string(), datatype: datatypes, shape: z.array(count), columns: names }))
    .optional(),
  keep: names,
  plannedAt: z.string(),
}) satisfies z.ZodType<JobHead>;

export const PART = z.object({
  part: count,
  start: count,
  end: count.optional(),
  rows: z.array(z.object({ group: count, from: count, to: count })).optional(),
  only: z.array(count).optional(),
  except: z.array(count).optional(),
  suspect: z.literal(true).optional(),
}) satisfies z.ZodType<Part>;

export const REPORT = z.object({
  part: count,
  piece: count,
  rows: count,
  errors: counts,
  bytesIn: count,
  bytesOut: count,
  objects: count,
  ms: z.number(),
  last: z.literal(true).optional(),
}) satisfies z.ZodType<Report>;

export const FAILED_PIECE = z.object({
  part: count,
  piece: count,
  code: z.string(),
  error: z.string(),
  rows: count.optional(),
}) satisfies z.ZodType<FailedPiece>;

/** What is said about a data object. */
export const ANSWERED = z.object({ rows: z.int().min(1), errors: counts });

/** Of a manifest what is asked for. */
export const MANIFEST = z.object({
  rows: count,
  errors: counts,
  failedParts: z.array(FAILED_PIECE),
  data: z.object({ objects: count }),
});

export const FAILURE = z.object({ code: z.string(), message: z.string() });

/**
 * What an object of a job holds.
 *
 * @param what its key
 * @throws Error when it is not as this version writes it
 */
export function parseObject<T>(schema: z.ZodType<T>, text: string, what: string): T {
  const value = jsonIn(text);
  const parsed = schema.safeParse(value, IN_OUR_WORDS);
  if (parsed.success) return parsed.data;
  throw new Error(
    `${what}: expected what this version writes, got another (${problemsIn(parsed.error.issues, value).join('; ')}); ` +
      'go on with the version of the deployment that wrote it, or submit the job anew',
  );
}

/** Undefined when it is no JSON. */
function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
