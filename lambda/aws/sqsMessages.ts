import {
  type BatchResultErrorEntry,
  type MessageAttributeValue,
  SendMessageBatchCommand,
  type SendMessageBatchRequestEntry,
  type SQSClient,
} from '@aws-sdk/client-sqs';
import { MAX_MESSAGE_BYTES } from '../core/limits.ts';
import { type PayloadPointer, POINTER_ATTRIBUTES, pointerBody } from '../core/record.ts';
import { describeError, isCallersFault, outageKind } from './awsError.ts';
import { allRefused, type Refusal } from './sendBatches.ts';

/** Makes SQS calls: the SDK's client, or the host's own. */
export type SqsCaller = Pick<SQSClient, 'send'>;

/** Maximum number of messages in one SQS call. @see the page of `MAX_MESSAGE_BYTES` */
export const MAX_BATCH_ENTRIES = 10;

/** Size of a message that SQS bills as one request. */
export const BILLED_BYTES = 65_536;

/** Message without its place in a batch request. */
export type Message = Omit<SendMessageBatchRequestEntry, 'Id'>;

interface SenderOptions<M> {
  readonly sqs: SqsCaller;
  readonly isFifo: boolean;
  readonly format: (message: M) => Message;
  /** Called with each message that SQS took, and its ID. */
  readonly onTaken?: (message: M, messageId: string) => void;
}

interface SendRefusal<M> extends Refusal<M> {
  /** True if the message is too large for the queue. A retry must be smaller. */
  readonly isTooLarge: boolean;
}

/**
 * Sends messages to a queue in batch requests. If SQS refuses a whole request, each message is sent alone, because only
 * one of them may be at fault.
 */
export class MessageSender<M extends { readonly bytes: number }> {
  /**
   * Maximum bytes of a message, and of all messages in a request. Refusals lower it: a queue may be set to less than
   * 1 MiB, and reading its attributes needs a permission that a sender may lack.
   */
  maxBytes = MAX_MESSAGE_BYTES;
  readonly #options: SenderOptions<M>;

  constructor(options: SenderOptions<M>) {
    this.#options = options;
  }

  /**
   * Makes one batch request of at most ten messages.
   *
   * @param signal ends the request. Messages may have been sent then
   * @returns the messages that SQS did not take
   */
  async send(queueUrl: string, messages: readonly M[], signal?: AbortSignal): Promise<readonly SendRefusal<M>[]> {
    const { sqs, format, onTaken } = this.#options;
    const Entries = messages.map((message, index) => ({ Id: String(index), ...format(message) }));
    try {
      const command = new SendMessageBatchCommand({ QueueUrl: queueUrl, Entries });
      const { Successful = [], Failed } = await sqs.send(command, { abortSignal: signal });
      // Without its ID, the sender of a request could not find the result.
      const taken = Successful.filter(({ MessageId }) => onTaken === undefined || MessageId !== undefined);
      const refusals = refusalsIn(messages, { Successful: taken, Failed });
      const refused = new Set(refusals.map(({ entry }) => entry));
      for (const { Id, MessageId = '' } of taken) {
        const message = messages[Number(Id)];
        if (message !== undefined && !refused.has(message)) onTaken?.(message, MessageId);
      }
      return refusals.map((refusal) => ({
        ...refusal,
        isTooLarge: this.#learn(refusal.reason, refusal.entry.bytes),
      }));
    } catch (error) {
      const bytes = messages.reduce((sum, message) => sum + message.bytes, 0);
      const isTooLarge = this.#learn(describeError(error), bytes);
      const isOfOne = isCallersFault(error) && outageKind(error) === undefined && !isTooLarge;
      if (isOfOne && messages.length > 1) return await this.#sendEach(queueUrl, messages, signal);
      const again = isTooLarge && messages.length > 1;
      return allRefused(messages, error).map((refusal) => ({
        ...refusal,
        again: again || refusal.again,
        isTooLarge: isTooLarge && !again,
      }));
    }
  }

  /** On a FIFO queue, messages behind one that is sent again wait, because they would overtake it. */
  async #sendEach(queueUrl: string, messages: readonly M[], signal?: AbortSignal): Promise<readonly SendRefusal<M>[]> {
    const refusals: SendRefusal<M>[] = [];
    for (const message of messages) {
      const waits = this.#options.isFifo && refusals.some(({ again }) => again);
      if (waits) refusals.push({ entry: message, reason: 'it waits for others', again: true, isTooLarge: false });
      else refusals.push(...(await this.send(queueUrl, [message], signal)));
    }
    return refusals;
  }

  /** Returns true if SQS refused `bytes` bytes for their size, and lowers the maximum then. */
  #learn(reason: string, bytes: number): boolean {
    const limit = limitIn(reason);
    if (limit !== undefined) this.maxBytes = Math.min(this.maxBytes, limit, bytes - 1);
    return limit !== undefined;
  }
}

/** Minimum of a size limit of a queue. */
const LEAST_LIMIT = 1_024;
/** Matches `Message must be shorter than 262144 bytes.` and `Batch requests cannot be longer than 262144 bytes. …`. */
const SIZE_REFUSAL = /\b(?:shorter|longer) than (\d+) bytes/;

