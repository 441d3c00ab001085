import type { FileHandle } from 'node:fs/promises';
import { z } from 'zod';

/** One line of an ids file: which line of the requests was taken, and under which message ID. */
export interface SubmittedLine {
  readonly line: number;
  readonly messageId: string;
}

const LINE = z.object({ line: z.int().min(1), message_id: z.string().min(1) });

/** @throws Error naming the line that is no such line */
export async function readIds(file: FileHandle, path: string): Promise<SubmittedLine[]> {
  const submitted: SubmittedLine[] = [];
  for await (const text of file.readLines({ start: 0, autoClose: false })) {
    submitted.push(parseLine(text, `${path}: line ${submitted.length + 1}`));
  }
  return submitted;
}

function parseLine(text: string, where: string): SubmittedLine {
  try {
    const { line, message_id: messageId } = LINE.parse(JSON.parse(text));
    return { line, messageId };
  } catch (cause) {
    throw new Error(`${where}: expected {"line": …, "message_id": …}, as batchscore submit writes it`, { cause });
  }
}

export function idsLine({ line, messageId }: SubmittedLine): string {
  return `${JSON.stringify({ line, message_id: messageId })}\n`;
}
