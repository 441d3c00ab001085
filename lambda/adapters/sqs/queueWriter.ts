import {
  type MessageAttributeValue,
  SendMessageBatchCommand,
  type SendMessageBatchRequestEntry,
  type SQSClient,
} from '@aws-sdk/client-sqs';
import pLimit from 'p-limit';
import { escapeForSqs } from '../../core/base/sqsText.ts';
import { type Failure, failure, isFailure } from '../../core/contract/failure.ts';
import { POINTER_ATTRIBUTES, pointerBody } from '../../core/contract/pointer.ts';
import type { Result, ResultWriter } from '../../core/contract/result.ts';
import { describeError, isCallersFault } from '../awsError.ts';
import { deliver, deliverOrOffload, type Refusal } from '../deliver.ts';
import type { RetryOptions } from '../retry.ts';
import type { PayloadUploader } from '../s3/payloads.ts';
import { MAX_MESSAGE_BYTES, packBatchRequests } from './limits.ts';

export interface QueueWriterOptions {
  readonly sqs: SQSClient;
  readonly queueUrl: string;
  /** Where results over 1 MiB go, the message then being a pointer. @default none: such a result is refused */
  readonly payloads?: PayloadUploader | undefined;
  /** Most batch requests in flight. @default 16 */
  readonly concurrency?: number;
  readonly retry?: RetryOptions;
}

/** Name of the message attribute that carries the request's message ID beside the body. */
export const MESSAGE_ID_ATTRIBUTE = 'messageId';
const [PAYLOAD_SIZE_ATTRIBUTE] = POINTER_ATTRIBUTES;

type Attributes = Readonly<Record<string, MessageAttributeValue>>;

interface Entry {
  readonly bytes: number;
  readonly body: string;
  readonly attributes: Attributes;
  readonly result: Result;
}

/**
 * Writes results to an SQS queue, up to ten in a batch request, several of these at once. On a FIFO queue a result is in
 * the message group of its request.
 */
export function createQueueWriter(options: QueueWriterOptions): ResultWriter {
  const { sqs, queueUrl, payloads, concurrency = 16, retry } = options;
  const fifo = queueUrl.endsWith('.fifo');
  const inFlight = pLimit(concurrency);

  return {
    write(results, signal) {
      const sendAll = async (entries: readonly Entry[]) => {
        const sends = packBatchRequests(entries).map((batch) =>
          inFlight(() => send(sqs, queueUrl, batch, fifo, signal)),
        );
        return (await Promise.all(sends)).flat();
      };
      return deliverOrOffload(results.map(toEntry), {
        fits: ({ bytes }) => bytes <= MAX_MESSAGE_BYTES,
        offload: (entry) => offload(entry, payloads, signal),
        deliver: (entries) => deliver(entries, { store: 'result queue', attempt: sendAll, signal, retry }),
      });
    },
  };
}

function toEntry(result: Result): Entry {
  return entryOf(result, escapeForSqs(result.body), {
    [MESSAGE_ID_ATTRIBUTE]: { DataType: 'String', StringValue: result.messageId },
  });
}

function entryOf(result: Result, body: string, attributes: Attributes): Entry {
  let bytes = Buffer.byteLength(body);
  for (const [name, { DataType = '', StringValue = '' }] of Object.entries(attributes)) {
    bytes += Buffer.byteLength(name + DataType + StringValue);
  }
  return { bytes, body, attributes, result };
}

async function offload(
  { result, bytes, attributes }: Entry,
  payloads: PayloadUploader | undefined,
  signal: AbortSignal,
): Promise<Entry | Failure> {
  if (payloads === undefined) return tooLarge(bytes);
  const pointer = await payloads.put(result.body, signal);
  if (isFailure(pointer)) return pointer;
  const size = { DataType: 'Number', StringValue: String(Buffer.byteLength(result.body)) };
  return entryOf(result, pointerBody(pointer), { ...attributes, [PAYLOAD_SIZE_ATTRIBUTE]: size });
}

function tooLarge(bytes: number): Failure {
  return failure(
    'RESULT_TOO_LARGE',
    `expected a result of at most ${MAX_MESSAGE_BYTES} bytes, the size of an SQS message, got ${bytes}; ` +
      'ask for fewer outputs, send fewer rows in a request, or deploy a payload bucket',
  );
}

/** Sends one batch request. A 200 answer may name entries that failed; an entry that it does not name failed too. */
async function send(
  sqs: SQSClient,
  queueUrl: string,
  batch: readonly Entry[],
  fifo: boolean,
  signal: AbortSignal,
): Promise<Refusal<Entry>[]> {
  try {
    const Entries = batch.map((entry, id) => toRequestEntry(entry, id, fifo));
    const command = new SendMessageBatchCommand({ QueueUrl: queueUrl, Entries });
    const { Successful = [], Failed = [] } = await sqs.send(command, { abortSignal: signal });
    const sent = new Set(Successful.map(({ Id }) => Id));
    return batch.flatMap((entry, id) => {
      if (sent.has(String(id))) return [];
      const failed = Failed.find(({ Id }) => Id === String(id));
      const reason = `${failed?.Code ?? 'no answer for this entry'}${failed?.Message ? `: ${failed.Message}` : ''}`;
      return [{ entry, reason, again: failed?.SenderFault !== true }];
    });
  } catch (error) {
    return batch.map((entry) => ({ entry, reason: describeError(error), again: !isCallersFault(error) }));
  }
}

function toRequestEntry({ body, attributes, result }: Entry, id: number, fifo: boolean): SendMessageBatchRequestEntry {
  return {
    Id: String(id),
    MessageBody: body,
    MessageAttributes: attributes,
    ...(fifo
      ? { MessageGroupId: result.messageGroupId ?? result.messageId, MessageDeduplicationId: result.messageId }
      : {}),
  };
}
