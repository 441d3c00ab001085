import type { Failure } from '../../core/failure.ts';
import type { Row } from '../scoreRows.ts';

/** A row of the input, ready to be scored or refused already. */
export interface PieceRow extends Row {
  /** Why it cannot be scored: known from how it lies in the file. */
  readonly failed?: Failure | undefined;
  /** The columns that are carried beside the result, as the JSON text of an object. */
  readonly kept?: string | undefined;
}

/** The rows of one piece, in order, handed out once. */
export interface PieceRows {
  /** The next rows, at most so many; none when there are no more. */
  take(most: number): readonly PieceRow[];
  /** Bytes of the input that the piece is. */
  readonly bytes: number;
  /** Whether the part has no piece after it. */
  readonly isLast: boolean;
}

/** The piece is to be given up. */
export class UnreadableError extends Error {
  /** Whether it was for lack of time, which those after it will lack as well. */
  readonly isOutOfTime: boolean;

  constructor(message: string, { isOutOfTime = false, cause }: { isOutOfTime?: boolean; cause?: unknown } = {}) {
    super(message, { cause });
    this.name = isOutOfTime ? 'DEADLINE' : 'UNREADABLE';
    this.isOutOfTime = isOutOfTime;
  }
}

/** Reads pieces of one part, in any order; those that follow each other are read at least cost. */
export interface PieceReader {
  /**
   * @param hasTime whether to go on passing over what comes before the piece, where it must be
   * @returns undefined past the last one
   * @throws JobError when the input is not what the job was started for
   * @throws UnreadableError when the piece cannot be read, however often it is tried
   */
  read(piece: number, hasTime: () => boolean): Promise<PieceRows | undefined>;
  /** Lets go of what it reads from. */
  close(): void;
}
