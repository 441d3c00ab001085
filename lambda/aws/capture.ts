import { randomUUID } from 'node:crypto';
import { promisify } from 'node:util';
import { constants, gzip } from 'node:zlib';
import type { S3Client } from '@aws-sdk/client-s3';
import { nextTurn, sooner } from '../core/concurrency.ts';
import { isFailure, plural, reasonOf } from '../core/failure.ts';
import type { Observer } from '../core/observer.ts';
import { outlineAt } from '../core/outline.ts';
import { capturedKeys } from '../core/places.ts';
import { parsePointer } from '../core/record.ts';
import { putObject } from './payloads.ts';

interface AnsweredMessage {
  readonly messageId: string;
  readonly body: string;
  /** JSON text of the answer, or of the list of answers. */
  readonly answer: string;
}

/** Keeps samples of requests and answers without delaying the answers. It drops and counts what it cannot keep. */
export interface Capture {
  /** Takes a message if its ID is in the sample. Never throws or waits. */
  take(message: AnsweredMessage): void;
  /** Puts the messages taken so far. Resolves when they are stored or dropped. Never throws. */
  flush(): Promise<void>;
  /** Flushes before the process ends. Messages that are not stored after `ms` milliseconds are dropped. */
  end(ms: number): Promise<void>;
}

interface CaptureOptions {
  readonly s3: S3Client;
  readonly bucket: string;
  /** Prefix of `captured/` in every key. @default '' */
  readonly prefix?: string | undefined;
  /** Percentage of messages to keep, 0 to 100. */
  readonly percent: number;
  readonly observer: Pick<Observer, 'captured'>;
  /** Called for the first loss of each kind. */
  readonly warn: (message: string) => void;
}

/** Maximum number of characters that wait or are being put. Further messages are dropped. */
const MAX_CHARACTERS = 16 * 1024 * 1024;
/** Characters per object. Messages that wait longer than `MAX_WAIT_MS` form a smaller object. */
const OBJECT_CHARACTERS = 4 * 1024 * 1024;
const MAX_WAIT_MS = 60_000;
/** Limit for all attempts to put an object. */
const PUT_MS = 10_000;

/**
 * Captures messages as gzipped lines of JSON, `captured/MODEL/2026-11-23/101530-….jsonl.gz`. A line is the original
 * request with the answer in its parameters, which readers of requests ignore. Requests with an error result and bodies
 * in S3 are left out. A redelivered message is captured again.
 *
 * A function flushes at the end of an invocation. A worker flushes after 4 MiB, after a minute, and when it ends.
 */
export function createCapture({ s3, bucket, prefix = '', percent, observer, warn }: CaptureOptions): Capture {
  let waiting: AnsweredMessage[] = [];
  let waitingCharacters = 0;
  let characters = 0;
  let timer: NodeJS.Timeout | undefined;
  let putting: Promise<void> | undefined;
  const warned = new Set<string>();
  const over = new AbortController();

  const lose = (lost: number, kind: 'full' | 'refused', why: string): void => {
    observer.captured?.({ kept: 0, lost });
    if (warned.has(kind)) return;
    warned.add(kind);
    warn(`capture: ${plural(lost, 'message')} lost: ${why}; further losses are counted by CaptureLost alone`);
  };
  const linesIn = (message: AnsweredMessage): readonly CapturedLine[] => {
    try {
      return [...linesOf(message)];
    } catch (error) {
      lose(1, 'refused', reasonOf(error));
      return [];
    }
  };
  const put = async (model: string, lines: readonly string[]): Promise<string | undefined> => {
    const [date = '', clock = ''] = new Date().toISOString().split('T');
    // The entropy cache could repeat an ID after a snapshot of the process is restored.
    const id = randomUUID({ disableEntropyCache: true });
    const Key = `${capturedKeys(prefix)}${model}/${date}/${clock.slice(0, 8).replaceAll(':', '')}-${id}.jsonl.gz`;
    const object = { Bucket: bucket, Key, Body: await compress(lines), ContentType: 'application/gzip' };
    const { signal, end } = sooner(over.signal, PUT_MS);
    const status = await putObject(s3, object, { store: bucket, signal }).finally(end);
    return isFailure(status) ? status.message : undefined;
  };
  const putSome = async (messages: readonly AnsweredMessage[]): Promise<void> => {
    const byModel = new Map<string, { readonly lines: string[]; readonly messages: Set<AnsweredMessage> }>();
    let charactersThisTurn = 0;
    for (const message of messages) {
      for (const { model, line } of linesIn(message)) {
        const own = byModel.get(model) ?? { lines: [], messages: new Set() };
        byModel.set(model, own);
        own.lines.push(line);
        own.messages.add(message);
        charactersThisTurn += line.length;
        if (charactersThisTurn < CHARACTERS_A_TURN) continue;
        charactersThisTurn = 0;
        await nextTurn();
      }
    }
    for (const [model, { lines, messages: own }] of byModel) {
      const why = await put(model, lines);
      if (why === undefined) observer.captured?.({ kept: own.size, lost: 0 });
      else lose(own.size, 'refused', why);
    }
  };
  const putAll = async (): Promise<void> => {
    while (waiting.length > 0) {
      const [messages, ofThese] = [waiting, waitingCharacters];
      [waiting, waitingCharacters] = [[], 0];
      await putSome(messages).catch((error: unknown) => lose(messages.length, 'refused', String(error)));
      characters -= ofThese;
    }
  };
  const flush = async (): Promise<void> => {
    clearTimeout(timer);
    timer = undefined;
    putting ??= putAll().finally(() => {
      putting = undefined;
    });
    await putting;
  };
  return {
    flush,
    async end(ms) {
      const timer = setTimeout(() => over.abort(), ms);
      await flush();
      clearTimeout(timer);
    },
    take(message) {
      if (!isChosen(message.messageId, percent)) return;
      const more = message.body.length + message.answer.length;
      if (characters + more > MAX_CHARACTERS) {
        return lose(1, 'full', `expected at most ${MAX_CHARACTERS} characters to wait for S3, got more`);
      }
      waiting.push(message);
      waitingCharacters += more;
      characters += more;
      if (waitingCharacters >= OBJECT_CHARACTERS) void flush();
      else timer ??= setTimeout(() => void flush(), MAX_WAIT_MS).unref();
    },
  };
}

