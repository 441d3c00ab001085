import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import * as z from 'zod';
import { hasCode, preview } from '../../lambda/core/failure.ts';
import { parseIfJson } from '../../lambda/core/json.ts';
import { CONFIG_FILE, isVersion } from '../../lambda/core/places.ts';
import { deployedFiles } from '../../lambda/onnx/findModels.ts';
import { readModelConfig } from '../../lambda/onnx/modelConfig.ts';
import { modelDigest } from '../../lambda/onnx/weights.ts';
import { UsageError } from '../arguments.ts';
import { notePath, unfinishedPath } from '../textFiles.ts';

/* The note that a stopped run leaves. `--resume` reads it. */

const SUMMARY = z.object({
  lines: z.number(),
  /** Lines whose requests were all scored. */
  scored: z.number(),
  errors: z.record(z.string(), z.number()),
  /** First error of each code, with its line or row. */
  reasons: z.record(z.string(), z.object({ line: z.string(), error: z.string() })),
  microBatches: z.number(),
  rows: z.number(),
});
export type OfflineSummary = z.infer<typeof SUMMARY>;

/** Arguments and options that determine the results. */
export type Origin = Readonly<Record<string, string>>;

const STOPPED_RUN = z.object({
  of: z.record(z.string(), z.string()),
  /** Bytes of results at the unfinished path. */
  bytes: z.number(),
  summary: SUMMARY,
});
export type StoppedRun = Readonly<z.infer<typeof STOPPED_RUN>>;

/** Returns digests of a model and its settings. */
export async function originOfModel(file: string, folder: string): Promise<Origin> {
  return { MODEL: await modelDigest(file), 'config.json and its transform': settingsDigest(folder) };
}

const CODE = /\.([cm]?[jt]s|json)$/;

/** Returns a digest of a model's config.json and, if that names another file, of the code and JSON beside it. */
function settingsDigest(folder: string): string {
  const { transform, tokenizer } = readModelConfig(folder);
  const isRead = (file: string): boolean => {
    const [first = ''] = file.split('/');
    return CODE.test(file) && !isVersion(first) && first !== 'node_modules';
  };
  const config = existsSync(join(folder, CONFIG_FILE)) ? [CONFIG_FILE] : [];
  const files =
    transform === undefined && tokenizer === undefined ? config : deployedFiles(folder).filter(isRead).toSorted();
  const sha256 = createHash('sha256');
  for (const file of files) {
    const content = readFileSync(join(folder, file));
    sha256.update(`${file}\0${content.length}\0`).update(content);
  }
  return `sha256:${sha256.digest('hex')}`;
}

/** Writes the note about the unfinished results of `out`, so that another run can continue them. */
export async function noteStop(out: string, of: Origin, summary: OfflineSummary): Promise<void> {
  const { size: bytes } = await stat(await unfinishedPath(out));
  await writeFile(await notePath(out), `${JSON.stringify({ of, bytes, summary } satisfies StoppedRun)}\n`);
}

/**
 * Reads the note of a stopped run.
 *
 * @param of arguments and options of this run
 * @returns undefined if there are no results of an earlier run
 * @throws UsageError if the results belong to other arguments or options, or Error if they are missing
 */
export async function readStoppedRun(out: string, of: Origin): Promise<StoppedRun | undefined> {
  const [part, note] = [await unfinishedPath(out), await notePath(out)];
  const text = await readFile(note, 'utf8').catch((error: unknown) => {
    if (hasCode(error, 'ENOENT')) return undefined;
    throw error;
  });
  const size = (await stat(part).catch(() => undefined))?.size ?? 0;
  if (text === undefined && size > 0) {
    throw new UsageError(
      `--resume: expected ${note} beside ${part}, which Ctrl-C and SIGTERM leave, got none, because the run was killed; ` +
        'leave --resume out to score from the first row',
    );
  }
  if (text === undefined) return undefined;
  const { data: run } = STOPPED_RUN.safeParse(parseIfJson(text));
  if (run === undefined || size < run.bytes) {
    throw new Error(
      `--resume: expected ${part} as the run left it that was stopped, got another file; leave --resume out to score from the first row`,
    );
  }
  const other = Object.keys({ ...run.of, ...of }).find((name) => run.of[name] !== of[name]);
  if (other === undefined) return run;
  throw new UsageError(
    `${other}: expected ${quoted(run.of[other])}, of which the results in ${part} are, got ${quoted(of[other])}; ` +
      'give the same, or leave --resume out to score from the first row',
  );
}

function quoted(value: string | undefined): string {
  return value === undefined ? 'none' : preview(value);
}
