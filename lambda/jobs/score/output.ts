import type { Failure } from '../../core/contract/failure.ts';

/** What was answered of a piece so far. */
export interface Output {
  readonly rows: number;
  readonly errors: Readonly<Record<string, number>>;
  readonly bytes: number;
  add(text: string, failures: readonly Failure[]): void;
  /** Takes in what an earlier call answered. */
  addPartial(partial: Partial): void;
  /** What was added since this was asked the last time, or since an earlier call's rows were taken in. */
  partial(): Partial;
  /** All rows as one object. */
  whole(): Uint8Array;
}

/** Rows of a piece that one call has answered: what a call that goes on with it begins with. */
export interface Partial {
  readonly rows: number;
  readonly errors: Readonly<Record<string, number>>;
  readonly lines: string;
}

export function createOutput(): Output {
  const chunks: Buffer[] = [];
  let pending = '';
  let bytes = 0;
  let own = { rows: 0, errors: {} as Record<string, number>, from: 0 };
  const all = { rows: 0, errors: {} as Record<string, number> };
  const flush = (): void => {
    if (pending === '') return;
    const chunk = Buffer.from(pending);
    chunks.push(chunk);
    bytes += chunk.length;
    pending = '';
  };
  return {
    get rows() {
      return all.rows;
    },
    get errors() {
      return all.errors;
    },
    get bytes() {
      flush();
      return bytes;
    },
    add(text, failures) {
      pending += `${text}\n`;
      all.rows += 1;
      own.rows += 1;
      for (const { code } of failures) {
        all.errors[code] = (all.errors[code] ?? 0) + 1;
        own.errors[code] = (own.errors[code] ?? 0) + 1;
      }
      if (pending.length > CHUNK_CHARACTERS) flush();
    },
    addPartial({ rows, errors, lines }) {
      pending += lines;
      flush();
      own = { rows: 0, errors: {}, from: chunks.length };
      all.rows += rows;
      for (const [code, count] of Object.entries(errors)) all.errors[code] = (all.errors[code] ?? 0) + count;
    },
    partial() {
      flush();
      const { rows, errors, from } = own;
      own = { rows: 0, errors: {}, from: chunks.length };
      return { rows, errors, lines: Buffer.concat(chunks.slice(from)).toString() };
    },
    whole() {
      flush();
      return chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks);
    },
  };
}

/** Text that is turned into bytes at a time. */
const CHUNK_CHARACTERS = 256 * 1024;
