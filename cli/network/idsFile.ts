import { createReadStream } from 'node:fs';
import { z } from 'zod';
import { systemReason } from '../fileErrors.ts';
import { linesOf } from '../lines.ts';
import { type LineFile, openLineFile } from './lineFile.ts';

/** One line of an ids file: which line of the requests was taken, and under which message ID. */
export interface SubmittedLine {
  readonly line: number;
  readonly messageId: string;
}

const LINE = z.object({ line: z.int().min(1), message_id: z.string().min(1) });

/** Opens an ids file to add to it, with what it holds already. @throws Error when the file is something else */
export async function openIdsFile(path: string): Promise<{ before: readonly SubmittedLine[]; file: LineFile }> {
  const before: SubmittedLine[] = [];
  const file = await openLineFile(path, ['{"line":'], (text) => before.push(parseLine(text)));
  return { before, file };
}

/** @throws Error naming the line that is no such line */
export async function readIds(path: string): Promise<SubmittedLine[]> {
  const submitted: SubmittedLine[] = [];
  try {
    for await (const text of linesOf(createReadStream(path))) submitted.push(parseLine(text));
    return submitted;
  } catch (cause) {
    const reason = systemReason(cause);
    if (reason !== undefined) {
      throw new Error(`${path}: expected an ids file, got: ${reason}; check the path`, { cause });
    }
    throw new Error(`${path}: expected an ids file, line ${submitted.length + 1} cannot be read; check the path`, {
      cause,
    });
  }
}

function parseLine(text: string): SubmittedLine {
  try {
    const { line, message_id: messageId } = LINE.parse(JSON.parse(text));
    return { line, messageId };
  } catch (cause) {
    throw new Error('expected {"line": …, "message_id": …}, as batchscore submit writes it', { cause });
  }
}

export function idsLine({ line, messageId }: SubmittedLine): string {
  return `${JSON.stringify({ line, message_id: messageId })}\n`;
}
