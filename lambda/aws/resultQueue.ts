import { createHash } from 'node:crypto';
import {
  type MessageAttributeValue,
  SendMessageBatchCommand,
  type SendMessageBatchRequestEntry,
} from '@aws-sdk/client-sqs';
import pLimit from 'p-limit';
import { escapeForSqs } from '../core/json.ts';
import { MAX_MESSAGE_BYTES } from '../core/limits.ts';
import {
  MESSAGE_ID_ATTRIBUTE,
  type PayloadPointer,
  POINTER_ATTRIBUTES,
  pointerBody,
  RESULTS_ATTRIBUTE,
  type Result,
  type ResultWriter,
  type WriteStatus,
} from '../core/record.ts';
import { describeError } from './awsError.ts';
import {
  allRefused,
  bytesOf,
  CALLS_IN_FLIGHT,
  type Container,
  limitIn,
  MAX_BATCH_ENTRIES,
  NO_STATUS,
  type PayloadUploader,
  packBatches,
  type Refusal,
  type RetryOptions,
  refusalsIn,
  refusedForSize,
  type SqsCaller,
  sendBatches,
  sendOrOffload,
} from './sendBatches.ts';

export interface QueueWriterOptions {
  readonly sqs: SqsCaller;
  readonly queueUrl: string;
  /** How results share messages. @default each has a message of its own */
  readonly packing?: ResultPacking | undefined;
  /** Where results go that the queue is too small for, the message then being a pointer. @default none: such a result is refused */
  readonly payloads?: PayloadUploader | undefined;
  readonly retry?: RetryOptions;
}

/** How many results a message may hold, and how large it may get by that. */
export interface ResultPacking {
  /** Most results in a message, at least 1. */
  readonly results: number;
  /** Most bytes of a message of several results, its attributes counted. One result alone may be larger. */
  readonly bytes: number;
}

const SINGLE_RESULTS: ResultPacking = { results: 1, bytes: 0 };

/**
 * Writes results to an SQS queue, up to ten messages in a batch request, several of these at once. On a FIFO queue a
 * result is in the message group of its request. What the queue refuses for its size is offloaded like what SQS itself
 * would refuse. The results of one message are written all or not at all.
 */
export function createQueueWriter(options: QueueWriterOptions): ResultWriter {
  const { sqs, queueUrl, packing = SINGLE_RESULTS, payloads, retry } = options;
  const fifo = queueUrl.endsWith('.fifo');
  const limits = createSizeLimits();
  const inFlight = pLimit(CALLS_IN_FLIGHT);
  const toMessages = (entries: readonly Entry[]): ResultMessage[] =>
    packResults(entries, { ...packing, bytes: Math.min(packing.bytes, limits.messageBytes()) }, fifo);
  const toBatches = (messages: readonly ResultMessage[]): ResultMessage[][] =>
    packBatches(messages, MAX_BATCH_ENTRIES, limits.batchBytes());
  const pack = (entries: readonly Entry[]): Entry[][] =>
    toBatches(toMessages(entries)).map((batch) => batch.flatMap(({ entries }) => entries));

  const container: Container<Entry> = {
    container: 'a message on the result queue',
    bytesOf: ({ bytes }) => bytes,
    maxBytes: limits.messageBytes,
    payloads,
  };

  return {
    write(results, signal) {
      // A retry may need more messages, and more calls, than before: the queue may have refused their size.
      const attempt = async (entries: readonly Entry[]): Promise<Refusal<Entry>[]> => {
        const { now, behind } = firstOfEachGroup(toMessages(entries), packing.results > 1);
        const sends = toBatches(now).map((batch) => inFlight(() => send(sqs, queueUrl, batch, limits, signal)));
        return [...behind.map(notItsTurn), ...(await Promise.all(sends)).flat()].flatMap(ofEachEntry);
      };
      return sendOrOffload(results.map(toEntry), {
        ...container,
        toPointer: toPointingEntry,
        signal,
        sendBatches: (entries) => sendBatches(entries, { store: 'result queue', pack, attempt, signal, retry }),
      });
    },
    refuses: (result) => (payloads === undefined ? refusedForSize(toEntry(result), container) : undefined),
    writtenAsOne: (results) => toMessages(results.map(toEntry))[0]?.entries.length ?? 1,
  };
}

/**
 * Writes each result to the queue that its request names, or to the first queue.
 *
 * @param queueUrls that of the deployment, and those of its clients
 */
