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
  /** Packing of results into messages. @default one result in each message */
  readonly packing?: ResultPacking | undefined;
  /**
   * Store for results that are too large for the queue; the message is then a pointer. @default none: such a result is
   * refused
   */
  readonly payloads?: PayloadUploader | undefined;
  readonly retry?: RetryOptions;
}

export interface ResultPacking {
  /** Maximum number of results in a message, at least 1. */
  readonly results: number;
  /** Maximum size of a message with several results, including attributes. One result alone may be larger. */
  readonly bytes: number;
}

const SINGLE_RESULTS: ResultPacking = { results: 1, bytes: 0 };

/**
 * Writes results to an SQS queue, in concurrent batch requests of up to ten messages. On a FIFO queue a result is in
 * the message group of its request. Results that exceed the queue's own size limit are offloaded, too. All results of
 * one message share one status.
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
      // A retry may need more messages and calls if the queue has refused their size.
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
 * Returns the first message of each group to send now, and the others to send later. After a refusal for size, the
 * results of a group may need several messages, and SQS may take the second and refuse the first.
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

/** Sends one batch request. After a refusal for size, later requests and packed messages are smaller. */
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

/** Handles a permanent refusal of a packed message. Its results are sent alone, so that only the faulty one fails. */
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

interface Entry {
  readonly result: Result;
  readonly body: string;
  readonly bodyBytes: number;
  readonly attributes: Readonly<Record<string, MessageAttributeValue>>;
  /** Size of a message with only this result, as SQS counts it: body and attributes. */
  readonly bytes: number;
  /** True to send it alone: it is a pointer, or SQS refused a packed message that held it. */
  alone: boolean;
}

interface ResultMessage {
  readonly entries: readonly Entry[];
  readonly bytes: number;
}

const [PAYLOAD_SIZE_ATTRIBUTE] = POINTER_ATTRIBUTES;

function toEntry(result: Result): Entry {
  const attributes = { [MESSAGE_ID_ATTRIBUTE]: { DataType: 'String', StringValue: result.messageId } };
  return entryOf(result, escapeForSqs(result.body), attributes, false);
}

function toPointingEntry({ result, attributes }: Entry, pointer: PayloadPointer): Entry {
  const size = { DataType: 'Number', StringValue: String(Buffer.byteLength(result.body)) };
  return entryOf(result, pointerBody(pointer), { ...attributes, [PAYLOAD_SIZE_ATTRIBUTE]: size }, true);
}

function entryOf(result: Result, body: string, attributes: Entry['attributes'], alone: boolean): Entry {
  const bodyBytes = Buffer.byteLength(body);
  return { result, body, bodyBytes, attributes, bytes: bodyBytes + bytesOf(attributes), alone };
}

/**
 * Packs entries, in order, into as few messages as possible. A message holds results of one message group, because a
 * group is written all or nothing. On a FIFO queue a result without a group is alone. The results of a message have
 * distinct message IDs, so that readers can tell them apart.
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

/** Formats a message. Several results form a JSON array. */
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
 * Returns a deduplication ID of all message IDs, so that SQS drops only messages with the same results. With only the
 * first ID, a redelivered result that is packed with new ones would make SQS drop all of them.
 */
function deduplicationId(entries: readonly Entry[]): string {
  const ids = entries.map(({ result }) => result.messageId);
  return ids.length === 1 ? String(ids[0]) : createHash('sha256').update(ids.join('\n')).digest('hex');
}

type SizeLimits = ReturnType<typeof createSizeLimits>;

/**
 * Tracks the size limits of a queue from its refusals. A queue may be set to less than 1 MiB, and reading its
 * attributes needs a permission that a sender may lack.
 */
function createSizeLimits() {
  let messageBytes = MAX_MESSAGE_BYTES;
  let batchBytes = MAX_MESSAGE_BYTES;
  return {
    messageBytes: () => Math.min(messageBytes, batchBytes),
    batchBytes: () => batchBytes,
    /** @returns true if a message of `bytes` bytes was refused for its size */
    learnMessageBytes(bytes: number, reason: string): boolean {
      const max = limitIn(reason);
      if (max !== undefined) messageBytes = Math.min(messageBytes, max, bytes - 1);
      return max !== undefined;
    },
    /** @returns true if a batch request of `bytes` bytes was refused for its size */
    learnBatchBytes(bytes: number, reason: string): boolean {
      const max = limitIn(reason);
      if (max !== undefined) batchBytes = Math.min(batchBytes, max, bytes - 1);
      return max !== undefined;
    },
  };
}
