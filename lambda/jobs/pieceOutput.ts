import type { Failure } from '../core/failure.ts';

import { dataKey, parseObject } from './jobObjects.ts';
import { ANSWERED, type JobStorage } from './jobTypes.ts';

/** The results of one piece on their way into data objects. At most two objects of them are in memory. */
export interface Output {
  /** Rows that have their results, here or in objects. */
  readonly rows: number;
  /** Whether what was added comes to an object: it is to be put before more is added. */
  readonly isFull: boolean;
  /**
   * Whether another call has put rows that this one was about to put: an object is put once, so this one is to end, and
   * the next goes on behind whatever lies there.
   */
  readonly isOvertaken: boolean;
  add(text: string, failures: readonly Failure[]): void;
  /** Begins to put what was added, as soon as what was added before it is put. */
  put(): Promise<void>;
  /** Puts what is left. @returns all that stands then */
  finish(): Promise<Checkpoint>;
}

interface OutputOptions {
  readonly storage: JobStorage;
  readonly place: Place;
  /** What calls before have put. */
  readonly checkpoint: Checkpoint;
  /** Bytes that an object has at the most, unless one row has more. */
  readonly objectBytes: number;
}

export function createOutput({ storage, place, checkpoint: before, objectBytes }: OutputOptions): Output {
  const gathered = createGathered();
  let begunRows = before.rows;
  let checkpoint = before;
  let isOvertaken = false;
  let putting: Promise<void> = Promise.resolve();
  const putObject = async (object: Gathered): Promise<void> => {
    const { rows, errors, body } = object;
    const key = dataKey(place.folder, place.part, place.piece, checkpoint.rows);
    if (!(await storage.putNew(key, body, JSON.stringify({ rows, errors })))) isOvertaken = true;
    else checkpoint = sumOf(checkpoint, { rows, errors, bytes: body.length, objects: 1 });
  };
  const put = async (): Promise<void> => {
    await putting;
    if (gathered.rows() === 0 || isOvertaken) return;
    const object = gathered.take();
    begunRows += object.rows;
    putting = putObject(object);
    // What it rejects with is met where it is awaited.
    putting.catch(() => {});
  };
  return {
    get rows() {
      return begunRows + gathered.rows();
    },
    get isFull() {
      return gathered.size() >= objectBytes;
    },
    get isOvertaken() {
      return isOvertaken;
    },
    add: gathered.add,
    put,
    async finish() {
      await put();
      await putting;
      return checkpoint;
    },
  };
}

interface Gathered {
  readonly rows: number;
  readonly errors: Readonly<Record<string, number>>;
  readonly body: Uint8Array;
}

/** Text that is turned into bytes at a time. */
const CHUNK_CHARACTERS = 256 * 1024;

function createGathered() {
  let chunks: Buffer[] = [];
  let pending = '';
  let bytes = 0;
  let rows = 0;
  let errors: Record<string, number> = {};
  const flush = (): void => {
    const chunk = Buffer.from(pending);
    chunks.push(chunk);
    bytes += chunk.length;
    pending = '';
  };
  return {
    rows: () => rows,
    /** About as many bytes as there are: no more. */
    size: () => bytes + pending.length,
    add(text: string, failures: readonly Failure[]): void {
      pending += `${text}\n`;
      rows += 1;
      for (const { code } of failures) errors[code] = (errors[code] ?? 0) + 1;
      if (pending.length > CHUNK_CHARACTERS) flush();
    },
    /** All of it; nothing is left. */
    take(): Gathered {
      flush();
      const taken = { rows, errors, body: Buffer.concat(chunks, bytes) };
      chunks = [];
      bytes = 0;
      rows = 0;
      errors = {};
      return taken;
    },
  };
}

/** Which piece of which job. */
export interface Place {
  readonly folder: string;
  readonly part: number;
  readonly piece: number;
}

/** Results of a piece that lie in data objects: of its first row and those that follow it. */
export interface Checkpoint {
  readonly rows: number;
  /** Error results by code. */
  readonly errors: Readonly<Record<string, number>>;
  readonly bytes: number;
  readonly objects: number;
}

export const NOTHING: Checkpoint = { rows: 0, errors: {}, bytes: 0, objects: 0 };

/**
 * What calls before this one have put of a piece. An object's key says which row it begins with, and what is said about
 * it how many it has: so they follow each other, whichever calls have put them.
 */
export async function readCheckpoint(storage: JobStorage, { folder, part, piece }: Place): Promise<Checkpoint> {
  for (let checkpoint = NOTHING; ; ) {
    const key = dataKey(folder, part, piece, checkpoint.rows);
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
