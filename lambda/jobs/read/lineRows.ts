import { isUtf8 } from 'node:buffer';
import { type Failure, failure } from '../../core/failure.ts';
import { ownedLines } from '../../core/job/ownedLines.ts';
import type { PieceRow, PieceRows } from './pieceRows.ts';
import type { PieceBytes } from './textSource.ts';

/** What is decoded at a time, so that a step of long lines takes no more memory than one of short ones. */
const STEP_BYTES = 16 * 1024 * 1024;
const BYTE_ORDER_MARK = '\uFEFF';

/** What a line is: a request, or fields that make one. Gives what its row has besides the id. */
export type LineReader = (line: string) => Omit<PieceRow, 'id'>;

/** A line of JSON is a request as it is. */
export const requestOfLine: LineReader = (text) => ({ text });

/**
 * The rows of a piece of text: one to each line that is not blank. A row's id is where in the text its line begins, in
 * bytes: so it is the same however the text is cut.
 */
export function rowsOfLines({ span, source, isLast }: PieceBytes, mostLineBytes: number, read: LineReader): PieceRows {
  const bytes = Buffer.from(source.bytes.buffer, source.bytes.byteOffset, source.bytes.length);
  const lines = ownedLines(span, source);
  const rowOf = (start: number, end: number): PieceRow | undefined => {
    const id = String(start);
    if (end - start > mostLineBytes) return { id, text: '', failed: tooLong(mostLineBytes) };
    const line = bytes.subarray(start - source.at, end - source.at);
    if (!isUtf8(line)) return { id, text: '', failed: NOT_UTF8 };
    const text = line.toString('utf8');
    const own = start === 0 && text.startsWith(BYTE_ORDER_MARK) ? text.slice(1) : text;
    return own.trim() === '' ? undefined : { id, ...read(own) };
  };
  return {
    bytes: span.end - span.start,
    isLast,
    take(most) {
      const rows: PieceRow[] = [];
      let taken = 0;
      while (rows.length < most && (rows.length === 0 || taken < STEP_BYTES)) {
        const line = lines.next();
        if (line.done === true) break;
        const row = rowOf(line.value.start, line.value.end);
        if (row !== undefined) rows.push(row);
        taken += line.value.end - line.value.start;
      }
      return rows;
    },
  };
}

function tooLong(mostBytes: number): Failure {
  return failure(
    'PAYLOAD_TOO_LARGE',
    `line: expected at most ${mostBytes} bytes, got more; send several requests, or raise the function's memory`,
  );
}

const NOT_UTF8 = failure('INVALID_JSON', 'line: expected UTF-8, got other bytes; convert the file');
