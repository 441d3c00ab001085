import { readFile, rm, stat, writeFile } from 'node:fs/promises';
import * as z from 'zod';
import { hasCode, preview } from '../../lambda/core/failure.ts';
import { parseIfJson } from '../../lambda/core/json.ts';
import { UsageError } from '../arguments.ts';
import { unfinishedPath } from '../textFiles.ts';

/** Counts of the rows that are scored. */
const SUMMARY = z.object({
  lines: z.number(),
  /** Lines all of whose requests were scored. */
  scored: z.number(),
  /** Error results by code. */
  errors: z.record(z.string(), z.number()),
  /** The first error of each code, and the line, or the row, that it is of. */
  reasons: z.record(z.string(), z.object({ line: z.string(), error: z.string() })),
  microBatches: z.number(),
  rows: z.number(),
});
export type OfflineSummary = z.infer<typeof SUMMARY>;

/** What results are of, by the argument or option that says it. */
export type Origin = Readonly<Record<string, string>>;

const STOPPED_RUN = z.object({
  of: z.record(z.string(), z.string()),
  /** Bytes of results at the unfinished path. */
  bytes: z.number(),
  summary: SUMMARY,
});
export type StoppedRun = Readonly<z.infer<typeof STOPPED_RUN>>;

/** Returns where it is noted what the unfinished results of `out` are of. */
export async function notePath(out: string): Promise<string> {
  return `${await unfinishedPath(out)}.json`;
}

/** Notes what the unfinished results of `out` are of, so that another run can go on with them. */
export async function noteStop(out: string, of: Origin, summary: OfflineSummary): Promise<void> {
  const { size: bytes } = await stat(await unfinishedPath(out));
  await writeFile(await notePath(out), `${JSON.stringify({ of, bytes, summary } satisfies StoppedRun)}\n`);
}

export async function removeNote(out: string): Promise<void> {
  await rm(await notePath(out), { force: true });
}

/**
 * Reads the note of a run that was stopped.
 *
 * @param of what the results are to be of
 * @returns undefined if there is none
 * @throws UsageError if its results are of something else; Error if they are not there
 */
export async function stoppedRun(out: string, of: Origin): Promise<StoppedRun | undefined> {
  const [part, note] = [await unfinishedPath(out), await notePath(out)];
  const text = await readFile(note, 'utf8').catch((error: unknown) => {
    if (hasCode(error, 'ENOENT')) return undefined;
    throw error;
  });
  if (text === undefined) return undefined;
  const { data: run } = STOPPED_RUN.safeParse(parseIfJson(text));
  const size = (await stat(part).catch(() => undefined))?.size ?? 0;
  if (run === undefined || size < run.bytes) {
    throw new Error(
      `--resume: expected ${part} as the run left it that was stopped, got another file; leave --resume out to score from the first row`,
    );
  }
  const other = Object.keys({ ...run.of, ...of }).find((name) => run.of[name] !== of[name]);
  if (other === undefined) return run;
  throw new UsageError(
    `${other}: expected ${shown(run.of[other])}, of which the results in ${part} are, got ${shown(of[other])}; ` +
      'give the same, or leave --resume out to score from the first row',
  );
}

function shown(value: string | undefined): string {
  return value === undefined ? 'none' : preview(value);
}