function limitIn(reason: string): number | undefined {
  const max = SIZE_REFUSAL.exec(reason)?.[1];
  return max === undefined || Number(max) < LEAST_LIMIT ? undefined : Number(max);
}

/** Response to an SQS batch request. Real responses have both lists. */
export interface BatchAnswer {
  readonly Successful?: readonly { readonly Id?: string | undefined }[] | undefined;
  readonly Failed?: readonly BatchResultErrorEntry[] | undefined;
}

/**
 * Returns the entries that a 200 response does not report as done, with the reasons. The ID of an entry is its position
 * in `batch`. An entry that the response does not name has failed, too.
 */
export function refusalsIn<E>(batch: readonly E[], { Successful = [], Failed = [] }: BatchAnswer): Refusal<E>[] {
  const done = new Set(Successful.map(({ Id }) => Id));
  const failed = new Map(Failed.map((one) => [String(one.Id), one]));
  // If a response names unknown entries as failed, any entry may have failed.
  const isOdd = batch.filter((_, position) => failed.has(String(position))).length < failed.size;
  const refusals: Refusal<E>[] = [];
  for (const [position, entry] of batch.entries()) {
    const refused = failed.get(String(position));
    if (refused !== undefined) {
      const again = refused.SenderFault !== true;
      refusals.push({ entry, reason: describe(refused), again, outage: again ? 'busy' : undefined });
    } else if (isOdd || !done.has(String(position))) {
      const reason = isOdd ? 'an answer that names entries that were not sent' : 'no answer for this entry';
      refusals.push({ entry, reason, again: true, outage: 'busy' });
    }
  }
  return refusals;
}

function describe({ Code, Message }: { readonly Code?: unknown; readonly Message?: unknown }): string {
  const code = typeof Code === 'string' ? Code : 'no code';
  return typeof Message === 'string' && Message !== '' ? `${code}: ${Message}` : code;
}

/** Request or result that may share a message with others. */
export interface Packable {
  /** JSON text. */
  readonly body: string;
  readonly bodyBytes: number;
  /** Bytes of a message with this entry alone: body and attributes. */
  readonly bytes: number;
  /** True if it must have its own message. */
  readonly alone: boolean;
}

interface Packing<E> {
  /** Maximum number of entries in a message. */
  readonly most: number;
  /** Maximum bytes of a message with several entries, attributes included. A larger entry is alone. */
  readonly bytes: number;
  /** Returns the bytes of the attributes of a message with several entries. */
  readonly attributeBytes: (entries: number) => number;
  /** Returns the message group. Entries of different groups share no message. */
  readonly groupOf: (entry: E) => string | undefined;
  /** True to keep the order within a group even around an entry that is alone. */
  readonly isOrdered: boolean;
}

export interface PackedMessage<E> {
  readonly entries: readonly E[];
  /** Size of the message as SQS counts it. */
  readonly bytes: number;
}

/** Packs entries, in order, into as few messages as possible. */
export function packMessages<E extends Packable>(entries: readonly E[], packing: Packing<E>): PackedMessage<E>[] {
  const { most, bytes: maxBytes, attributeBytes, groupOf, isOrdered } = packing;
  const messages: OpenMessage<E>[] = [];
  const open = new Map<string | undefined, OpenMessage<E>>();
  for (const entry of entries) {
    const group = groupOf(entry);
    const isAlone = entry.alone || entry.bytes > maxBytes || most === 1;
    const last = isAlone ? undefined : open.get(group);
    if (last !== undefined && last.entries.length < most) {
      const bodyBytes = last.bodyBytes + ','.length + entry.bodyBytes;
      const bytes = bodyBytes + '[]'.length + attributeBytes(last.entries.length + 1);
      if (bytes <= maxBytes) {
        last.entries.push(entry);
        last.bodyBytes = bodyBytes;
        last.bytes = bytes;
        continue;
      }
    }
    const message = { entries: [entry], bodyBytes: entry.bodyBytes, bytes: entry.bytes };
    messages.push(message);
    if (!isAlone) open.set(group, message);
    else if (isOrdered) open.delete(group);
  }
  return messages;
}

interface OpenMessage<E> {
  readonly entries: E[];
  bodyBytes: number;
  bytes: number;
}

/** Returns the body of a message: an entry's own, or a JSON array of those of several. */
export function packedBody([first, ...others]: readonly Packable[]): string {
  if (first === undefined) throw new Error('expected at least one entry in a message');
  return others.length === 0 ? first.body : `[${[first, ...others].map(({ body }) => body).join(',')}]`;
}

export type MessageAttributes = Readonly<Record<string, MessageAttributeValue>>;

/** Returns the bytes of message attributes, as SQS counts them. */
export function bytesOf(attributes: MessageAttributes): number {
  let bytes = 0;
  for (const [name, { DataType = '', StringValue = '' }] of Object.entries(attributes)) {
    bytes += Buffer.byteLength(name + DataType + StringValue);
  }
  return bytes;
}

/** Returns the body and the attribute of a message whose own body of `bytes` bytes is in the payload bucket. */
export function pointerMessage(pointer: PayloadPointer, bytes: number) {
  const [name] = POINTER_ATTRIBUTES;
  return { body: pointerBody(pointer), attribute: { [name]: { DataType: 'Number', StringValue: String(bytes) } } };
}