/** Returns true if a message is in the sample. It depends only on the ID, so all hosts choose the same messages. */
export function isChosen(messageId: string, percent: number): boolean {
  // FNV-1a with a final mix, because the last characters hardly change the highest bits.
  let hash = 0x811c9dc5;
  for (let index = 0; index < messageId.length; index++) {
    hash = Math.imul(hash ^ messageId.charCodeAt(index), 0x01000193);
  }
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  return ((hash ^ (hash >>> 13)) >>> 0) / 2 ** 32 < percent / 100;
}

/** Characters to format before yielding to the event loop. */
const CHARACTERS_A_TURN = 256 * 1024;
/** Characters to compress at a time. Concatenated gzip streams are one stream. */
const CHARACTERS_A_CHUNK = 1024 * 1024;
const gzipped = promisify(gzip);
/** A quarter of the default level's time, for a fifth more bytes. */
const QUICK = { level: constants.Z_BEST_SPEED };

async function compress(lines: readonly string[]): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let chunk = '';
  for (const [index, line] of lines.entries()) {
    chunk += `${line}\n`;
    if (chunk.length < CHARACTERS_A_CHUNK && index < lines.length - 1) continue;
    chunks.push(await gzipped(chunk, QUICK));
    chunk = '';
  }
  return Buffer.concat(chunks);
}

interface CapturedLine {
  readonly model: string;
  readonly line: string;
}

function* linesOf({ body, answer }: AnsweredMessage): Generator<CapturedLine> {
  const [requests, answers] = [elementsOf(body) ?? [body], elementsOf(answer) ?? [answer]];
  if (requests.length !== answers.length) return;
  const at = new Date().toISOString();
  for (const [index, request] of requests.entries()) yield* lineOf(request, answers[index] as string, at);
}

/** Start of a result with scores, as `lambda/core/encode.ts` writes it. */
const SCORED = /^\{"message_id":"(?:[^"\\]|\\.)*"(?:,"id":"(?:[^"\\]|\\.)*")?,"model_name":("(?:[^"\\]|\\.)*")/;

/** Returns nothing if the request has no scores. */
function lineOf(request: string, answer: string, at: string): CapturedLine[] {
  const [, name] = SCORED.exec(answer) ?? [];
  if (name === undefined) return [];
  const isOneLine = !request.includes('\n') && !request.includes('\r');
  const line = withCaptured((isOneLine ? request : request.replace(/[\r\n]/g, ' ')).trim(), at, answer);
  return [{ model: String(JSON.parse(name)), line }];
}

/** Adds the parameter `captured` to a request's text, which is not parsed because -0 would become 0. */
function withCaptured(request: string, at: string, answer: string): string {
  const captured = `"captured":{"at":"${at}","answer":${answer}}`;
  const end = MAY_HAVE_PARAMETERS.test(request) ? endOfParameters(request) : undefined;
  if (end !== undefined) return withMember(request, end, captured);
  return withMember(request, request.length - 1, `"parameters":{${captured}}`);
}

const MAY_HAVE_PARAMETERS = /"parameters"|\\u/;

/** Matches a key, and its value unless that is an array or an object. */
const MEMBER = /[\s,]*"([^"\\]*(?:\\.[^"\\]*)*)"\s*:\s*(?:"[^"\\]*(?:\\.[^"\\]*)*"|[^\s,"[{}]+)?/y;

/** Returns the end of the request's own parameters (not those of its inputs), or undefined. */
function endOfParameters(request: string): number | undefined {
  let end: number | undefined;
  for (let at = 1; ; ) {
    MEMBER.lastIndex = at;
    const [member, key] = MEMBER.exec(request) ?? [];
    if (member === undefined) return end;
    at += member.length;
    if (request[at] !== '{' && request[at] !== '[') continue;
    at = outlineAt(request, at).end;
    if (JSON.parse(`"${key}"`) === 'parameters') end = at - 1;
  }
}

function withMember(text: string, end: number, member: string): string {
  const before = text.slice(0, end);
  return `${before}${before.trimEnd().endsWith('{') ? '' : ','}${member}${text.slice(end)}`;
}

/**
 * Splits a list into the texts of its elements, without parsing objects. Returns undefined for anything else, and
 * nothing for a pointer to S3.
 */
function elementsOf(list: string): string[] | undefined {
  if (!/^\s*\[/.test(list)) return undefined;
  const elements: string[] = [];
  const between = /[\s,]*/y;
  for (let at = list.indexOf('[') + 1; ; ) {
    between.lastIndex = at;
    at += between.exec(list)?.[0].length ?? 0;
    if (list[at] === ']') return elements;
    const end = list[at] === '{' ? outlineAt(list, at).end : Number.POSITIVE_INFINITY;
    if (end > list.length) {
      const parsed: unknown[] = JSON.parse(list);
      return parsePointer(parsed) === undefined ? parsed.map((one) => JSON.stringify(one)) : [];
    }
    elements.push(list.slice(at, end));
    at = end;
  }
}
