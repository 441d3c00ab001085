import { z } from 'zod';
import { expandColumns } from '../../core/job/columns.ts';
import { COMPRESSIONS, FORMATS, type Spec } from '../../core/job/words.ts';
import { IN_OUR_WORDS, problemsIn } from '../../core/wrongValue.ts';

const names = z.array(z.string().min(1)).min(1);

/** What `_job.json` may say: a spec, whose columns may be ranges such as `p0..p63`, and the calls at a time. */
const SETTINGS = z.strictObject({
  model: z.string().min(1).optional(),
  version: z.string().min(1).optional(),
  format: z.enum(FORMATS).optional(),
  compression: z.enum(COMPRESSIONS).optional(),
  inputs: z.record(z.string().min(1), names).optional(),
  keep: names.optional(),
  concurrency: z.int().min(1).max(10_000).optional(),
});

/** @throws Error naming everything that is wrong */
export function readSpec(text: string): { readonly spec: Spec; readonly concurrency?: number | undefined } {
  const value: unknown = JSON.parse(text);
  const parsed = SETTINGS.safeParse(value, IN_OUR_WORDS);
  if (!parsed.success) {
    throw new Error(`expected the settings of a job: ${problemsIn(parsed.error.issues, value).join('; ')}`);
  }
  const { concurrency, inputs, keep, ...rest } = parsed.data;
  const spec = {
    ...rest,
    ...(inputs && {
      inputs: Object.fromEntries(Object.entries(inputs).map(([input, columns]) => [input, expandColumns(columns)])),
    }),
    ...(keep && { keep: expandColumns(keep) }),
  };
  return { spec, concurrency };
}
