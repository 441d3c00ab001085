import { createHash, type Hash } from 'node:crypto';
import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { externalFiles } from './externalData.ts';

const CHUNK_BYTES = 4 * 1024 * 1024;

/**
 * The SHA-256 of a model: of the `.onnx` file, followed by the files that it keeps weights in, by their names. Done at
 * once, because a CDK app cannot wait; a gigabyte takes about a second.
 *
 * @param path of a whole ONNX model
 * @returns `sha256:` and 64 digits
 * @throws Error of the system when a file cannot be read
 */
export function modelDigest(path: string): string {
  const hash = createHash('sha256');
  const beside = [...addFile(hash, path, true)].toSorted();
  for (const location of beside) addFile(hash, resolve(dirname(path), location), false);
  return `sha256:${hash.digest('hex')}`;
}

/** @returns the files that it names, where it is a model */
function addFile(hash: Hash, path: string, isModel: boolean): Iterable<string> {
  const file = openSync(path, 'r');
  try {
    const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
    for (let bytes = -1; bytes !== 0; ) {
      bytes = readSync(file, chunk);
      hash.update(chunk.subarray(0, bytes));
    }
    return isModel ? externalFiles(file, fstatSync(file).size).keys() : [];
  } finally {
    closeSync(file);
  }
}
