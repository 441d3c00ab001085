import type { Readable } from 'node:stream';
import { linesOf } from './lines.ts';

export interface Line {
  /** From 1, blank lines counted. */
  readonly number: number;
  readonly text: string;
}

/** What one piece may hold at most. */
export interface PieceLimits {
  readonly lines: number;
  readonly characters: number;
}

/** The lines of a stream that are not blank, in pieces, so that memory does not grow with the file. */
export async function* piecesOf(input: Readable, limits: PieceLimits): AsyncGenerator<readonly Line[]> {
  let piece: Line[] = [];
  let characters = 0;
  let number = 0;
  for await (const text of linesOf(input)) {
    number += 1;
    if (text.trim() === '') continue;
    const full = piece.length === limits.lines || characters + text.length > limits.characters;
    if (full && piece.length > 0) {
      yield piece;
      piece = [];
      characters = 0;
    }
    piece.push({ number, text });
    characters += text.length;
  }
  if (piece.length > 0) yield piece;
}
