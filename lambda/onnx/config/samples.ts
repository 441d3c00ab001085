import { createReadStream } from 'node:fs';
import { join } from 'node:path';
import { messageOf } from '../../core/failure.ts';
import type { Model } from '../../core/model.ts';
import { decodeRequest } from '../../core/request.ts';
import { isRefused, type ScoringRequest } from '../../core/scoringRequest.ts';
import { isNotThere } from './jsonFile.ts';

/** Real requests of a model, beside its versions: one a line, as producers send them. */
export const SAMPLES_FILE = 'samples.jsonl';

/** What is read of the file: enough for the checks at start. */
const MOST_SAMPLES = 16;

const LIMITS = { maxRequestRows: 10_000, maxRequestsPerMessage: 1 };

/** The first lines of a model's samples, with where each stands. */
export interface SampleLines {
  readonly path: string;
  readonly lines: readonly Line[];
}

/** The first lines of `samples.jsonl`; none where there is no such file. Blank ones are left out, and a byte order mark. */
export async function readSampleLines(folder: string): Promise<SampleLines> {
  const path = join(folder, SAMPLES_FILE);
  return { path, lines: await firstLinesOf(path) };
}

/**
 * Samples, decoded as the requests of producers are.
 *
 * @throws Error naming the line that is no valid request of the model, and what is wrong with it
 */
export async function decodeSamples({ path, lines }: SampleLines, model: Model): Promise<ScoringRequest[]> {
  const models = { find: () => model };
  const place = { path: 'body', record: 0, position: 0 };
  const samples: ScoringRequest[] = [];
  for (const { line, number } of lines) {
    const where = `${path}:${number}`;
    const decoded = await decodeRequest(parse(line, where), place, { models, limits: LIMITS });
    if (isRefused(decoded)) throw new Error(`${where}: expected a request of the model: ${decoded.failure.message}`);
    samples.push(decoded);
  }
  return samples;
}

/** A line that is not blank, and its number, from 1. */
interface Line {
  readonly line: string;
  readonly number: number;
}

async function firstLinesOf(path: string): Promise<Line[]> {
  const lines: Line[] = [];
  let number = 0;
  try {
    for await (const text of linesOf(path)) {
      number += 1;
      // A byte order mark and \r are white space too.
      const line = text.trim();
      if (line !== '') lines.push({ line, number });
      if (lines.length === MOST_SAMPLES) break;
    }
  } catch (error) {
    if (isNotThere(error)) return [];
    throw new Error(`${path}: expected lines of JSON, got a file that cannot be read: ${messageOf(error)}`, {
      cause: error,
    });
  }
  return lines;
}

/** Only \n ends a line: Node's own reader also takes the separators U+2028 and U+2029, which JSON may hold. */
async function* linesOf(path: string): AsyncGenerator<string> {
  let rest = '';
  for await (const chunk of createReadStream(path, 'utf8')) {
    const lines = `${rest}${chunk}`.split('\n');
    rest = lines.pop() ?? '';
    yield* lines;
  }
  yield rest;
}

function parse(line: string, where: string): unknown {
  try {
    return JSON.parse(line);
  } catch (cause) {
    throw new Error(`${where}: expected a request as JSON, got something else; fix the line or delete it`, { cause });
  }
}
