import { createReadStream } from 'node:fs';
import { open, stat } from 'node:fs/promises';
import pLimit from 'p-limit';
import { hasCode, messageOf } from '../../lambda/core/failure.ts';
import { linesOf, namingFile, openOutput } from '../textFiles.ts';

/**
 * Reads every line of a file, if it exists, and opens it to append lines. It removes a last line that a crash cut
 * short, but only if all lines before it are valid and it begins like a valid line. Other files stay unchanged.
 *
 * @param beginnings valid beginnings of a line
 * @param read takes each complete line and throws for an invalid one
 * @throws Error naming the file and the invalid line
 */
export async function openLineFile(path: string, beginnings: readonly string[], read: (line: string) => void) {
  const size = await sizeOf(path);
  const wholeBytes = await readWholeLines(path, size, beginnings, read);
  const file = await openOutput(path, 'a');
  if (wholeBytes < size) await file.truncate(wholeBytes);
  const oneAtATime = pLimit(1);
  const append = (text: string): Promise<void> =>
    file.appendFile(text).catch((error: unknown) => Promise.reject(namingFile(path, error)));
  return { append: (text: string) => oneAtATime(() => append(text)), close: (): Promise<void> => file.close() };
}

/** @returns the number of bytes in complete lines */
async function readWholeLines(
  path: string,
  size: number,
  beginnings: readonly string[],
  read: (line: string) => void,
): Promise<number> {
  const { wholeBytes, tail } = await splitTail(path, size);
  let number = 1;
  if (wholeBytes > 0) {
    for await (const line of linesOf(createReadStream(path, { end: wholeBytes - 1 }))) {
      readWhole(line, number, path, read);
      number += 1;
    }
  }
  if (beginnings.some((beginning) => tail.startsWith(beginning) || beginning.startsWith(tail))) return wholeBytes;
  const expected = `expected a line that begins with ${beginnings.join(' or ')}`;
  throw new Error(`${path}: line ${number}: ${expected}; name another file`);
}

function readWhole(line: string, number: number, path: string, read: (line: string) => void): void {
  try {
    read(line);
  } catch (cause) {
    throw new Error(`${path}: line ${number}: ${messageOf(cause)}`, { cause });
  }
}

async function sizeOf(path: string): Promise<number> {
  try {
    const found = await stat(path);
    // If the path is not a file, opening it for writing fails with the reason.
    return found.isFile() ? found.size : 0;
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return 0;
    throw error;
  }
}

const NEWLINE = 10;
const BLOCK_BYTES = 65_536;

/**
 * Returns the end of the last complete line and the beginning of the text after it. The text has one character per
 * byte, because a crash can cut the line within a character.
 */
async function splitTail(path: string, size: number): Promise<{ wholeBytes: number; tail: string }> {
  if (size === 0) return { wholeBytes: 0, tail: '' };
  const file = await open(path);
  try {
    let tail = '';
    for (let end = size; end > 0; end -= BLOCK_BYTES) {
      const start = Math.max(0, end - BLOCK_BYTES);
      const { buffer } = await file.read(Buffer.alloc(end - start), 0, end - start, start);
      const newline = buffer.lastIndexOf(NEWLINE);
      tail = buffer.toString('latin1', newline + 1) + tail.slice(0, BLOCK_BYTES);
      if (newline >= 0) return { wholeBytes: start + newline + 1, tail };
    }
    return { wholeBytes: 0, tail };
  } finally {
    await file.close();
  }
}
