import {
  type BatchResultErrorEntry,
  SendMessageBatchCommand,
  type SendMessageBatchRequestEntry,
  type SQSClient,
} from '@aws-sdk/client-sqs';
import { describeError, isCallersFault } from '../../lambda/aws/awsError.ts';
import type { Entry } from './entry.ts';
import { queueNameOf } from './shards.ts';

/** Why SQS did not take an entry. */
export interface Refusal {
  /** Names the queue, which is one of several where there are shards. */
  readonly message: string;
  /** Worth another try. */
  readonly again: boolean;
  /** The most that the queue takes, where the message was too long for it. */
  readonly maxBytes?: number | undefined;
  readonly cause?: unknown;
}

/** What became of one entry in one batch request. */
export type SendVerdict = { readonly messageId: string } | Refusal;

/**
 * Sends one batch request of at most 10 entries and 1 MiB. Verdicts align with `entries` by index. A 200 answer may name
 * entries that failed, and an entry that it does not mention failed too. An error of SQS is a verdict, never thrown.
 * Entries that are too long together are sent one by one.
 */
export async function sendCall(sqs: SQSClient, queueUrl: string, entries: readonly Entry[]): Promise<SendVerdict[]> {
  try {
    const command = new SendMessageBatchCommand({ QueueUrl: queueUrl, Entries: entries.map(toRequestEntry) });
    const { Successful = [], Failed = [] } = await sqs.send(command);
    const taken = new Map(Successful.map(({ Id, MessageId }) => [Id, MessageId]));
    const refused = new Map(Failed.map((failed) => [failed.Id, failed]));
    return entries.map((_, index): SendVerdict => {
      const messageId = taken.get(String(index));
      return messageId === undefined ? refusalOf(queueUrl, refused.get(String(index))) : { messageId };
    });
  } catch (cause) {
    const reason = describeError(cause);
    const maxBytes = limitIn(reason);
    if (maxBytes !== undefined && entries.length > 1) return await sendEach(sqs, queueUrl, entries);
    const message = notTaken(queueUrl, reason);
    return entries.map(() => ({ message, again: !isCallersFault(cause), maxBytes, cause }));
  }
}

function refusalOf(queueUrl: string, failed: BatchResultErrorEntry | undefined): Refusal {
  const reason = `${failed?.Code ?? 'no answer for this entry'}${failed?.Message ? `: ${failed.Message}` : ''}`;
  return { message: notTaken(queueUrl, reason), again: failed?.SenderFault !== true, maxBytes: limitIn(reason) };
}

function notTaken(queueUrl: string, reason: string): string {
  return `the request queue ${queueNameOf(queueUrl)} did not take it: ${reason}`;
}

/** What SQS says of entries that are too long together, and of one message alone. */
const TOO_LONG = /Batch requests cannot be longer than (\d+) bytes|Message must be shorter than (\d+) bytes/;

function limitIn(reason: string): number | undefined {
  const [, ofRequest, ofMessage] = TOO_LONG.exec(reason) ?? [];
  return ofRequest === undefined && ofMessage === undefined ? undefined : Number(ofRequest ?? ofMessage);
}

/** One after the other. On a FIFO queue none overtakes one that is refused: those behind it are to be sent again. */
async function sendEach(sqs: SQSClient, queueUrl: string, entries: readonly Entry[]): Promise<SendVerdict[]> {
  const verdicts: SendVerdict[] = [];
  for (const [index, entry] of entries.entries()) {
    const [verdict] = await sendCall(sqs, queueUrl, [entry]);
    if (verdict === undefined) throw new Error('expected one verdict on one message');
    verdicts.push(verdict);
    if (queueUrl.endsWith('.fifo') && 'message' in verdict) {
      return [...verdicts, ...entries.slice(index + 1).map((behind) => notItsTurn(queueUrl, behind, verdict))];
    }
  }
  return verdicts;
}

function notItsTurn(queueUrl: string, { bytes }: Entry, { maxBytes = bytes }: Refusal): Refusal {
  const message = notTaken(queueUrl, 'a message before it goes first');
  return { message, again: true, maxBytes: bytes > maxBytes ? maxBytes : undefined };
}

function toRequestEntry(
  { body, attributes, group, deduplicationId }: Entry,
  index: number,
): SendMessageBatchRequestEntry {
  return {
    Id: String(index),
    MessageBody: body,
    MessageAttributes: attributes === undefined ? undefined : { ...attributes },
    MessageGroupId: group,
    MessageDeduplicationId: deduplicationId,
  };
}