export function createQueueWriters(
  queueUrls: readonly [string, ...string[]],
  options: Omit<QueueWriterOptions, 'queueUrl'>,
): ResultWriter {
  const [first, ...others] = queueUrls.map((queueUrl) => createQueueWriter({ ...options, queueUrl })) as [ResultWriter];
  if (others.length === 0) return first;
  const names = queueUrls.map((url) => url.slice(url.lastIndexOf('/') + 1));
  const byName = new Map([first, ...others].map((writer, index) => [names[index], writer]));
  const writerOf = ({ resultQueue }: Result): ResultWriter => byName.get(resultQueue) ?? first;
  return {
    async write(results, signal) {
      const statuses = new Map<Result, WriteStatus | undefined>();
      const writes = Array.from(Map.groupBy(results, writerOf), async ([writer, some]) => {
        const written = await writer.write(some, signal);
        for (const [index, result] of some.entries()) statuses.set(result, written[index]);
      });
      await Promise.all(writes);
      return results.map((result) => statuses.get(result) ?? NO_STATUS);
    },
    refuses: (result) => writerOf(result).refuses?.(result),
    writtenAsOne(results) {
      const [result] = results;
      if (result === undefined) return 1;
      const writer = writerOf(result);
      const other = results.findIndex((one) => writerOf(one) !== writer);
      return writer.writtenAsOne?.(other < 0 ? results : results.slice(0, other)) ?? 1;
    },
  };
}

/**
 * Results of a message group that were to share a message may need several once the queue has refused that one for its
 * size. In one batch request the second may be taken and the first not, so only the first is sent.
 */
function firstOfEachGroup(messages: readonly ResultMessage[], sharesMessages: boolean) {
  if (!sharesMessages) return { now: messages, behind: [] };
  const groups = new Set<string | undefined>();
  const [now, behind]: [ResultMessage[], ResultMessage[]] = [[], []];
  for (const message of messages) {
    const group = message.entries[0]?.result.messageGroupId;
    (group !== undefined && groups.has(group) ? behind : now).push(message);
    groups.add(group);
  }
  return { now, behind };
}

function notItsTurn(entry: ResultMessage): Refusal<ResultMessage> {
  return { entry, reason: 'results of its message group before it go first', again: false };
}

function ofEachEntry({ entry: { entries }, ...refusal }: Refusal<ResultMessage>): Refusal<Entry>[] {
  return entries.map((entry) => ({ entry, ...refusal }));
}

/** Sends one batch request. What is too large, the request as a whole or a packed message, is packed smaller next time. */
async function send(
  sqs: SqsCaller,
  queueUrl: string,
  batch: readonly ResultMessage[],
  limits: SizeLimits,
  signal: AbortSignal,
): Promise<Refusal<ResultMessage>[]> {
  const fifo = queueUrl.endsWith('.fifo');
  try {
    const Entries = batch.map((message, id) => toRequestEntry(message, id, fifo));
    const command = new SendMessageBatchCommand({ QueueUrl: queueUrl, Entries });
    const refusals = refusalsIn(batch, await sqs.send(command, { abortSignal: signal }));
    return refusals.map((refusal) => refusedMessage(refusal, limits));
  } catch (error) {
    const bytes = batch.reduce((sum, message) => sum + message.bytes, 0);
    const tooLong = limits.learnBatchBytes(bytes, describeError(error));
    const refusals = allRefused(batch, error);
    const divisible = batch.length > 1 || isPacked(batch[0]);
    return tooLong && divisible ? refusals.map((refusal) => ({ ...refusal, again: true })) : refusals;
  }
}

/** A packed message that SQS refuses for good may hold one result at fault: each goes alone, so that it fails alone. */
function refusedMessage(refusal: Refusal<ResultMessage>, limits: SizeLimits): Refusal<ResultMessage> {
  const { entry, reason, again } = refusal;
  const tooLong = limits.learnMessageBytes(entry.bytes, reason);
  if (again || !isPacked(entry)) return refusal;
  if (!tooLong) for (const one of entry.entries) one.alone = true;
  return { ...refusal, again: true };
}

function isPacked(message: ResultMessage | undefined): boolean {
  return message !== undefined && message.entries.length > 1;
}

/** A result as it goes onto the queue, alone or packed with others. */
interface Entry {
  readonly result: Result;
  readonly body: string;
  readonly bodyBytes: number;
  readonly attributes: Readonly<Record<string, MessageAttributeValue>>;
  /** Of a message that holds it alone, as SQS counts them: body and attributes. */
  readonly bytes: number;
  /** True if it is packed with no other: it is a pointer, or SQS has refused a message that held it. */
  alone: boolean;
}

/** A message to be sent, with one result or several. */
interface ResultMessage {
  readonly entries: readonly Entry[];
  readonly bytes: number;
}

const [PAYLOAD_SIZE_ATTRIBUTE] = POINTER_ATTRIBUTES;

function toEntry(result: Result): Entry {
  const attributes = { [MESSAGE_ID_ATTRIBUTE]: { DataType: 'String', StringValue: result.messageId } };
  return entryOf(result, escapeForSqs(result.body), attributes, false);
}

/** In place of an entry that is too large for the queue. */
function toPointingEntry({ result, attributes }: Entry, pointer: PayloadPointer): Entry {
  const size = { DataType: 'Number', StringValue: String(Buffer.byteLength(result.body)) };
  return entryOf(result, pointerBody(pointer), { ...attributes, [PAYLOAD_SIZE_ATTRIBUTE]: size }, true);
}

