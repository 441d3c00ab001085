import { hash } from 'node:crypto';
import { createReadStream, existsSync } from 'node:fs';
import * as z from 'zod';
import { plural } from '../../lambda/core/failure.ts';
import { type Line, linesOf, systemReason } from '../textFiles.ts';
import { openLineFile } from './lineFile.ts';

/** Request queue. A queue that is created again under the same name has the same ARN but another creation time. */
export interface Queue {
  readonly arn: string;
  readonly created: string;
}

/** File with the message IDs of a file's requests, one per line. */
export interface IdsFile {
  /** Number of requests that were submitted in earlier runs. */
  readonly before: number;
  /** Returns the lines that are not submitted yet. @throws Error if a submitted line has changed since */
  unsubmitted(lines: readonly Line[]): Line[];
  /** @throws Error if a submitted line was not passed to `unsubmitted` */
  refuseMissing(): void;
  /** Adds lines with their message IDs. An ID is undefined if its line was not accepted. */
  append(lines: readonly Line[], messageIds: readonly (string | undefined)[]): Promise<void>;
  close(): Promise<void>;
}

/** Entry of the file. Older versions wrote neither a digest of the request nor the queues. */
const ENTRY = z.object({
  line: z.int().min(1),
  message_id: z.string().min(1),
  digest: z.string().optional(),
  queues: z.string().optional(),
});
const BEGINNINGS = ['{"line":'];

/**
 * Opens the ids file of a requests file. One process at a time may add to it.
 *
 * @param file name of the requests file for error messages
 * @param queues queues that receive the requests
 * @throws Error if the file is not an ids file, or belongs to other queues
 */
export async function openIdsFile(path: string, file: string, queues: readonly Queue[]): Promise<IdsFile> {
  const cure = `to submit all requests anew, remove ${path} or give another --ids FILE`;
  const digests = new Map<number, string>();
  const read = (text: string): void => {
    const entry = parseEntry(text);
    const other = otherQueues(entry.queues, queues);
    if (other !== undefined) throw new Error(`${other}; ${cure}`);
    digests.set(entry.line, entry.digest ?? '');
  };
  const lines = await openLineFile(path, BEGINNINGS, read);
  const before = digests.size;
  const digestOfQueues = digestOf(namesOf(queues));
  const missing = new Set(digests.keys());
  return {
    before,
    unsubmitted: (batch) =>
      batch.filter(({ number, text }) => {
        const digest = digests.get(number);
        if (digest === undefined) return true;
        missing.delete(number);
        if (digest === digestOf(text)) return false;
        throw new Error(
          `${file}: line ${number}: expected the request that was submitted from it, got another; ${cure}`,
        );
      }),
    refuseMissing() {
      const [first] = missing;
      if (first === undefined) return;
      throw new Error(
        `${file}: expected the ${plural(before, 'request')} that were submitted from it, got ${before - missing.size}: ` +
          `line ${first} is not there; ${cure}`,
      );
    },
    async append(batch, messageIds) {
      const entries = batch.flatMap(({ number: line, text }, index) => {
        const message_id = messageIds[index];
        return message_id === undefined ? [] : [{ line, message_id, digest: digestOf(text), queues: digestOfQueues }];
      });
      await lines.append(entries.map((entry) => `${JSON.stringify(entry)}\n`).join(''));
    },
    close: lines.close,
  };
}

/** Returns a digest of 128 bits, which is enough to identify a request within a file. */
function digestOf(text: string): string {
  return hash('sha256', text).slice(0, 32);
}

/**
 * @param noted digest of the queues of the message IDs. Undefined in a file of an older version.
 * @returns a description of the mismatch, or undefined if the digest is `expected`
 */
export function otherQueues(noted: string | undefined, expected: readonly Queue[]): string | undefined {
  const names = namesOf(expected);
  if (noted === digestOf(names)) return undefined;
  const got =
    noted === undefined
      ? 'a file of an older version, which does not say its queue'
      : 'those of another queue, or of one of that name that is gone';
  return `expected message IDs of ${names}, got ${got}`;
}

function namesOf(queues: readonly Queue[]): string {
  return queues
    .map(({ arn, created }) => `${arn}, created ${created}`)
    .toSorted()
    .join(', ');
}

interface SubmittedIds {
  readonly messageIds: readonly string[];
  /** Digests of the queues of these IDs. Empty for a file of an older version. */
  readonly queues: ReadonlySet<string>;
}

/** @throws Error naming the invalid line */
export async function readIds(path: string): Promise<SubmittedIds> {
  const messageIds: string[] = [];
  const queues = new Set<string>();
  let text = '';
  try {
    for await (text of linesOf(createReadStream(path))) {
      const entry = parseEntry(text);
      messageIds.push(entry.message_id);
      if (entry.queues !== undefined) queues.add(entry.queues);
    }
    return { messageIds, queues };
  } catch (cause) {
    const reason = systemReason(cause);
    if (reason !== undefined) {
      throw new Error(`${path}: expected an ids file, got: ${reason}; check the path`, { cause });
    }
    if (isCut(text)) {
      throw new Error(
        `${path}: expected whole lines, got line ${messageIds.length + 1} that was cut short; run batchscore submit again, which replaces that line`,
        { cause },
      );
    }
    const ids = `${path}.ids`;
    const cure = existsSync(ids) ? `did you mean ${ids}?` : 'give the file that batchscore submit wrote, FILE.ids';
    throw new Error(`${path}: expected an ids file, got another at line ${messageIds.length + 1}; ${cure}`, { cause });
  }
}

function isCut(text: string): boolean {
  return BEGINNINGS.some((beginning) => text.startsWith(beginning) || beginning.startsWith(text));
}

function parseEntry(text: string): z.infer<typeof ENTRY> {
  try {
    return ENTRY.parse(JSON.parse(text));
  } catch (cause) {
    throw new Error('expected {"line": …, "message_id": …}, as batchscore submit writes it', { cause });
  }
}
