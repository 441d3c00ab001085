import type { Stats } from 'node:fs';
import { type FileHandle, open, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { getSystemErrorMessage } from 'node:util';
import { hasCode } from '../lambda/aws/awsError.ts';
import { UsageError } from './arguments.ts';

/** What the system says of a file, such as `no such file or directory`; undefined where it is not the system's error. */
export function systemReason(error: unknown): string | undefined {
  if (hasCode(error, 'EISDIR')) return 'a folder';
  if (!(error instanceof Error) || !('errno' in error) || typeof error.errno !== 'number') return undefined;
  return getSystemErrorMessage(error.errno);
}

/** @throws Error saying why the file cannot be written */
export async function openOutput(path: string, flags: 'a' | 'w'): Promise<FileHandle> {
  try {
    return await open(path, flags);
  } catch (cause) {
    if (hasCode(cause, 'ENOENT')) throw noFolder(path, cause);
    const reason = systemReason(cause) ?? String(cause);
    throw notWritable(path, reason, cause);
  }
}

/**
 * Checks before long work that a file can lie where it is asked for.
 *
 * @throws Error naming the folder that is not there
 */
export async function refuseMissingFolder(path: string): Promise<void> {
  await stat(dirname(path)).catch((cause) => {
    if (hasCode(cause, 'ENOENT')) throw noFolder(path, cause);
  });
}

/** Checks before long work that what is asked for is no folder. @throws Error naming it */
export async function refuseFolder(path: string): Promise<void> {
  const there = await stat(path).catch(() => undefined);
  if (there?.isDirectory()) throw notWritable(path, 'a folder');
}

function notWritable(path: string, got: string, cause?: unknown): Error {
  return new Error(`${path}: expected a file that can be written, got: ${got}; name another file`, { cause });
}

/**
 * Checks before anything is written that no file is lost by it, whatever name or link leads there.
 *
 * @param option that names the file
 * @param read the files that are read, or will be
 * @throws UsageError where `path` is one of them
 */
export async function refuseOverwriting(option: string, path: string, read: readonly string[]): Promise<void> {
  const written = await fileAt(path);
  if (written === undefined) return;
  for (const file of await Promise.all(read.map(fileAt))) {
    if (file?.ino !== written.ino || file.dev !== written.dev) continue;
    throw new UsageError(`${option}: expected another file than those that are read, got ${path}`);
  }
}

async function fileAt(path: string): Promise<Stats | undefined> {
  const found = await stat(path).catch(() => undefined);
  return found?.isFile() ? found : undefined;
}

function noFolder(path: string, cause: unknown): Error {
  return new Error(`${path}: expected a folder for it, got none at ${dirname(path)}; make that folder`, { cause });
}
