import { z } from 'zod';
import { openLineFile } from './lineFile.ts';

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
  const messageIds = new Set<string>();
  let failed = 0;
  const count = (text: string): void => {
    const answers = parseResult(text);
    for (const { message_id: messageId } of answers) messageIds.add(messageId);
    if (answers.some(({ code }) => code !== undefined)) failed += 1;
  };
  const file = await openLineFile(path, ['{"message_id":', '[{"message_id":'], count);
  return {
    messageIds,
    failed: () => failed,
    async append(text) {
      await file.append(`${text}\n`);
      count(text);
    },
    close: file.close,
  };
}

function parseResult(text: string): z.infer<typeof RESULT> {
  try {
    return RESULT.parse(JSON.parse(text));
  } catch (cause) {
    throw new Error('expected a result; give another --out FILE', { cause });
  }
}
