import { readFile } from 'node:fs/promises';
import { messageOf } from '../../../core/contract/failure.ts';

/**
 * The value of a JSON file; undefined where there is no file.
 *
 * @throws Error naming the file
 */
export async function readJsonIfThere(path: string): Promise<{ readonly value: unknown } | undefined> {
  const text = await readIfThere(path);
  return text === undefined ? undefined : { value: parseJson(text, path) };
}

async function readIfThere(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    if (isNotThere(error)) return undefined;
    throw new Error(`${path}: expected a JSON file, got one that cannot be read: ${messageOf(error)}`, {
      cause: error,
    });
  }
}

export function isNotThere(error: unknown): boolean {
  return typeof error === 'object' && error !== null && 'code' in error && error.code === 'ENOENT';
}

function parseJson(text: string, path: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new Error(`${path}: expected JSON, got something else; fix it or delete the file`, { cause });
  }
}
