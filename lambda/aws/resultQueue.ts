import { createHash } from 'node:crypto';
import pLimit from 'p-limit';
import { escapeForSqs } from '../core/json.ts';
import {
  MESSAGE_ID_ATTRIBUTE,
  type PayloadPointer,
  RESULTS_ATTRIBUTE,
  type Result,
  type ResultWriter,
  type WriteStatus,
} from '../core/record.ts';
import { CALLS_IN_FLIGHT, packBatches, type Refusal, type RetryOptions, sendBatches } from './sendBatches.ts';
import {
  bytesOf,
  MAX_BATCH_ENTRIES,
  type Message,
  type MessageAttributes,
  MessageSender,
  type Packable,
  type PackedMessage,
  packedBody,
  packMessages,
  pointerMessage,
  type SqsCaller,
} from './sqsMessages.ts';
import {
  type Container,
  NO_STATUS,
  type OpenStore,
  type PayloadUploader,
  placeOf,
  refusedForSize,
  sendOrOffload,
} from './storeEntries.ts';

export const openQueueStore: OpenStore = (settings, { clients, payloads }) => {
  const { resultQueueUrl, clientQueueUrls = [], resultsPerMessage: results, resultMessageBytes: bytes } = settings;
  const queueUrls = [placeOf('queue', resultQueueUrl), ...clientQueueUrls] as const;
  return createQueueWriters(queueUrls, { sqs: clients.sqs, packing: { results, bytes }, payloads });
};

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
  const isFifo = queueUrl.endsWith('.fifo');
  const sender = new MessageSender<ResultMessage>({ sqs, isFifo, format: (message) => formatMessage(message, isFifo) });
  const inFlight = pLimit(CALLS_IN_FLIGHT);
  const toMessages = (entries: readonly Entry[]): ResultMessage[] =>
    packMessages(entries, {
      most: packing.results,
      bytes: Math.min(packing.bytes, sender.maxBytes),
      attributeBytes: (count) => bytesOf(countAttributes(count)),
      // A group is written all or nothing, also if it is that of a FIFO request and the result queue is standard.
      groupOf: ({ result }) => (isFifo ? groupOf(result) : result.messageGroupId),
      isOrdered: true,
    });
  const toBatches = (messages: readonly ResultMessage[]): ResultMessage[][] =>
    packBatches(messages, MAX_BATCH_ENTRIES, sender.maxBytes);
  const container: Container<Entry> = {
    container: 'a message on the result queue',
    bytesOf: ({ bytes }) => bytes,
    maxBytes: () => sender.maxBytes,
    payloads,
  };

  return {
    write(results, signal) {
      // A retry may need more messages and calls if the queue has refused their size.
      const attempt = async (entries: readonly Entry[]): Promise<Refusal<Entry>[]> => {
        const { now, behind } = firstOfEachGroup(toMessages(entries), packing.results > 1);
        const sends = toBatches(now).map((batch) => inFlight(() => sender.send(queueUrl, batch, signal)));
        const refusals = (await Promise.all(sends)).flat().map(({ isTooLarge, ...refusal }) => {
          if (refusal.again || refusal.entry.entries.length === 1) return refusal;
          // Its results are sent again: in smaller messages, or alone, so that only the faulty one fails.
          if (!isTooLarge) for (const one of refusal.entry.entries) one.alone = true;
          return { ...refusal, again: true };
        });
        return [...behind.map(notItsTurn), ...refusals].flatMap(ofEachEntry);
      };
      return sendOrOffload(toEntries(results), {
        ...container,
        toPointer: toPointingEntry,
        signal,
        sendBatches: (entries) =>
          sendBatches(entries, {
            store: 'result queue',
            pack: (some) => toBatches(toMessages(some)).map((batch) => batch.flatMap((message) => message.entries)),
            attempt,
            signal,
            retry,
          }),
      });
    },
    refuses: (result) => (payloads === undefined ? refusedForSize(toEntry(result), container) : undefined),
    writtenAsOne: (results) => toMessages(toEntries(results))[0]?.entries.length ?? 1,
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

interface Entry extends Packable {
  readonly result: Result;
  readonly attributes: MessageAttributes;
  /** True also if SQS refused a packed message with it. */
  alone: boolean;
}

type ResultMessage = PackedMessage<Entry>;

/** Results of one message ID share no message, so that a reader can tell them apart. */
function toEntries(results: readonly Result[]): Entry[] {
  const ids = new Set<string>();
  return results.map((result) => {
    const isRepeated = ids.has(result.messageId);
    ids.add(result.messageId);
    return toEntry(result, isRepeated);
  });
}

function toEntry(result: Result, alone = false): Entry {
  const attributes = { [MESSAGE_ID_ATTRIBUTE]: { DataType: 'String', StringValue: result.messageId } };
  return entryOf(result, escapeForSqs(result.body), attributes, alone);
}

function toPointingEntry({ result, attributes }: Entry, pointer: PayloadPointer): Entry {
  const { body, attribute } = pointerMessage(pointer, Buffer.byteLength(result.body));
  return entryOf(result, body, { ...attributes, ...attribute }, true);
}

function entryOf(result: Result, body: string, attributes: MessageAttributes, alone: boolean): Entry {
  const bodyBytes = Buffer.byteLength(body);
  return { result, body, bodyBytes, attributes, bytes: bodyBytes + bytesOf(attributes), alone };
}

function countAttributes(count: number): MessageAttributes {
  return { [RESULTS_ATTRIBUTE]: { DataType: 'Number', StringValue: String(count) } };
}

function formatMessage({ entries }: ResultMessage, isFifo: boolean): Message {
  const [first] = entries as readonly [Entry, ...Entry[]];
  return {
    MessageBody: packedBody(entries),
    MessageAttributes: entries.length > 1 ? countAttributes(entries.length) : first.attributes,
    ...(isFifo && { MessageGroupId: groupOf(first.result), MessageDeduplicationId: deduplicationId(entries) }),
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
