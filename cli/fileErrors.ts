import { type FileHandle, open } from 'node:fs/promises';
import { getSystemErrorMessage } from 'node:util';

/** What the system says of a file, such as `no such file or directory`; undefined where it is not the system's error. */
export function systemReason(error: unknown): string | undefined {
  if (!(error instanceof Error) || !('errno' in error) || typeof error.errno !== 'number') return undefined;
  return getSystemErrorMessage(error.errno);
}

/** @throws Error saying why the file cannot be written */
export async function openOutput(path: string, flags: 'a' | 'w'): Promise<FileHandle> {
  try {
    return await open(path, flags);
  } catch (cause) {
    const reason = systemReason(cause) ?? String(cause);
    throw new Error(`${path}: expected a file that can be written, got: ${reason}; check the path`, { cause });
  }
}