function entryOf(result: Result, body: string, attributes: Entry['attributes'], alone: boolean): Entry {
  const bodyBytes = Buffer.byteLength(body);
  return { result, body, bodyBytes, attributes, bytes: bodyBytes + bytesOf(attributes), alone };
}

/**
 * Packs entries, in order, into as few messages as hold them. A message holds results of one message group, so that those
 * are written all or not at all; on a FIFO queue a result without one shares none. No message holds two results of one
 * message ID, so that its results can be told apart by it.
 */
function packResults(
  entries: readonly Entry[],
  { results: max, bytes: maxBytes }: ResultPacking,
  fifo: boolean,
): ResultMessage[] {
  if (max === 1) return entries.map((entry) => ({ entries: [entry], bytes: entry.bytes }));
  const messages: OpenMessage[] = [];
  const open = new Map<string | undefined, OpenMessage>();
  for (const entry of entries) {
    const { result, bodyBytes } = entry;
    const group = fifo ? groupOf(result) : result.messageGroupId;
    const last = open.get(group);
    const packedBytes = last === undefined ? 0 : withOneMore(last, bodyBytes);
    const joins = last !== undefined && !entry.alone && last.entries.length < max && packedBytes <= maxBytes;
    if (joins && !last.ids.has(result.messageId)) {
      last.entries.push(entry);
      last.bytes = packedBytes;
      last.ids.add(result.messageId);
    } else {
      const message = { entries: [entry], bytes: entry.bytes, ids: new Set([result.messageId]) };
      messages.push(message);
      if (entry.alone) open.delete(group);
      else open.set(group, message);
    }
  }
  return messages;
}

interface OpenMessage {
  readonly entries: Entry[];
  bytes: number;
  readonly ids: Set<string>;
}

/** Bytes of a packed message once it holds one result more. */
function withOneMore({ entries, bytes }: ResultMessage, bodyBytes: number): number {
  const [first] = entries as readonly [Entry, ...Entry[]];
  const packed = entries.length === 1 ? '[]'.length + first.bodyBytes + countBytes(1) : bytes;
  const count = entries.length;
  return packed + ','.length + bodyBytes + countBytes(count + 1) - countBytes(count);
}

function countBytes(count: number): number {
  return bytesOf(countAttributes(count));
}

function countAttributes(count: number): Entry['attributes'] {
  return { [RESULTS_ATTRIBUTE]: { DataType: 'Number', StringValue: String(count) } };
}

/** One of several results is an element of an array, as it would be a body alone. */
function toRequestEntry({ entries }: ResultMessage, id: number, fifo: boolean): SendMessageBatchRequestEntry {
  const [first] = entries as readonly [Entry, ...Entry[]];
  const packed = entries.length > 1;
  return {
    Id: String(id),
    MessageBody: packed ? `[${entries.map(({ body }) => body).join(',')}]` : first.body,
    MessageAttributes: packed ? countAttributes(entries.length) : first.attributes,
    ...(fifo ? { MessageGroupId: groupOf(first.result), MessageDeduplicationId: deduplicationId(entries) } : {}),
  };
}

function groupOf({ messageGroupId, messageId }: Result): string {
  return messageGroupId ?? messageId;
}

/**
 * Of all message IDs: SQS takes two messages for one only where they hold the same results. By the first ID alone, a
 * redelivery that is packed with others would be dropped, and they with it.
 */
function deduplicationId(entries: readonly Entry[]): string {
  const ids = entries.map(({ result }) => result.messageId);
  return ids.length === 1 ? String(ids[0]) : createHash('sha256').update(ids.join('\n')).digest('hex');
}

type SizeLimits = ReturnType<typeof createSizeLimits>;

/**
 * Most bytes of a message, its attributes counted, and of a batch request, as far as the refusals of one queue tell. A
 * queue may be set to take less than 1 MiB, and to ask for its attributes takes a permission that a sender need not have.
 */
function createSizeLimits() {
  let messageBytes = MAX_MESSAGE_BYTES;
  let batchBytes = MAX_MESSAGE_BYTES;
  return {
    messageBytes: () => Math.min(messageBytes, batchBytes),
    batchBytes: () => batchBytes,
    /** @returns whether a message of so many bytes was refused for its size */
    learnMessageBytes(bytes: number, reason: string): boolean {
      const max = limitIn(reason);
      if (max !== undefined) messageBytes = Math.min(messageBytes, max, bytes - 1);
      return max !== undefined;
    },
    /** @returns whether a batch request of so many bytes was refused for its size */
    learnBatchBytes(bytes: number, reason: string): boolean {
      const max = limitIn(reason);
      if (max !== undefined) batchBytes = Math.min(batchBytes, max, bytes - 1);
      return max !== undefined;
    },
  };
}
