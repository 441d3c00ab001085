import { DeleteMessageBatchCommand, type SQSClient } from '@aws-sdk/client-sqs';
import { MAX_BATCH_ENTRIES } from '../../lambda/adapters/sqs/limits.ts';

/** Runs a call when its turn has come. */
export type Limit = <T>(call: () => Promise<T>) => Promise<T>;

export interface DeleteOptions {
  sqs: SQSClient;
  queueUrl: string;
  limit: Limit;
  onError: (error: unknown) => void;
}

/** Deletes messages, ten a call. Never rejects: what is not deleted is reported, and comes back by itself. */
export async function deleteMessages(receiptHandles: readonly string[], options: DeleteOptions): Promise<void> {
  const calls = chunks(receiptHandles, MAX_BATCH_ENTRIES).map((chunk) =>
    options.limit(() => deleteChunk(chunk, options)),
  );
  await Promise.all(calls);
}

async function deleteChunk(
  receiptHandles: readonly string[],
  { sqs, queueUrl, onError }: DeleteOptions,
): Promise<void> {
  const Entries = receiptHandles.map((ReceiptHandle, index) => ({ Id: String(index), ReceiptHandle }));
  try {
    const { Failed = [] } = await sqs.send(new DeleteMessageBatchCommand({ QueueUrl: queueUrl, Entries }));
    for (const { Code, Message } of Failed) onError(new Error(`SQS refused to delete a message: ${Code} ${Message}`));
  } catch (error) {
    onError(error);
  }
}

function chunks<T>(items: readonly T[], size: number): T[][] {
  const starts = Array.from({ length: Math.ceil(items.length / size) }, (_, index) => index * size);
  return starts.map((start) => items.slice(start, start + size));
}
