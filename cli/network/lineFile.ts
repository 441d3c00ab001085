import { createReadStream, existsSync } from 'node:fs';
import { type FileHandle, open, stat } from 'node:fs/promises';
import * as z from 'zod';
import { hasCode } from '../../lambda/aws/awsError.ts';
import { messageOf } from '../../lambda/core/failure.ts';
import { linesOf, openOutput, systemReason } from '../textFiles.ts';

export interface LineFile {
  append(text: string): Promise<void>;
  close(): Promise<void>;
}

/**
 * Reads every line of a file, if there is one, and opens it to add more. A last line that a crash cut short is taken
 * off, but only where every line before it is what it should be and it begins as one does: other files stay as they are.
 *
 * @param beginnings how a line may begin
 * @param read told each whole line; throws for one that does not belong
 * @throws Error naming the file and the line that does not belong
 */
export async function openLineFile(
  path: string,
  beginnings: readonly string[],
  read: (line: string) => void,
): Promise<LineFile> {
  const size = await sizeOf(path);
  const unfinished = await readWholeLines(path, size, beginnings, read);
  const file = await openOutput(path, 'a');
  if (unfinished !== '') await file.truncate(size - Buffer.byteLength(unfinished));
  return { append: (text) => file.appendFile(text), close: () => file.close() };
}

/** @returns the last line where it was cut short, else nothing */
async function readWholeLines(
  path: string,
  size: number,
  beginnings: readonly string[],
  read: (line: string) => void,
): Promise<string> {
  if (size === 0) return '';
  const endsWhole = await endsWithNewline(path, size);
  let last: string | undefined;
  let number = 0;
  for await (const line of linesOf(createReadStream(path))) {
    if (last !== undefined) readWhole(last, number, path, read);
    last = line;
    number += 1;
  }
  const tail = last ?? '';
  if (endsWhole) {
    readWhole(tail, number, path, read);
    return '';
  }
  if (beginnings.some((beginning) => tail.startsWith(beginning) || beginning.startsWith(tail))) return tail;
  throw new Error(`${path}: line ${number}: ${notOurs(beginnings)}`);
}

function notOurs(beginnings: readonly string[]): string {
  return `expected a line that begins with ${beginnings.join(' or ')}; name another file`;
}

function readWhole(line: string, number: number, path: string, read: (line: string) => void): void {
  try {
    read(line);
  } catch (cause) {
    throw new Error(`${path}: line ${number}: ${messageOf(cause)}`, { cause });
  }
}

async function sizeOf(path: string): Promise<number> {
  try {
    const found = await stat(path);
    // Whoever opens it says why that cannot be written.
    return found.isFile() ? found.size : 0;
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return 0;
    throw error;
  }
}

const NEWLINE = 10;

async function endsWithNewline(path: string, size: number): Promise<boolean> {
  const file: FileHandle = await open(path);
  try {
    const { buffer } = await file.read(Buffer.alloc(1), 0, 1, size - 1);
    return buffer[0] === NEWLINE;
  } finally {
    await file.close();
  }
}

/** One line of an ids file: which line of the requests was taken, and under which message ID. */
interface SubmittedLine {
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
    const ids = `${path}.ids`;
    const cure = existsSync(ids) ? `did you mean ${ids}?` : 'give the file that batchscore submit wrote, FILE.ids';
    throw new Error(`${path}: expected an ids file, got another at line ${submitted.length + 1}; ${cure}`, { cause });
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
