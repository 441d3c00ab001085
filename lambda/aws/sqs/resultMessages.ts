import { createHash } from 'node:crypto';
import type { MessageAttributeValue, SendMessageBatchRequestEntry } from '@aws-sdk/client-sqs';
import { escapeForSqs } from '../../core/json.ts';
import { type PayloadPointer, POINTER_ATTRIBUTES, pointerBody } from '../../core/pointer.ts';
import { MESSAGE_ID_ATTRIBUTE, RESULTS_ATTRIBUTE, type Result } from '../../core/record.ts';

/** How many results a message may hold, and how large it may get by that. */
export interface ResultPacking {
  /** Most results in a message, at least 1. */
  readonly results: number;
  /** Most bytes of a message of several results, its attributes counted. One result alone may be larger. */
  readonly bytes: number;
}

export const SINGLE_RESULTS: ResultPacking = { results: 1, bytes: 0 };

/** A result as it goes onto the queue, alone or packed with others. */
export interface Entry {
  readonly result: Result;
  readonly body: string;
  readonly bodyBytes: number;
  readonly attributes: Readonly<Record<string, MessageAttributeValue>>;
  /** Of a message that holds it alone, as SQS counts them: body and attributes. */
  readonly bytes: number;
  /** Whether it is packed with no other: it is a pointer, or SQS has refused a message that held it. */
  alone: boolean;
}

/** A message to be sent, with one result or several. */
export interface ResultMessage {
  readonly entries: readonly Entry[];
  readonly bytes: number;
}

const [PAYLOAD_SIZE_ATTRIBUTE] = POINTER_ATTRIBUTES;

export function toEntry(result: Result): Entry {
  const attributes = { [MESSAGE_ID_ATTRIBUTE]: { DataType: 'String', StringValue: result.messageId } };
  return entryOf(result, escapeForSqs(result.body), attributes, false);
}

/** In place of an entry that is too large for the queue. */
export function toPointingEntry({ result, attributes }: Entry, pointer: PayloadPointer): Entry {
  const size = { DataType: 'Number', StringValue: String(Buffer.byteLength(result.body)) };
  return entryOf(result, pointerBody(pointer), { ...attributes, [PAYLOAD_SIZE_ATTRIBUTE]: size }, true);
}

function entryOf(result: Result, body: string, attributes: Entry['attributes'], alone: boolean): Entry {
  const bodyBytes = Buffer.byteLength(body);
  return { result, body, bodyBytes, attributes, bytes: bodyBytes + bytesOf(attributes), alone };
}

function bytesOf(attributes: Entry['attributes']): number {
  let bytes = 0;
  for (const [name, { DataType = '', StringValue = '' }] of Object.entries(attributes)) {
    bytes += Buffer.byteLength(name + DataType + StringValue);
  }
  return bytes;
}

/**
 * Packs entries, in order, into as few messages as hold them. On a FIFO queue a message holds results of one message
 * group. No message holds two results of one message ID, so that its results can be told apart by it.
 */
export function packResults(
  entries: readonly Entry[],
  { results: most, bytes: maxBytes }: ResultPacking,
  fifo: boolean,
): ResultMessage[] {
  if (most === 1) return entries.map((entry) => ({ entries: [entry], bytes: entry.bytes }));
  const messages: OpenMessage[] = [];
  const open = new Map<string, OpenMessage>();
  for (const entry of entries) {
    const { result, bodyBytes } = entry;
    const group = fifo ? groupOf(result) : '';
    const last = open.get(group);
    const packedBytes = last === undefined ? 0 : withOneMore(last, bodyBytes);
    const joins = last !== undefined && !entry.alone && last.entries.length < most && packedBytes <= maxBytes;
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
export function toRequestEntry({ entries }: ResultMessage, id: number, fifo: boolean): SendMessageBatchRequestEntry {
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
