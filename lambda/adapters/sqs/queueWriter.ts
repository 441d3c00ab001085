import { SendMessageBatchCommand, type SendMessageBatchRequestEntry, type SQSClient } from '@aws-sdk/client-sqs';
import pLimit from 'p-limit';
import { failure } from '../../core/failure.ts';
import type { Result, ResultWriter, WriteVerdict } from '../../core/result.ts';
import { type RetryOptions, untilDone } from '../retry.ts';
import { MAX_MESSAGE_BYTES, packCalls } from './limits.ts';

export interface QueueWriterOptions {
  readonly sqs: SQSClient;
  readonly queueUrl: string;
  /** Most calls in flight. @default 16 */
  readonly concurrency?: number;
  readonly retry?: RetryOptions;
}

/** Name of the message attribute that carries the request's message ID beside the body. */
export const MESSAGE_ID_ATTRIBUTE = 'messageId';

interface Entry {
  readonly index: number;
  readonly bytes: number;
  readonly body: string;
  readonly result: Result;
}

/** What became of one entry in one call. `again`: worth another try. */
interface Refusal {
  readonly entry: Entry;
  readonly reason: string;
  readonly again: boolean;
}

/** Writes results to an SQS queue, ten a call, several calls at once; on a FIFO queue in the request's group. */
export function createQueueWriter({ sqs, queueUrl, concurrency = 16, retry }: QueueWriterOptions): ResultWriter {
  const fifo = queueUrl.endsWith('.fifo');
  const inFlight = pLimit(concurrency);

  return {
    async write(results, signal) {
      const verdicts: WriteVerdict[] = results.map(() => ({ written: true }));
      const refuse = ({ entry, reason }: Refusal): void => {
        verdicts[entry.index] = failure('WRITE_FAILED', `result queue: ${reason}`);
      };
      const entries = results.map(toEntry);
      for (const { index, bytes } of entries.filter(isTooLarge)) verdicts[index] = tooLarge(bytes);

      const sendable = entries.filter((entry) => !isTooLarge(entry));
      await untilDone(
        sendable,
        async (left) => {
          const calls = packCalls(left).map((call) => inFlight(() => send(sqs, queueUrl, call, fifo, signal)));
          const refusals = (await Promise.all(calls)).flat();
          for (const { index } of left) verdicts[index] = { written: true };
          refusals.forEach(refuse);
          return refusals.filter(({ again }) => again).map(({ entry }) => entry);
        },
        signal,
        retry,
      );
      return verdicts;
    },
  };
}

function toEntry(result: Result, index: number): Entry {
  const body = result.body.replace(NOT_ALLOWED_BY_SQS, (character) => `\\u${character.charCodeAt(0).toString(16)}`);
  const attributeBytes = MESSAGE_ID_ATTRIBUTE.length + 'String'.length + result.messageId.length;
  return { index, bytes: Buffer.byteLength(body) + attributeBytes, body, result };
}

/**
 * The characters of a JSON text that SQS refuses: JSON escapes the others itself.
 *
 * @see https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html
 */
const NOT_ALLOWED_BY_SQS = /[\uFFFE\uFFFF]/g;

function isTooLarge(entry: Entry): boolean {
  return entry.bytes > MAX_MESSAGE_BYTES;
}

function tooLarge(bytes: number): WriteVerdict {
  return failure(
    'RESULT_TOO_LARGE',
    `expected a result of at most ${MAX_MESSAGE_BYTES} bytes, the size of an SQS message, got ${bytes}; ` +
      'ask for fewer outputs or send fewer rows in a request',
  );
}

/** Sends one batch call. A 200 answer may hold entries that failed; an entry it does not mention failed too. */
async function send(
  sqs: SQSClient,
  queueUrl: string,
  call: readonly Entry[],
  fifo: boolean,
  signal: AbortSignal,
): Promise<Refusal[]> {
  try {
    const Entries = call.map((entry, id) => toRequestEntry(entry, id, fifo));
    const command = new SendMessageBatchCommand({ QueueUrl: queueUrl, Entries });
    const { Successful = [], Failed = [] } = await sqs.send(command, { abortSignal: signal });
    const sent = new Set(Successful.map(({ Id }) => Id));
    return call.flatMap((entry, id) => {
      if (sent.has(String(id))) return [];
      const failed = Failed.find(({ Id }) => Id === String(id));
      const reason = `${failed?.Code ?? 'no answer for this entry'}${failed?.Message ? `: ${failed.Message}` : ''}`;
      return [{ entry, reason, again: failed?.SenderFault !== true }];
    });
  } catch (error) {
    const reason = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
    return call.map((entry) => ({ entry, reason, again: !isCallersFault(error) }));
  }
}

function toRequestEntry({ body, result }: Entry, id: number, fifo: boolean): SendMessageBatchRequestEntry {
  return {
    Id: String(id),
    MessageBody: body,
    MessageAttributes: { [MESSAGE_ID_ATTRIBUTE]: { DataType: 'String', StringValue: result.messageId } },
    ...(fifo
      ? { MessageGroupId: result.messageGroupId ?? result.messageId, MessageDeduplicationId: result.messageId }
      : {}),
  };
}

/** A missing queue or permission does not get better within the invocation; throttling, though a fault of ours, does. */
function isCallersFault(error: unknown): boolean {
  if (!(error instanceof Error) || !('$fault' in error)) return false;
  return error.$fault === 'client' && !/Throttl|TooManyRequests|RequestTimeout/.test(error.name);
}
