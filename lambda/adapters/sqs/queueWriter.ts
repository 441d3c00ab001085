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
import { MESSAGE_ID_ATTRIBUTE, type Result, type ResultWriter } from '../../core/contract/result.ts';
import { describeError } from '../awsError.ts';
import { deliver, deliverOrOffload, type Refusal } from '../deliver.ts';
import type { PayloadUploader } from '../s3/payloads.ts';
import type { RetryOptions } from '../untilDone.ts';
import { allRefused, refusalsIn } from './batchAnswer.ts';
import { packBatchRequests } from './limits.ts';
import { createSizeLimits, type SizeLimits } from './sizeLimits.ts';

export interface QueueWriterOptions {
  readonly sqs: SQSClient;
  readonly queueUrl: string;
  /** Where results go that the queue is too small for, the message then being a pointer. @default none: such a result is refused */
  readonly payloads?: PayloadUploader | undefined;
  /** Most batch requests in flight. @default 16 */
  readonly concurrency?: number;
  readonly retry?: RetryOptions;
}

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
 * the message group of its request. What the queue refuses for its size is offloaded like what SQS itself would refuse.
 */
export function createQueueWriter(options: QueueWriterOptions): ResultWriter {
  const { sqs, queueUrl, payloads, concurrency = 16, retry } = options;
  const limits = createSizeLimits();
  const inFlight = pLimit(concurrency);
  const pack = (entries: readonly Entry[]) => packBatchRequests(entries, limits.batchBytes());

  return {
    write(results, signal) {
      const sendAll = async (entries: readonly Entry[]) => {
        const sends = pack(entries).map((batch) => inFlight(() => send(sqs, queueUrl, batch, limits, signal)));
        return (await Promise.all(sends)).flat();
      };
      return deliverOrOffload(results.map(toEntry), {
        fits: ({ bytes }) => bytes <= limits.messageBytes(),
        offload: (entry) => offload(entry, limits, payloads, signal),
        deliver: (entries) => deliver(entries, { store: 'result queue', pack, attempt: sendAll, signal, retry }),
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
  limits: SizeLimits,
  payloads: PayloadUploader | undefined,
  signal: AbortSignal,
): Promise<Entry | Failure> {
  if (payloads === undefined) return tooLarge(bytes, limits.messageBytes());
  const pointer = await payloads.put(result.body, signal);
  if (isFailure(pointer)) return pointer;
  const size = { DataType: 'Number', StringValue: String(Buffer.byteLength(result.body)) };
  return entryOf(result, pointerBody(pointer), { ...attributes, [PAYLOAD_SIZE_ATTRIBUTE]: size });
}

function tooLarge(bytes: number, messageBytes: number): Failure {
  return failure(
    'RESULT_TOO_LARGE',
    `expected a result of at most ${messageBytes} bytes, the size of a message on the result queue, got ${bytes}; ` +
      'ask for fewer outputs, send fewer rows in a request, or deploy a payload bucket',
  );
}

/** Sends one batch request. One that is too large as a whole is packed smaller when it is sent again. */
async function send(
  sqs: SQSClient,
  queueUrl: string,
  batch: readonly Entry[],
  limits: SizeLimits,
  signal: AbortSignal,
): Promise<Refusal<Entry>[]> {
  const fifo = queueUrl.endsWith('.fifo');
  try {
    const Entries = batch.map((entry, id) => toRequestEntry(entry, id, fifo));
    const command = new SendMessageBatchCommand({ QueueUrl: queueUrl, Entries });
    const refusals = refusalsIn(batch, await sqs.send(command, { abortSignal: signal }));
    for (const { entry, reason } of refusals) limits.learnFromMessage(entry.bytes, reason);
    return refusals;
  } catch (error) {
    const bytes = batch.reduce((sum, entry) => sum + entry.bytes, 0);
    const tooLong = limits.learnFromBatch(bytes, describeError(error));
    const refusals = allRefused(batch, error);
    return tooLong && batch.length > 1 ? refusals.map((refusal) => ({ ...refusal, again: true })) : refusals;
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
