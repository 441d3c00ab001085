import type { Failure } from '../core/failure.ts';
import { dataKey, type Place, parseObject } from './jobObjects.ts';
import { ANSWERED, type JobStorage } from './jobTypes.ts';

/** Results of one piece on their way into data objects. At most two objects of them are in memory. */
export interface Output {
  readonly rows: number;
  /** True if the added results fill an object: put it before you add more. */
  readonly isFull: boolean;
  /** Bytes of added results that are not put yet. */
  readonly bytes: number;
  /** True if another call has put the same rows. This call must end, and the next call continues after them. */
  readonly isOvertaken: boolean;
  add(text: string, failures: readonly Failure[]): void;
  /** Starts to put the added results, after the previous ones. */
  put(): Promise<void>;
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
}

/** Text to encode at a time. */
const CHUNK_CHARACTERS = 256 * 1024;

export function createOutput({ storage, place, checkpoint: before, objectBytes }: OutputOptions): Output {
  let added = { rows: 0, errors: {} as Record<string, number>, chunks: [] as Buffer[], bytes: 0 };
  let pending = '';
  let begunRows = before.rows;
  let checkpoint = before;
  let isOvertaken = false;
  let putting: Promise<void> = Promise.resolve();
  const flush = (): void => {
    const chunk = Buffer.from(pending);
    added.chunks.push(chunk);
    added.bytes += chunk.length;
    pending = '';
  };
  const putObject = async ({ rows, errors, chunks, bytes }: typeof added): Promise<void> => {
    const key = dataKey(place, checkpoint.rows);
    if (!(await storage.putNew(key, Buffer.concat(chunks, bytes), JSON.stringify({ rows, errors }))))
      isOvertaken = true;
    else checkpoint = sumOf(checkpoint, { rows, errors, bytes, objects: 1 });
  };
  const put = async (): Promise<void> => {
    await putting;
    if (added.rows === 0 || isOvertaken) return;
    flush();
    begunRows += added.rows;
    putting = putObject(added);
    // The rejection is handled where the promise is awaited.
    putting.catch(() => {});
    added = { rows: 0, errors: {}, chunks: [], bytes: 0 };
  };
  return {
    get rows() {
      return begunRows + added.rows;
    },
    get isFull() {
      return added.bytes + pending.length >= objectBytes;
    },
    get bytes() {
      return added.bytes + pending.length;
    },
    get isOvertaken() {
      return isOvertaken;
    },
    add(text, failures) {
      pending += `${text}\n`;
      added.rows += 1;
      for (const { code } of failures) added.errors[code] = (added.errors[code] ?? 0) + 1;
      if (pending.length > CHUNK_CHARACTERS) flush();
    },
    put,
    async finish() {
      await put();
      await putting;
      return checkpoint;
    },
  };
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
