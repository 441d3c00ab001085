import { type FileHandle, open } from 'node:fs/promises';
import { dirname } from 'node:path';
import { getSystemErrorMessage } from 'node:util';
import { hasCode } from '../lambda/adapters/hasCode.ts';

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
    if (hasCode(cause, 'ENOENT')) {
      throw new Error(`${path}: expected a folder for it, got none at ${dirname(path)}; make that folder`, { cause });
    }
    const reason = systemReason(cause) ?? String(cause);
    throw new Error(`${path}: expected a file that can be written, got: ${reason}; name another file`, { cause });
  }
}
