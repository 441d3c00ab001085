import { readFileSync } from 'node:fs';
import type { z } from 'zod';
import { hasCode } from '../../aws/awsError.ts';
import { messageOf } from '../../core/contract/failure.ts';
import { IN_OUR_WORDS, problemsIn } from '../../core/contract/wrongValue.ts';

const MOST_WRONG = 10;

/**
 * What a JSON file says; undefined where there is no file. Read at once, because a CDK app cannot wait: it is short.
 *
 * @param what the file should hold, such as `model configuration`
 * @throws Error naming the file and what is wrong in it, ten places at most, in one line
 */
export function readJsonIfThere<T>(path: string, schema: z.ZodType<T>, what: string): T | undefined {
  const text = readIfThere(path);
  if (text === undefined) return undefined;
  const value = parseJson(text, path);
  const parsed = schema.safeParse(value, IN_OUR_WORDS);
  if (parsed.success) return parsed.data;
  const wrong = problemsIn(parsed.error.issues, value);
  const more = wrong.length > MOST_WRONG ? `; and ${wrong.length - MOST_WRONG} more` : '';
  throw new Error(`${path}: not a valid ${what}: ${wrong.slice(0, MOST_WRONG).join('; ')}${more}`);
}

function readIfThere(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if (isNotThere(error)) return undefined;
    throw new Error(`${path}: expected a JSON file, got one that cannot be read: ${messageOf(error)}`, {
      cause: error,
    });
  }
}

export function isNotThere(error: unknown): boolean {
  return hasCode(error, 'ENOENT');
}

function parseJson(text: string, path: string): unknown {
  try {
    // Editors of Windows put it before UTF-8.
    return JSON.parse(text.replace(/^\uFEFF/, ''));
  } catch (cause) {
    throw new Error(`${path}: expected JSON, got something else; fix it or delete the file`, { cause });
  }
}
