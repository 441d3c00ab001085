import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { messageOf } from '../../core/failure.ts';

const rows = z.int().min(1).max(65_536);

/** What `models/<name>/config.json` may say. Everything is optional, unknown keys are errors. */
const schema = z.strictObject({
  /** Most rows in one run of this model. @default the deployment's BATCHSCORE_MAX_BATCH_ROWS */
  maxBatchRows: rows.optional(),
  /** The row counts the model may be run at; a micro-batch is padded up to one of them. @default any */
  ladder: z
    .array(rows)
    .min(1)
    .refine((rungs) => new Set(rungs).size === rungs.length, 'expected each rung once')
    .optional(),
  /** ONNX Runtime execution providers, first choice first. @default the deployment's BATCHSCORE_PROVIDERS */
  providers: z.array(z.string()).min(1).optional(),
  /** Passed to ONNX Runtime as they are. @see https://onnxruntime.ai/docs/api/js/interfaces/InferenceSession.SessionOptions.html */
  sessionOptions: z
    .record(z.string(), z.unknown())
    .refine((options) => !('executionProviders' in options), 'use the key "providers" instead of executionProviders')
    .optional(),
  /** Whether to run every rung once at start; or the size of each symbolic axis in that run. @default true, sizes 1 */
  warmup: z.union([z.boolean(), z.record(z.string(), z.int().min(1))]).optional(),
  /** The model's own code before and after it: a module beside config.json, such as "transform.ts". */
  transform: z
    .string()
    .regex(/^[\w.-]+\.(ts|js|mjs)$/, 'expected the name of a .ts, .js or .mjs file beside config.json')
    .optional(),
});

export type ModelConfig = z.infer<typeof schema>;

/**
 * The settings in a model's folder, or none where it has no config.json.
 *
 * @throws Error naming the file and every wrong key
 */
export async function readModelConfig(folder: string): Promise<ModelConfig> {
  const path = join(folder, 'config.json');
  const text = await readIfThere(path);
  if (text === undefined) return {};
  const parsed = schema.safeParse(parseJson(text, path));
  if (!parsed.success) throw new Error(`${path}: not a valid model configuration\n${z.prettifyError(parsed.error)}`);
  return parsed.data;
}

async function readIfThere(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    if (isNotThere(error)) return undefined;
    throw new Error(`${path}: expected a JSON file, it cannot be read: ${messageOf(error)}`, { cause: error });
  }
}

function isNotThere(error: unknown): boolean {
  return typeof error === 'object' && error !== null && 'code' in error && error.code === 'ENOENT';
}

function parseJson(text: string, path: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new Error(`${path}: expected JSON, got something else; fix it or delete the file`, { cause });
  }
}
