import { join } from 'node:path';
import { z } from 'zod';
import { messageOf } from '../../../core/contract/failure.ts';
import type { Cost } from '../../../core/contract/model.ts';
import { tableCost } from '../../../core/plan/cost.ts';
import { readJsonIfThere } from './jsonFile.ts';

const size = z.int().min(1);

/** The part of `models/<name>/<version>/profile.json` that is read; everything else in it is for others. */
const schema = z.object({
  /** Every combination of some row counts and some lengths, and the milliseconds of a run. */
  runs: z.array(z.object({ rows: size, length: size, ms: z.number().positive() })).min(1),
});

/**
 * What a model's runs cost by its profile; undefined where it has none.
 *
 * @param folder the model's version folder
 * @throws Error naming the file and what is wrong with it
 */
export function readCost(folder: string): Cost | undefined {
  const path = join(folder, 'profile.json');
  const profile = readJsonIfThere(path, schema, 'profile');
  if (profile === undefined) return undefined;
  try {
    return tableCost(profile.runs);
  } catch (cause) {
    throw new Error(`${path}: ${messageOf(cause)}`, { cause });
  }
}
