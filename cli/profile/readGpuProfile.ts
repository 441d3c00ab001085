import { readFile } from 'node:fs/promises';
import { z } from 'zod';
import { messageOf } from '../../lambda/core/failure.ts';
import { IN_OUR_WORDS, problemsIn } from '../../lambda/core/wrongValue.ts';
import { UsageError } from '../arguments.ts';
import { systemReason } from '../fileErrors.ts';
import type { GpuProfile } from './settings/forms.ts';

const size = z.int().min(1);
/** What `batchscore profile MODEL --providers cuda --json` prints, as far as it is needed. */
const PROFILE = z.object({
  table: z
    .array(
      z.object({
        rows: size,
        length: size,
        threads: size,
        medianMs: z.number().positive(),
        rowsPerSecond: z.number().positive(),
        peakRssBytes: z.number().min(0),
      }),
    )
    .min(1),
});

/**
 * What was measured on an instance with a GPU.
 *
 * @param option `TYPE=FILE`, such as `g5.xlarge=g5.json`
 * @param types instance types with a price
 * @throws UsageError for another form, Error for a file that is no profile
 */
export async function readGpuProfile(option: string, types: readonly string[]): Promise<GpuProfile> {
  const [instanceType = '', ...rest] = option.split('=');
  const file = rest.join('=');
  if (file === '' || !types.includes(instanceType)) {
    throw new UsageError(`--gpu-profile: expected TYPE=FILE with a type among ${types.join(', ')}, got '${option}'`);
  }
  try {
    const value: unknown = JSON.parse(await readFile(file, 'utf8'));
    const { data, error } = PROFILE.safeParse(value, IN_OUR_WORDS);
    if (data !== undefined) return { instanceType, ...data };
    throw new Error(problemsIn(error.issues, value).join('; '));
  } catch (cause) {
    const reason = systemReason(cause) ?? (cause instanceof SyntaxError ? 'no JSON' : messageOf(cause));
    throw new Error(
      `${file}: expected what batchscore profile MODEL --json printed on ${instanceType}, got: ${reason}; print it anew`,
      { cause },
    );
  }
}
