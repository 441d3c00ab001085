import { readFileSync } from 'node:fs';
import { brotliCompressSync, gzipSync, zstdCompressSync } from 'node:zlib';
import type { FileMetaData, SchemaElement } from 'hyparquet';
import type { Random } from '../../bench/workload/random.ts';
import { ERROR_CODES } from '../../lambda/core/failure.ts';
import type { Tensor } from '../../lambda/core/tensor.ts';
import { JobError } from '../../lambda/jobs/jobFiles.ts';
import { jobOf, runJob } from '../helpers/jobs.ts';
import {
  dataPage,
  dictionaryPage,
  type FileColumn,
  parquetFile,
  plainTexts,
  run,
  varint,
  withFooter,
} from '../helpers/parquetFile.ts';
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

/** A sound file with some bytes of its footer, or of its pages, changed, or with whole lies; or one page by page. */
function parquetOf(random: Random): string {
  const file = pick(random, PARQUET);
  const kind = random.below(4);
  if (kind === 0) return `in/built.parquet\n{"keep":["y"],"missing":"0"}\n${builtFile(random).toString('latin1')}`;
  if (kind === 1) {
    const lied = withFooter(Buffer.from(file, 'latin1'), (footer) => {
      for (let lies = 1 + random.below(3); lies > 0; lies--) lieAbout(footer, random);
    });
    return `in/rows.parquet\n{"keep":["id"]}\n${lied.toString('latin1')}`;
  }
  const at = kind === 2 ? file.length - 3_000 : 0;
  return `in/rows.parquet\n{"keep":["id","text"]}\n${file.slice(0, at)}${mutated(file.slice(at), random, mutateBytes)}`;
}

const COUNTS = [0, 1, 2, 3, 60, 127, 128, 4_096, 1_000_000, 2 ** 31 - 1, 2 ** 31, 2 ** 40, 2 ** 53 - 1, 2 ** 62];
const CODECS = ['UNCOMPRESSED', 'SNAPPY', 'GZIP', 'ZSTD', 'BROTLI', 'LZ4_RAW'] as const;
const TYPES = ['BOOLEAN', 'INT32', 'INT64', 'INT96', 'FLOAT', 'DOUBLE', 'BYTE_ARRAY', 'FIXED_LEN_BYTE_ARRAY'] as const;
const MEANINGS: readonly Partial<SchemaElement>[] = [
  ...([
    { converted_type: 'DECIMAL', scale: 3, precision: 9 },
    { converted_type: 'DATE' },
    { converted_type: 'TIME_MILLIS' },
  ] as const),
  ...([
    { converted_type: 'UTF8' },
    { converted_type: 'JSON' },
    { converted_type: 'UINT_32' },
    { converted_type: 'INTERVAL' },
  ] as const),
  ...([
    { logical_type: { type: 'TIMESTAMP', unit: 'NANOS', isAdjustedToUTC: true } },
    { logical_type: { type: 'NULL' } },
  ] as const),
  ...([
    { logical_type: { type: 'FLOAT16' } },
    { logical_type: { type: 'UUID' } },
    { logical_type: { type: 'DATE' } },
  ] as const),
  ...([{ logical_type: { type: 'DECIMAL', scale: 2 ** 31 - 1, precision: -1 } }, {}] as const),
];

/** One count, place, size, type or name of a footer is another. */
function lieAbout(footer: FileMetaData, random: Random): void {
  const group = pick(random, footer.row_groups);
  const chunk = Object(pick(random, group.columns).meta_data);
  for (const { columns } of footer.row_groups) for (const { meta_data } of columns) delete Object(meta_data).statistics;
  const count = BigInt(pick(random, COUNTS));
  const lies: (() => unknown)[] = [
    () => (footer.num_rows = count),
    () => (group.num_rows = count),
    () => {
      footer.num_rows += count - group.num_rows;
      group.num_rows = count;
      for (const { meta_data } of group.columns) Object(meta_data).num_values = count;
    },
    () => (chunk.num_values = count),
    () => (chunk.total_compressed_size = count),
    () => (chunk.total_uncompressed_size = count),
    () => (chunk.data_page_offset = count),
    () => (chunk.dictionary_page_offset = count),
    () => (chunk.data_page_offset += BigInt(random.below(9)) - 4n),
    () => (chunk.codec = pick(random, CODECS)),
    () => Object.assign(pick(random, footer.schema.slice(1)), { type: pick(random, TYPES) }),
    () => Object.assign(pick(random, footer.schema.slice(1)), pick(random, MEANINGS)),
    () =>
      Object.assign(pick(random, footer.schema.slice(1)), {
        repetition_type: pick(random, ['REQUIRED', 'OPTIONAL', 'REPEATED']),
      }),
    () => Object.assign(pick(random, footer.schema.slice(1)), { type_length: Number(count % 2n ** 31n) }),
    () => group.columns.splice(random.below(group.columns.length), 1),
    () => footer.row_groups.push(group),
    () => (chunk.data_page_offset = pick(random, group.columns).meta_data?.data_page_offset),
  ];
  pick(random, lies)();
}

