import type { Span } from './cut.ts';

const NEWLINE = 10;
const CARRIAGE_RETURN = 13;

/** Bytes of an object, and where in it they begin. */
export interface Bytes {
  readonly at: number;
  readonly bytes: Uint8Array;
}

/**
 * The lines whose first byte lies in a span: so each line of an object belongs to one span, however it is cut. A line
 * begins where the object does or after a line break, so the byte before the span is looked at.
 *
 * @param source from the byte before the span, or from the object's first, until {@link endsWithin} it
 * @returns start and end of each line as places in the object, without its line break, \\n or \\r\\n
 */
export function* ownedLines(span: Span, { at, bytes }: Bytes): Generator<Span> {
  let start = firstLine(span, { at, bytes });
  while (start < span.end && start - at < bytes.length) {
    const found = bytes.indexOf(NEWLINE, start - at);
    const end = found < 0 ? bytes.length : found;
    const returns = end > start - at && bytes[end - 1] === CARRIAGE_RETURN;
    yield { start, end: at + end - (returns ? 1 : 0) };
    start = at + end + 1;
  }
}

/** Whether the last line that a span owns ends within the source. A span within one long line owns none. */
export function endsWithin(span: Span, source: Bytes): boolean {
  if (firstLine(span, source) >= span.end) return true;
  return source.bytes.indexOf(NEWLINE, span.end - 1 - source.at) >= 0;
}

/** Where the first line begins, in the span or after it. */
function firstLine({ start }: Span, { at, bytes }: Bytes): number {
  if (start === 0) return 0;
  const found = bytes.indexOf(NEWLINE, start - 1 - at);
  return found < 0 ? Number.POSITIVE_INFINITY : at + found + 1;
}
