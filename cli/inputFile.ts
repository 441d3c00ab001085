import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import { systemReason } from './fileErrors.ts';

/** A file of requests, a pipe, or stdin. */
export interface InputFile {
  readonly stream: Readable;
  /** Size of the whole; undefined for stdin and pipes. */
  readonly bytes: number | undefined;
  readonly bytesRead: () => number;
}

/**
 * @param path of the file, or `-` for stdin
 * @throws Error when there is no such file
 */
export async function inputFile(path: string): Promise<InputFile> {
  if (path === '-') return { stream: process.stdin, bytes: undefined, bytesRead: () => 0 };
  const found = await stat(path).catch((error: unknown) => systemReason(error) ?? String(error));
  if (typeof found === 'string' || !(found.isFile() || found.isFIFO())) {
    const got = typeof found === 'string' ? found : 'no file';
    throw new Error(`${path}: expected a file of requests, got: ${got}; check the path`);
  }
  const stream = createReadStream(path);
  // A pipe, such as that of a shell's <(command), has no size.
  return { stream, bytes: found.isFile() ? found.size : undefined, bytesRead: () => stream.bytesRead };
}
