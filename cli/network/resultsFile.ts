import { z } from 'zod';
import { openForAppending } from './openForAppending.ts';

/** The results collected so far, one JSON result a line, and room for more. */
export interface ResultsFile {
  /** Message IDs of the results in it. */
  readonly messageIds: ReadonlySet<string>;
  /** How many of them are, or hold, an error. */
  failed(): number;
  append(text: string): Promise<void>;
  close(): Promise<void>;
}

const ANSWER = z.object({ message_id: z.string(), code: z.string().optional() });
const RESULT = z.union([ANSWER.transform((answer) => [answer]), z.array(ANSWER).min(1)]);

/**
 * Opens a results file, or makes one. The result of a last line that a crash cut short is still where it came from.
 *
 * @throws Error naming the line that is no result
 */
export async function openResultsFile(path: string): Promise<ResultsFile> {
  const file = await openForAppending(path);
  const messageIds = new Set<string>();
  let failed = 0;
  const count = (text: string): void => {
    const answers = RESULT.parse(JSON.parse(text));
    for (const { message_id: messageId } of answers) messageIds.add(messageId);
    if (answers.some(({ code }) => code !== undefined)) failed += 1;
  };
  try {
    let number = 0;
    for await (const text of file.readLines({ start: 0, autoClose: false })) {
      number += 1;
      try {
        count(text);
      } catch (cause) {
        throw new Error(`${path}: line ${number}: expected a result; give another --out FILE`, { cause });
      }
    }
  } catch (error) {
    await file.close();
    throw error;
  }
  return {
    messageIds,
    failed: () => failed,
    async append(text) {
      await file.appendFile(`${text}\n`);
      count(text);
    },
    close: () => file.close(),
  };
}
