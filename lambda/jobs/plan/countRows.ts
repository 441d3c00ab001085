import { formatOf, KNOWN_ENDINGS } from '../../core/job/format.ts';
import type { JobStorage } from '../../core/job/storage.ts';
import { JobError, type JobInput, type Spec } from '../../core/job/words.ts';
import { startOfCompressed } from '../read/compressedSource.ts';
import { readFooter } from '../read/parquet/parquetFile.ts';

/** How many rows an object has, about, and how many bytes of text those are. */
export interface Count {
  readonly rows: number;
  readonly textBytes: number;
}

const SAMPLE_BYTES = 1024 * 1024;
/** What text shrinks to, where nothing is known: a tenth. */
const SHRINKS_TO = 0.1;
const NEWLINE = 10;

/** Of lines it counts those of the first MiB and takes the rest for the same; Parquet says how many rows it has. */
export async function countRows(storage: JobStorage, input: JobInput, spec: Spec): Promise<Count> {
  const lies = formatOf(input.key, spec);
  if (lies === undefined)
    throw new JobError('INVALID_JOB', `${input.key}: expected a key that ends in ${KNOWN_ENDINGS}`);
  if (lies.format === 'parquet') {
    const footer = await readFooter(storage, input);
    const bytes = footer.row_groups.reduce((sum, { total_byte_size }) => sum + Number(total_byte_size), 0);
    return { rows: Number(footer.num_rows), textBytes: bytes };
  }
  if (input.bytes === 0) return { rows: 0, textBytes: 0 };
  const isPlain = lies.compression === 'none';
  const sample = isPlain
    ? await storage.readRange(input, { start: 0, end: Math.min(SAMPLE_BYTES, input.bytes) })
    : await startOfCompressed(storage, { ...input, compression: lies.compression }, SAMPLE_BYTES);
  const lines = sample.reduce((count, byte) => count + (byte === NEWLINE ? 1 : 0), 0);
  const isAll = isPlain ? sample.length === input.bytes : sample.length < SAMPLE_BYTES;
  const textBytes = isPlain ? input.bytes : isAll ? sample.length : Math.round(input.bytes / SHRINKS_TO);
  return { rows: Math.round((Math.max(1, lines) / sample.length) * textBytes), textBytes };
}
