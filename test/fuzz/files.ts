import { readFileSync } from 'node:fs';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import type { Random } from '../../bench/workload/random.ts';
import { ERROR_CODES } from '../../lambda/core/failure.ts';
import type { Tensor } from '../../lambda/core/tensor.ts';
import { JobError } from '../../lambda/jobs/jobTypes.ts';
import { jobOf, planOf, runJob } from '../helpers/jobs.ts';
import { inMemoryModel, lineModel, repositoryOf, spec } from '../helpers/scoring.ts';
import { mutateBytes, mutated, mutateText, pick, rarely } from './mutate.ts';
import type { Target } from './target.ts';

const LINE = repositoryOf(lineModel());
const ECHO = repositoryOf(
  inMemoryModel(
    {
      inputs: [
        spec('f64', 'FP64', 'n'),
        spec('i64', 'INT64', 'n'),
        spec('flag', 'BOOL', 'n'),
        spec('text', 'BYTES', 'n'),
      ],
      outputs: [spec('a', 'FP64', 'n'), spec('b', 'INT64', 'n'), spec('c', 'BOOL', 'n'), spec('d', 'BYTES', 'n')],
    },
    (inputs) => inputs.map((one, index) => ({ ...one, name: 'abcd'[index] ?? '', data: one.data.slice() }) as Tensor),
  ),
);
const NAMES = ['none', 'snappy', 'gzip', 'zstd', 'brotli', 'nulls', 'nulls-v2'];
const PARQUET = NAMES.map((name) =>
  readFileSync(new URL(`../unit/jobs/parquet/${name}.parquet`, import.meta.url)).toString('latin1'),
);

/** By format: the first line of a file, one like those after it, and a sound one, which is answered with 15. */
const TEXTS: Readonly<Record<string, readonly [first: string, row: (random: Random) => string, sound: string]>> = {
  csv: [
    'name,x,other',
    (random) => `"a ""b"", c",${random.below(100) / 8},${pick(random, ['', 'nan', '-1e3', '"1"', '0x1'])}`,
    'sound,7,',
  ],
  jsonl: [
    '{"id":"first","inputs":[{"name":"x","datatype":"FP32","shape":[1,1],"data":[0]}]}',
    (random) =>
      `{"id":"i","${pick(random, ['instances":[[1]]', 'inputs":[{"name":"x","datatype":"FP32","shape":[1,1],"data":[0.5]}]'])}}`,
    '{"id":"sound","instances":[[7]]}',
  ],
  'plain jsonl': [
    '{"name":"first","x":0}',
    (random) => `{"x":${random.below(9)},"y":[1,{"z":null}]}`,
    '{"name":"sound","x":7}',
  ],
};
const ENDINGS: Readonly<Record<string, (text: Buffer) => Buffer>> = {
  '': (text) => text,
  '.gz': gzipSync,
  '.zst': zstdCompressSync,
};

/** A file: its key, what is asked of it, and its bytes, one to a character. */
function textFile(format: string, random: Random): string {
  const [first, row, sound] = TEXTS[
    format === 'jsonl' && rarely(random, 2) ? 'plain jsonl' : format
  ] as (typeof TEXTS)[string];
  const lines = Array.from({ length: 1 + random.below(8) }, () => row(random));
  const content = Buffer.from(mutated(lines.join('\n'), random, mutateText)).toString('latin1');
  const ending = rarely(random, 3) ? pick(random, Object.keys(ENDINGS)) : '';
  const keep = sound.startsWith('{"id"') ? {} : { keep: ['name'] };
  const asked = JSON.stringify({ ...keep, ...(rarely(random, 4) && { missing: 'nan' }) });
  if (ending === '')
    return `in/rows.${format}\n${asked}\n${[first, sound, mutated(content, random, mutateBytes), sound].join('\n')}`;
  const packed = (ENDINGS[ending] as (typeof ENDINGS)[string])(Buffer.from(`${first}\n${content}`, 'latin1'));
  return `in/rows.${format}${ending}\n${asked}\n${mutated(packed.toString('latin1'), random, mutateBytes)}`;
}

/**
 * What a plan is made of is in the footer, the last part of a file. What lies before it is hyparquet's to decode, which
 * trusts it: see docs/security.md.
 */
function parquetFile(random: Random): string {
  const file = pick(random, PARQUET);
  const at = file.length - 3_000;
  return `in/rows.parquet\n{"keep":["id"]}\n${file.slice(0, at)}${mutated(file.slice(at), random, mutateBytes)}`;
}

/** Files as jobs read them, from the plan to the last row; of Parquet the plan. */
export async function openFiles(format: string): Promise<Target> {
  const answers: Record<string, number> = {};
  const count = (answer: string): void => {
    answers[answer] = (answers[answer] ?? 0) + 1;
  };
  const isOfLines = format !== 'parquet';
  return {
    answers,
    headLines: 2,
    make: (random) => (isOfLines ? textFile(format, random) : parquetFile(random)),
    async check(inputs) {
      const found: (string | undefined)[] = [];
      for (const input of inputs) {
        const [key = '', asked = '', ...rest] = input.split('\n');
        const job = jobOf(key, Buffer.from(rest.join('\n'), 'latin1'), {
          models: isOfLines ? LINE : ECHO,
          spec: JSON.parse(asked),
          ...(isOfLines ? { partBytes: 400, pieceBytes: 150 } : { partBytes: 16 * 2 ** 20, pieceBytes: 2 ** 20 }),
        });
        found.push(
          await (isOfLines ? runJob(job) : planOf(job).then(() => [])).then(
            (rows) =>
              rows.map((row) => wrongRow(row, count)).find((problem) => problem !== undefined) ?? lost(rows, key, rest),
            (error: unknown) => {
              count(error instanceof JobError ? error.name : 'thrown');
              return error instanceof JobError ? undefined : `it threw ${error instanceof Error ? error.stack : error}`;
            },
          ),
        );
      }
      return found;
    },
  };
}

function wrongRow(row: Record<string, unknown>, count: (answer: string) => void): string | undefined {
  const { code, error, message_id, outputs, predictions } = row;
  count(code === undefined ? 'scores' : String(code));
  const isScore = outputs !== undefined || predictions !== undefined;
  const isError =
    typeof error === 'string' && typeof code === 'string' && Object.hasOwn(ERROR_CODES, code) && code !== 'INTERNAL';
  return isScore !== isError && typeof message_id === 'string'
    ? undefined
    : `expected scores or an error, got ${JSON.stringify(row)}`;
}

/** The sound lines have their answers, whatever lies between them. */
function lost(rows: readonly Record<string, unknown>[], key: string, lines: readonly string[]): string | undefined {
  if (!/\.(csv|jsonl)$/.test(key)) return undefined;
  const expected = lines.filter((line) => line.includes('sound')).length;
  const answered = rows.filter((row) => {
    const { id, kept, outputs, predictions } = row as { id?: string; kept?: { name?: string } } & typeof row;
    return (id === 'sound' || kept?.name === 'sound') && /\b15\b/.test(JSON.stringify([outputs, predictions]));
  }).length;
  return answered === expected
    ? undefined
    : `${answered} of ${expected} sound lines were answered with 15: ${JSON.stringify(rows)}`;
}
