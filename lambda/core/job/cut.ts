import type { Part } from './words.ts';

/** A range of bytes, from `start` until before `end`. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

/**
 * Cuts `bytes` into parts, in order and without gaps. Where there are no rows there is one part, which is empty: a plan
 * has a line.
 *
 * @param start of the first, where something comes before the rows
 */
export function partsOf(bytes: number, partBytes: number, start = 0): Part[] {
  const parts: Part[] = [];
  for (let at = start; at < bytes; at += partBytes) {
    parts.push({ part: parts.length, start: at, end: Math.min(at + partBytes, bytes) });
  }
  return parts.length > 0 ? parts : [{ part: 0, start, end: Math.max(start, bytes) }];
}

/** How many pieces the bytes from `start` until before `end` are cut into. */
export function pieceCount({ start, end }: Span, pieceBytes: number): number {
  return Math.ceil((end - start) / pieceBytes);
}

/** The bytes of one piece of a part. */
export function pieceSpan({ start, end }: Span, pieceBytes: number, piece: number): Span {
  const from = start + piece * pieceBytes;
  return { start: from, end: Math.min(from + pieceBytes, end) };
}

/** How many pieces a part has; undefined where only reading it all would tell. */
export function piecesOf({ start, end, rows }: Part, pieceBytes: number): number | undefined {
  if (rows !== undefined) return rows.length;
  return end === undefined ? undefined : pieceCount({ start, end }, pieceBytes);
}

/** The first piece of a part from `piece` on that is to be scored; Infinity when it is known that there is none. */
export function wantedFrom({ only, except }: Part, piece: number): number {
  if (only !== undefined) return only.find((one) => one >= piece) ?? Number.POSITIVE_INFINITY;
  let wanted = piece;
  while (except?.includes(wanted)) wanted += 1;
  return wanted;
}
