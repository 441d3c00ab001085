import type { Failure } from '../../core/failure.ts';
import { dataKey } from '../../core/job/keys.ts';
import type { JobStorage } from '../../core/job/storage.ts';
import { type Place, type Standing, sumOf } from './standing.ts';

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
  finish(): Promise<Standing>;
}

export interface OutputOptions {
  readonly storage: JobStorage;
  readonly place: Place;
  /** What calls before have put. */
  readonly standing: Standing;
  /** Bytes that an object has at the most, unless one row has more. */
  readonly objectBytes: number;
}

export function createOutput({ storage, place, standing: before, objectBytes }: OutputOptions): Output {
  const gathered = createGathered();
  let begunRows = before.rows;
  let standing = before;
  let isOvertaken = false;
  let putting: Promise<void> = Promise.resolve();
  const putObject = async (object: Gathered): Promise<void> => {
    const { rows, errors, body } = object;
    const key = dataKey(place.folder, place.part, place.piece, standing.rows);
    if (!(await storage.putNew(key, body, JSON.stringify({ rows, errors })))) isOvertaken = true;
    else standing = sumOf(standing, { rows, errors, bytes: body.length, objects: 1 });
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
      return standing;
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