/** Pages that say what they like of what they hold. */
function builtFile(random: Random): Buffer {
  const rows = pick(random, [1, 3, 60, 1_000]);
  const column = (name: string): FileColumn => {
    const type = pick(random, TYPES);
    const codec = pick(random, CODECS);
    const pages = Array.from({ length: 1 + random.below(3) }, () => builtPage(rows, codec, random));
    const repetition_type = pick(random, ['REQUIRED', 'OPTIONAL'] as const);
    return { name, type, codec, type_length: random.below(20), repetition_type, pages, ...pick(random, MEANINGS) };
  };
  return parquetFile(rows, [
    rarely(random, 2) ? column('x') : { name: 'x', pages: [dataPage(rows, Buffer.alloc(4 * rows))] },
    column('y'),
  ]);
}

function builtPage(rows: number, codec: string, random: Random): Buffer {
  const number = () => (rarely(random, 3) ? Number(BigInt(pick(random, COUNTS)) % 2n ** 31n) : rows);
  const parts: readonly (() => Buffer)[] = [
    () => Buffer.from(Array.from({ length: random.below(64) }, () => random.below(256))),
    () => Buffer.alloc(random.below(9 * rows), random.below(3)),
    () => run(number(), random.below(3)),
    () => Buffer.concat([plainTexts([run(number(), 1)]), Buffer.alloc(4 * rows, random.below(2))]),
    () =>
      Buffer.concat(
        [pick(random, [128, 256, 0, 7]), pick(random, [4, 1, 0, 300]), number(), number(), number()].map(varint),
      ),
    () => plainTexts(Array.from({ length: random.below(rows + 1) }, (_, row) => `${row}`)),
    () => Buffer.concat([Buffer.from([random.below(40)]), run(number(), random.below(9))]),
  ];
  const body = Buffer.concat(Array.from({ length: 1 + random.below(3) }, () => pick(random, parts)()));
  const packed = rarely(random, 8) ? body : pack(codec, body);
  const inflated = rarely(random, 4) ? number() : body.length;
  if (rarely(random, 3)) return dictionaryPage(number(), packed, { inflated });
  return dataPage(number(), packed, { inflated, encoding: random.below(10) });
}

function pack(codec: string, body: Buffer): Buffer {
  switch (codec) {
    case 'GZIP':
      return gzipSync(body);
    case 'ZSTD':
      return zstdCompressSync(body);
    case 'BROTLI':
      return brotliCompressSync(body);
    default:
      return body;
  }
}

/** Files as jobs read them, from the plan to the last row. */
export async function openFiles(format: string): Promise<Target> {
  const answers: Record<string, number> = {};
  const count = (answer: string): void => {
    answers[answer] = (answers[answer] ?? 0) + 1;
  };
  const isOfLines = format !== 'parquet';
  return {
    answers,
    headLines: 2,
    make: (random) => (isOfLines ? textFile(format, random) : parquetOf(random)),
    async check(inputs) {
      const found: (string | undefined)[] = [];
      for (const input of inputs) {
        const [key = '', asked = '', ...rest] = input.split('\n');
        const job = jobOf(key, Buffer.from(rest.join('\n'), 'latin1'), {
          models: key === 'in/rows.parquet' ? ECHO : LINE,
          spec: JSON.parse(asked),
          ...(isOfLines ? { partBytes: 400, pieceBytes: 150 } : { partBytes: 16 * 2 ** 20, pieceBytes: 2 ** 20 }),
        });
        found.push(
          await runJob(job).then(
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
