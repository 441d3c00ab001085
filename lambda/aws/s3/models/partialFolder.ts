import { appendFile, mkdir, readdir, readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { threadId } from 'node:worker_threads';
import { hasCode } from '../../hasCode.ts';

/** A folder that is being filled: it gets its name once it is whole. */
export interface PartialFolder {
  /** Where files are written. */
  readonly path: string;
  /** What {@link note} was told of, by this process or by one before it that was cut off. */
  readonly noted: ReadonlySet<string>;
  /** Remembers a piece that is written. */
  note(piece: string): Promise<void>;
  /** Gives it its name. Where another thread was faster, that one's folder stays. */
  complete(): Promise<void>;
}

/**
 * Begins a folder, or goes on with what a process left that was ended before it was done: Lambda ends a start that takes
 * more than 10 s, starts anew in the same environment, and keeps its files.
 *
 * @see https://docs.aws.amazon.com/lambda/latest/dg/lambda-runtime-environment.html
 */
export async function openPartialFolder(directory: string, name: string): Promise<PartialFolder> {
  const own = join(directory, `${name}.part-${process.pid}-${threadId}`);
  const [files, notes] = [join(own, 'files'), join(own, 'notes')];
  await mkdir(directory, { recursive: true });
  await takeOver(directory, name, own);
  await mkdir(files, { recursive: true });
  return {
    path: files,
    noted: new Set((await readFile(notes, 'utf8').catch(() => '')).split('\n')),
    note: (piece) => appendFile(notes, `${piece}\n`),
    async complete() {
      await rename(files, join(directory, name)).catch(unlessThere);
      await rm(own, { recursive: true });
    },
  };
}

/** Of several, one is taken over and the others make room. */
async function takeOver(directory: string, name: string, own: string): Promise<void> {
  const prefix = `${name}.part-`;
  const others = (await readdir(directory)).filter((entry) => entry.startsWith(prefix));
  for (const left of others.filter((entry) => !isRunning(Number.parseInt(entry.slice(prefix.length), 10)))) {
    await rename(join(directory, left), own).catch(() => rm(join(directory, left), { recursive: true, force: true }));
  }
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    // Another user's process is one, too.
    return hasCode(error, 'EPERM');
  }
}

function unlessThere(error: unknown): void {
  if (!hasCode(error, 'ENOTEMPTY', 'EEXIST')) throw error;
}
