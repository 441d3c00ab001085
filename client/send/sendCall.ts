import { SendMessageBatchCommand, type SendMessageBatchRequestEntry, type SQSClient } from '@aws-sdk/client-sqs';
import { describeError, isCallersFault } from '../../lambda/adapters/awsError.ts';
import type { Entry } from './entry.ts';

/** What became of one entry in one call. `again`: worth another try. */
export type SendVerdict =
  | { readonly messageId: string }
  | { readonly reason: string; readonly again: boolean; readonly cause?: unknown };

/**
 * Sends one batch call of at most 10 entries and 1 MiB. Verdicts align with `entries` by index. A 200 answer may name
 * entries that failed, and an entry that it does not mention failed too. An error of SQS is a verdict, never thrown.
 */
export async function sendCall(sqs: SQSClient, queueUrl: string, entries: readonly Entry[]): Promise<SendVerdict[]> {
  try {
    const command = new SendMessageBatchCommand({ QueueUrl: queueUrl, Entries: entries.map(toRequestEntry) });
    const { Successful = [], Failed = [] } = await sqs.send(command);
    const taken = new Map(Successful.map(({ Id, MessageId }) => [Id, MessageId]));
    const refused = new Map(Failed.map((failed) => [failed.Id, failed]));
    return entries.map((_, index): SendVerdict => {
      const messageId = taken.get(String(index));
      if (messageId !== undefined) return { messageId };
      const failed = refused.get(String(index));
      const reason = `${failed?.Code ?? 'no answer for this entry'}${failed?.Message ? `: ${failed.Message}` : ''}`;
      return { reason, again: failed?.SenderFault !== true };
    });
  } catch (cause) {
    return entries.map(() => ({ reason: describeError(cause), again: !isCallersFault(cause), cause }));
  }
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
