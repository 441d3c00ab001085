import { DeleteMessageBatchCommand, type SQSClient } from '@aws-sdk/client-sqs';
import { MAX_BATCH_ENTRIES } from '../../lambda/adapters/sqs/limits.ts';

/** Runs a task when its turn has come. */
export type Limit = <T>(task: () => Promise<T>) => Promise<T>;

export interface DeleteOptions {
  sqs: SQSClient;
  queueUrl: string;
  limit: Limit;
  onError: (error: unknown) => void;
}

/** Deletes messages, ten in a batch request. Never rejects: a message that stays is reported, and comes back. */
export async function deleteMessages(receiptHandles: readonly string[], options: DeleteOptions): Promise<void> {
  const deletes = inBatches(receiptHandles).map((batch) => options.limit(() => deleteBatch(batch, options)));
  await Promise.all(deletes);
}

async function deleteBatch(
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

function inBatches<T>(items: readonly T[]): T[][] {
  const batches = Math.ceil(items.length / MAX_BATCH_ENTRIES);
  return Array.from({ length: batches }, (_, index) =>
    items.slice(index * MAX_BATCH_ENTRIES, (index + 1) * MAX_BATCH_ENTRIES),
  );
}
