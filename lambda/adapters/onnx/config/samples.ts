import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { messageOf } from '../../../core/contract/failure.ts';
import type { Model } from '../../../core/contract/model.ts';
import { isRefused, type ScoringRequest } from '../../../core/contract/request.ts';
import { decodeRequest } from '../../../core/decode/decodeRequest.ts';
import { isNotThere } from './jsonFile.ts';

/** Real requests of a model, beside its versions: one a line, as producers send them. */
export const SAMPLES_FILE = 'samples.jsonl';

/** What is read of the file: enough for the checks at start. */
const MOST_SAMPLES = 16;

const LIMITS = { maxRequestRows: 10_000, maxRequestsPerMessage: 1 };

/**
 * The first requests in `samples.jsonl`, decoded as those of producers are; none where there is no such file.
 *
 * @throws Error naming the line that is no valid request of the model, and what is wrong with it
 */
export async function readSamples(folder: string, model: Model): Promise<ScoringRequest[]> {
  const path = join(folder, SAMPLES_FILE);
  const models = { find: () => model };
  const place = { path: 'body', record: 0, position: 0 };
  const samples: ScoringRequest[] = [];
  for (const [index, line] of (await firstLinesOf(path)).entries()) {
    const where = `${path}:${index + 1}`;
    const decoded = await decodeRequest(parse(line, where), place, { models, limits: LIMITS });
    if (isRefused(decoded)) throw new Error(`${where}: expected a request of the model: ${decoded.failure.message}`);
    samples.push(decoded);
  }
  return samples;
}

async function firstLinesOf(path: string): Promise<string[]> {
  const lines: string[] = [];
  try {
    const file = await open(path);
    for await (const line of file.readLines()) {
      lines.push(line);
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

function parse(line: string, where: string): unknown {
  try {
    return JSON.parse(line);
  } catch (cause) {
    throw new Error(`${where}: expected a request as JSON, got something else; fix the line or delete it`, { cause });
  }
}
