import { hash } from 'node:crypto';
import { createReadStream, existsSync } from 'node:fs';
import { readFile, rm, stat, writeFile } from 'node:fs/promises';
import * as z from 'zod';
import { hasCode, plural } from '../../lambda/core/failure.ts';
import { type Line, linesOf, notWritable, refuseMissingFolder, systemReason } from '../textFiles.ts';
import { openLineFile } from './lineFile.ts';

/** Request queue. A queue that is created again under the same name has the same ARN but another creation time. */
export interface Queue {
  readonly arn: string;
  readonly created: string;
}

export type IdsFile = Awaited<ReturnType<typeof openIdsFile>>;

/** Entry of the file. Older versions wrote neither a digest of the request nor the queues. */
const ENTRY = z.object({
  line: z.int().min(1),
  message_id: z.string().min(1),
  digest: z.string().optional(),
  queues: z.string().optional(),
});
const BEGINNINGS = ['{"line":'];

/**
 * Opens the file with the message IDs of a requests file, one per line. No other process can add to it until it is closed.
 *
 * @param file name of the requests file for error messages
 * @param queues queues that receive the requests
 * @throws Error if the file is not an ids file, belongs to other queues, or is open in another process
 */
export async function openIdsFile(path: string, file: string, queues: readonly Queue[]) {
  const unlock = await lock(path);
  const cure = `to submit all requests anew, remove ${path} or give another --ids FILE`;
  const digests = new Map<number, string>();
  const read = (text: string): void => {
    const entry = parseEntry(text);
    const other = otherQueues(entry.queues, queues);
    if (other !== undefined) throw new Error(`${other}; ${cure}`);
    digests.set(entry.line, entry.digest ?? '');
  };
  const lines = await openLineFile(path, BEGINNINGS, read).catch(async (error) => {
    await unlock();
    throw error;
  });
  const before = digests.size;
  const digestOfQueues = digestOf(namesOf(queues));
  const missing = new Set(digests.keys());
  return {
    /** Number of requests that were submitted in earlier runs. */
    before,
    /** Returns the lines that are not submitted yet. @throws Error if a submitted line has changed since */
    unsubmitted: (batch: readonly Line[]): Line[] =>
      batch.filter(({ number, text }) => {
        const digest = digests.get(number);
        if (digest === undefined) return true;
        missing.delete(number);
        if (digest === digestOf(text)) return false;
        throw new Error(
          `${file}: line ${number}: expected the request that was submitted from it, got another; ${cure}`,
        );
      }),
    /** @throws Error if a submitted line was not passed to `unsubmitted` */
    refuseMissing(): void {
      const [first] = missing;
      if (first === undefined) return;
      throw new Error(
        `${file}: expected the ${plural(before, 'request')} that were submitted from it, got ${before - missing.size}: ` +
          `line ${first} is not there; ${cure}`,
      );
    },
    /** Adds lines with their message IDs. An ID is undefined if its line was not accepted. */
    async append(batch: readonly Line[], messageIds: readonly (string | undefined)[]): Promise<void> {
      const entries = batch.flatMap(({ number: line, text }, index) => {
        const message_id = messageIds[index];
        return message_id === undefined ? [] : [{ line, message_id, digest: digestOf(text), queues: digestOfQueues }];
      });
      await lines.append(entries.map((entry) => `${JSON.stringify(entry)}\n`).join(''));
    },
    async close(): Promise<void> {
      await lines.close();
      await unlock();
    },
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

/**
 * Creates a lock file that names this process. The lock of a killed process is taken over.
 *
 * @returns the function that unlocks
 */
async function lock(path: string): Promise<() => Promise<void>> {
  const lockPath = `${path}.lock`;
  const unlock = (): Promise<void> => rm(lockPath, { force: true });
  const there = await stat(path).catch(() => undefined);
  // Pipes and devices are not locked.
  if (there !== undefined && !there.isFile()) return async () => {};
  await refuseMissingFolder(path);
  try {
    await writeFile(lockPath, `${process.pid}\n`, { flag: 'wx' });
    return unlock;
  } catch (cause) {
    if (!hasCode(cause, 'EEXIST')) throw notWritable(lockPath, systemReason(cause) ?? String(cause), cause);
  }
  const holder = await readFile(lockPath, 'utf8').catch(() => undefined);
  if (holder !== undefined && isRunning(Number(holder))) {
    throw new Error(
      `${path}: expected no other submit to write to it, got process ${holder.trim()}; wait until it ends, or remove ${lockPath} if it is no submit`,
    );
  }
  await unlock();
  return lock(path);
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return !hasCode(error, 'ESRCH');
  }
}

/** @throws Error naming the invalid line */
export async function readIds(path: string) {
  const messageIds: string[] = [];
  /** Digests of the queues of these IDs. Empty for a file of an older version. */
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
    if (BEGINNINGS.some((beginning) => text.startsWith(beginning) || beginning.startsWith(text))) {
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

function parseEntry(text: string): z.infer<typeof ENTRY> {
  try {
    return ENTRY.parse(JSON.parse(text));
  } catch (cause) {
    throw new Error('expected {"line": …, "message_id": …}, as batchscore submit writes it', { cause });
  }
}
