import { SendMessageBatchCommand } from '@aws-sdk/client-sqs';
import pLimit from 'p-limit';
import { type Failure, failure, isFailure } from '../../core/failure.ts';
import type { ResultWriter } from '../../core/record.ts';
import { describeError } from '../awsError.ts';
import { deliver, deliverOrOffload, type Refusal } from '../deliver.ts';
import { ofAttempt } from '../observedCalls.ts';
import type { PayloadUploader } from '../s3/payloads.ts';
import type { RetryOptions } from '../untilDone.ts';
import { allRefused, refusalsIn } from './batchAnswer.ts';
import type { SqsCaller } from './caller.ts';
import { packBatchRequests } from './limits.ts';
import {
  type Entry,
  packResults,
  type ResultMessage,
  type ResultPacking,
  SINGLE_RESULTS,
  toEntry,
  toPointingEntry,
  toRequestEntry,
} from './resultMessages.ts';
import { createSizeLimits, type SizeLimits } from './sizeLimits.ts';

export interface QueueWriterOptions {
  readonly sqs: SqsCaller;
  readonly queueUrl: string;
  /** How results share messages. @default each has a message of its own */
  readonly packing?: ResultPacking | undefined;
  /** Where results go that the queue is too small for, the message then being a pointer. @default none: such a result is refused */
  readonly payloads?: PayloadUploader | undefined;
  /** Most batch requests in flight. @default 16 */
  readonly concurrency?: number;
  readonly retry?: RetryOptions;
}

/**
 * Writes results to an SQS queue, up to ten messages in a batch request, several of these at once. On a FIFO queue a
 * result is in the message group of its request. What the queue refuses for its size is offloaded like what SQS itself
 * would refuse. The results of one message are written all or not at all.
 */
export function createQueueWriter(options: QueueWriterOptions): ResultWriter {
  const { sqs, queueUrl, packing = SINGLE_RESULTS, payloads, concurrency = 16, retry } = options;
  const fifo = queueUrl.endsWith('.fifo');
  const limits = createSizeLimits();
  const inFlight = pLimit(concurrency);
  const toMessages = (entries: readonly Entry[]): ResultMessage[] =>
    packResults(entries, { ...packing, bytes: Math.min(packing.bytes, limits.messageBytes()) }, fifo);
  const pack = (entries: readonly Entry[]): Entry[][] =>
    packBatchRequests(toMessages(entries), limits.batchBytes()).map((batch) => batch.flatMap(({ entries }) => entries));

  return {
    write(results, signal) {
      const sendAll = async (entries: readonly Entry[], attempt: number): Promise<Refusal<Entry>[]> => {
        const { now, behind } = inTurn(toMessages(entries), fifo && packing.results > 1);
        const sends = packBatchRequests(now, limits.batchBytes()).map((batch) =>
          inFlight(() => send(sqs, queueUrl, batch, limits, signal, attempt)),
        );
        return [...behind.map(notItsTurn), ...(await Promise.all(sends)).flat()].flatMap(ofEachEntry);
      };
      return deliverOrOffload(results.map(toEntry), {
        fits: ({ bytes }) => bytes <= limits.messageBytes(),
        offload: (entry) => offload(entry, limits, payloads, signal),
        deliver: (entries) => deliver(entries, { store: 'result queue', pack, attempt: sendAll, signal, retry }),
      });
    },
    writtenAsOne: (results) => toMessages(results.map(toEntry))[0]?.entries.length ?? 1,
  };
}

/**
 * Results of a message group that were to share a message may need several once the queue has refused that one for its
 * size. In one batch request the second may be taken and the first not, so only the first is sent.
 */
function inTurn(messages: readonly ResultMessage[], ordered: boolean) {
  if (!ordered) return { now: messages, behind: [] };
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

async function offload(
  entry: Entry,
  limits: SizeLimits,
  payloads: PayloadUploader | undefined,
  signal: AbortSignal,
): Promise<Entry | Failure> {
  if (payloads === undefined) return tooLarge(entry.bytes, limits.messageBytes());
  const pointer = await payloads.put(entry.result.body, signal);
  return isFailure(pointer) ? pointer : toPointingEntry(entry, pointer);
}

function tooLarge(bytes: number, messageBytes: number): Failure {
  return failure(
    'RESULT_TOO_LARGE',
    `expected a result of at most ${messageBytes} bytes, the size of a message on the result queue, got ${bytes}; ` +
      'ask for fewer outputs, send fewer rows in a request, or deploy a payload bucket',
  );
}

/** Sends one batch request. What is too large, the request as a whole or a packed message, is packed smaller next time. */
async function send(
  sqs: SqsCaller,
  queueUrl: string,
  batch: readonly ResultMessage[],
  limits: SizeLimits,
  signal: AbortSignal,
  attempt: number,
): Promise<Refusal<ResultMessage>[]> {
  const fifo = queueUrl.endsWith('.fifo');
  try {
    const Entries = batch.map((message, id) => toRequestEntry(message, id, fifo));
    const command = ofAttempt(attempt, new SendMessageBatchCommand({ QueueUrl: queueUrl, Entries }));
    const refusals = refusalsIn(batch, await sqs.send(command, { abortSignal: signal }));
    return refusals.map((refusal) => refusedMessage(refusal, limits));
  } catch (error) {
    const bytes = batch.reduce((sum, message) => sum + message.bytes, 0);
    const tooLong = limits.learnFromBatch(bytes, describeError(error));
    const refusals = allRefused(batch, error);
    const divisible = batch.length > 1 || isPacked(batch[0]);
    return tooLong && divisible ? refusals.map((refusal) => ({ ...refusal, again: true })) : refusals;
  }
}

/** A packed message that SQS refuses for good may hold one result at fault: each goes alone, so that it fails alone. */
function refusedMessage(refusal: Refusal<ResultMessage>, limits: SizeLimits): Refusal<ResultMessage> {
  const { entry, reason, again } = refusal;
  const tooLong = limits.learnFromMessage(entry.bytes, reason);
  if (again || !isPacked(entry)) return refusal;
  if (!tooLong) for (const one of entry.entries) one.alone = true;
  return { ...refusal, again: true };
}

function isPacked(message: ResultMessage | undefined): boolean {
  return message !== undefined && message.entries.length > 1;
}
