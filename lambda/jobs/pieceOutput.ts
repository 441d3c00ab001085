import type { JobStorage } from './jobFiles.ts';
import { dataKey, type Place, parseObject } from './jobObjects.ts';
import { ANSWERED, type Reasons } from './jobTypes.ts';
import type { ResultFile } from './resultFiles.ts';
import type { Results } from './results.ts';

/** Results of one piece on their way into data objects. At most two objects are in memory. */
export interface Output {
  readonly rows: number;
  /** Bytes of added results that are not put yet. */
  readonly bytes: number;
  /** True if another call has put the same rows. This call must end, and the next call continues after them. */
  readonly isOvertaken: boolean;
  /** Adds results. An object that is full is put, after the previous one. @returns the size of the results */
  add(results: Results): Promise<number>;
  /** Puts the remaining results. @returns all results of the piece */
  finish(): Promise<Checkpoint>;
}

interface OutputOptions {
  readonly storage: JobStorage;
  readonly place: Place;
  /** Results that earlier calls have put. */
  readonly checkpoint: Checkpoint;
  /** Maximum size of an object, unless one row is larger. */
  readonly objectBytes: number;
  /** Opens the content of an object. */
  readonly open: () => Promise<ResultFile>;
}

export async function createOutput({
  storage,
  place,
  checkpoint: before,
  objectBytes,
  open,
}: OutputOptions): Promise<Output> {
  let added = newObject(await open());
  let begunRows = before.rows;
  let checkpoint = before;
  let isOvertaken = false;
  let putting: Promise<void> = Promise.resolve();
  const putObject = async ({ rows, errors, reasons, chunks, bytes }: Contents): Promise<void> => {
    const key = dataKey(place, checkpoint.rows);
    const about = aboutOf(rows, errors, reasons);
    if (await storage.putNew(key, Buffer.concat(chunks, bytes), about)) {
      checkpoint = sumOf(checkpoint, { rows, errors, bytes, objects: 1 });
    } else isOvertaken = true;
  };
  const put = async (): Promise<void> => {
    await putting;
    if (added.rows === 0 || isOvertaken) return;
    addChunks(added, [added.file.end()]);
    begunRows += added.rows;
    putting = putObject(added);
    // The rejection is handled where the promise is awaited.
    putting.catch(() => {});
    added = newObject(await open());
  };
  return {
    get rows() {
      return begunRows + added.rows;
    },
    get bytes() {
      return added.bytes + added.file.size;
    },
    get isOvertaken() {
      return isOvertaken;
    },
    async add(results) {
      let size = 0;
      for (let row = 0; row < results.count && !isOvertaken; ) {
        const { file, bytes } = added;
        const next = file.add(results, row, () => bytes + file.size >= objectBytes);
        countFailures(added, results, row, next);
        size += file.size;
        addChunks(added, file.take());
        row = next;
        if (added.bytes + file.size >= objectBytes || next < results.count) await put();
      }
      return size;
    },
    async finish() {
      await put();
      await putting;
      return checkpoint;
    },
  };
}

interface Contents {
  readonly file: ResultFile;
  readonly chunks: Uint8Array[];
  readonly errors: Record<string, number>;
  readonly reasons: Record<string, Reasons[string]>;
  rows: number;
  bytes: number;
}

function newObject(file: ResultFile): Contents {
  const contents: Contents = { file, chunks: [], errors: {}, reasons: {}, rows: 0, bytes: 0 };
  addChunks(contents, [file.head]);
  return contents;
}

function addChunks(contents: Contents, chunks: readonly (string | Uint8Array)[]): void {
  for (const chunk of chunks) {
    const bytes = typeof chunk === 'string' ? Buffer.from(chunk) : chunk;
    contents.chunks.push(bytes);
    contents.bytes += bytes.length;
  }
}

function countFailures(contents: Contents, { rows, single }: Results, from: number, to: number): void {
  const { errors, reasons } = contents;
  contents.rows += to - from;
  for (let row = from; row < to; row++) {
    for (const { code, message } of single[row]?.failures ?? []) {
      errors[code] = (errors[code] ?? 0) + 1;
      reasons[code] ??= { message_id: rows.idOf(row), error: message };
    }
  }
}

/** @see https://docs.aws.amazon.com/AmazonS3/latest/userguide/UsingMetadata.html: 2 KB, with the name */
const MAX_ABOUT = 2_000;
const MAX_ERROR = 500;

/** Writes the metadata of a data object in ASCII: rows, errors, and the first errors if there is room. */
function aboutOf(rows: number, errors: Contents['errors'], reasons: Reasons): string {
  let about = JSON.stringify({ rows, errors });
  const told: Record<string, Reasons[string]> = {};
  for (const [code, { message_id, error }] of Object.entries(reasons)) {
    told[code] = { message_id, error: error.slice(0, MAX_ERROR) };
    const more = toAscii(JSON.stringify({ rows, errors, reasons: told }));
    if (more.length > MAX_ABOUT) return about;
    about = more;
  }
  return about;
}

function toAscii(json: string): string {
  return json.replace(/[\u007f-\uffff]/g, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

/** Results of a piece's first rows, in data objects. */
export interface Checkpoint {
  readonly rows: number;
  /** Number of error results by code. */
  readonly errors: Readonly<Record<string, number>>;
  readonly bytes: number;
  readonly objects: number;
}

export const NOTHING: Checkpoint = { rows: 0, errors: {}, bytes: 0, objects: 0 };

/**
 * Finds the results of a piece that earlier calls have put. Each object's key has its first row, and its metadata the
 * number of rows, so objects of different calls form one sequence.
 */
export async function readCheckpoint(storage: JobStorage, place: Place): Promise<Checkpoint> {
  for (let checkpoint = NOTHING; ; ) {
    const key = dataKey(place, checkpoint.rows);
    const there = await storage.look(key);
    if (there === undefined) return checkpoint;
    const { rows, errors } = parseObject(ANSWERED, there.about, key);
    checkpoint = sumOf(checkpoint, { rows, errors, bytes: there.bytes, objects: 1 });
  }
}

export function sumOf(one: Checkpoint, other: Checkpoint): Checkpoint {
  const errors = { ...one.errors };
  for (const [code, count] of Object.entries(other.errors)) errors[code] = (errors[code] ?? 0) + count;
  return {
    rows: one.rows + other.rows,
    errors,
    bytes: one.bytes + other.bytes,
    objects: one.objects + other.objects,
  };
}
