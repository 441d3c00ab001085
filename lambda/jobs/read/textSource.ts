import { pieceCount, pieceSpan, type Span } from '../../core/job/cut.ts';
import { type Bytes, endsWithin } from '../../core/job/ownedLines.ts';
import type { JobStorage } from '../../core/job/storage.ts';
import type { JobHead, Part } from '../../core/job/words.ts';
import type { PieceReader } from './pieceRows.ts';

/** The bytes in which a piece's lines lie: {@link Bytes} from the byte before it until past its last line. */
export interface PieceBytes {
  readonly span: Span;
  readonly source: Bytes;
  readonly isLast: boolean;
}

export interface TextSource {
  /** As {@link PieceReader} has it. */
  read(piece: number, hasTime: () => boolean): Promise<PieceBytes | undefined>;
  close(): void;
}

/** What is read past a piece, for the rest of its last line: most lines end within it. */
const PAST_BYTES = 64 * 1024;

/**
 * The pieces of a part of plain text, each by one ranged GET, and further ones where its last line is long.
 *
 * @param mostLineBytes a line is read so far and no further: longer ones are refused
 */
export function openPlainText(storage: JobStorage, head: JobHead, part: Part, mostLineBytes: number): TextSource {
  const whole = { start: part.start, end: part.end ?? head.bytes };
  const count = pieceCount(whole, head.pieceBytes);
  return {
    async read(piece) {
      if (piece >= count) return undefined;
      const span = pieceSpan(whole, head.pieceBytes, piece);
      const source = await readUntilLineEnds(storage, head, span, mostLineBytes);
      return { span, source, isLast: piece === count - 1 };
    },
    close: () => {},
  };
}

async function readUntilLineEnds(
  storage: JobStorage,
  head: JobHead,
  span: Span,
  mostLineBytes: number,
): Promise<Bytes> {
  const at = Math.max(0, span.start - 1);
  let past = Math.min(PAST_BYTES, mostLineBytes);
  let end = Math.min(span.end + past, head.bytes);
  let source: Bytes = { at, bytes: await storage.readRange(head, { start: at, end }) };
  while (end < head.bytes && past <= mostLineBytes && !endsWithin(span, source)) {
    past *= 4;
    const more = Math.min(span.end + past, head.bytes);
    const rest = await storage.readRange(head, { start: end, end: more });
    source = { at, bytes: Buffer.concat([source.bytes, rest]) };
    end = more;
  }
  return source;
}
