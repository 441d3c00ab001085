import { hash } from 'node:crypto';
import { z } from 'zod';

/** One file of a published model repository. */
export interface ModelFile {
  /** From the repository's folder, with slashes: `digits/1/model.onnx`. */
  readonly path: string;
  readonly bytes: number;
  /** SHA-256 of each {@link PART_BYTES}, in order; of an empty file, of nothing. In hexadecimal. */
  readonly parts: readonly string[];
}

/**
 * What is put at a time, compared at a time, and asked for at a time: S3 is at its fastest with ranges of 8 to 16 MB that
 * begin where parts do.
 *
 * @see https://docs.aws.amazon.com/AmazonS3/latest/userguide/optimizing-performance-design-patterns.html
 */
export const PART_BYTES = 8 * 1024 * 1024;

/** The largest manifest that is read: some 40,000 files, or parts of a terabyte. */
export const MAX_MANIFEST_BYTES = 8 * 1024 * 1024;

/** Bytes of a file, of which the last is the one before `end`. */
export interface Part {
  readonly start: number;
  readonly end: number;
}

/** The places of a file's parts: one of an empty file, too. */
export function partsOf(bytes: number): Part[] {
  return Array.from({ length: partCount(bytes) }, (_, index) => ({
    start: index * PART_BYTES,
    end: Math.min(bytes, (index + 1) * PART_BYTES),
  }));
}

function partCount(bytes: number): number {
  return Math.max(1, Math.ceil(bytes / PART_BYTES));
}

export function manifestKey(folder: string): string {
  return `${folder}/manifest.json`;
}

export function fileKey(folder: string, path: string): string {
  return `${folder}/models/${path}`;
}

/** The digest of a published repository is that of its manifest, which holds those of its files' parts. */
export function digestOf(manifest: string | Uint8Array): string {
  return hash('sha256', manifest);
}

/** The same files give the same text. */
export function writeManifest(files: readonly ModelFile[]): string {
  const sorted = files.toSorted((a, b) => (a.path < b.path ? -1 : 1));
  const content = sorted.map(({ path, bytes, parts }) => ({ path, bytes, parts }));
  return `${JSON.stringify({ format: 1, partBytes: PART_BYTES, files: content }, null, 1)}\n`;
}

/** A step of a path that leads nowhere else, and that every tool can write. */
const SAFE_STEP = /^(?!\.{1,2}$)[^/\\\p{Cc}]+$/u;

/** Whether a path stays in the folder that it is joined to. */
export function isSafePath(path: string): boolean {
  return path.split('/').every((step) => SAFE_STEP.test(step));
}

const MANIFEST = z.strictObject({
  format: z.literal(1),
  partBytes: z.literal(PART_BYTES),
  files: z
    .array(
      z
        .strictObject({
          path: z
            .string()
            .refine(isSafePath, 'expected a path below the models, without . or .. or control characters'),
          bytes: z.number().int().min(0),
          parts: z.array(z.string().regex(/^[0-9a-f]{64}$/)),
        })
        .refine(({ bytes, parts }) => parts.length === partCount(bytes), 'expected a checksum of each part'),
    )
    .min(1)
    .refine(areApart, 'expected each path once, and none below a file'),
});

/** Two files of one path would be written over each other. */
function areApart(files: readonly ModelFile[]): boolean {
  const paths = new Set(files.map(({ path }) => path));
  return paths.size === files.length && files.every(({ path }) => !foldersOf(path).some((folder) => paths.has(folder)));
}

/** `a/b/c` → `a`, `a/b` */
function foldersOf(path: string): string[] {
  const steps = path.split('/');
  return steps.slice(1).map((_, index) => steps.slice(0, index + 1).join('/'));
}

/** @throws Error saying what is wrong with it */
export function readManifest(text: string): readonly ModelFile[] {
  const parsed = MANIFEST.safeParse(JSON.parse(text));
  if (parsed.success) return parsed.data.files;
  const [issue] = parsed.error.issues;
  throw new Error(`${issue?.path.join('.') || 'manifest'}: ${issue?.message}`);
}
