import type { MessageRecord } from '../../core/record.ts';
import type { ActOnMessages } from './messageAction.ts';

/** What it takes to act on a message at the queue that it came from. */
export type QueuedMessage = Pick<MessageRecord, 'receiptHandle' | 'eventSourceARN'>;

export interface RequestQueues<M> {
  /** The queues that records may come from, one for each shard. */
  readonly queueUrls: readonly string[];
  /** What is done to the records of one queue. */
  readonly act: (queueUrl: string) => ActOnMessages<M>;
  /** Told of records of another queue: nothing is done to them, as no call to a queue of ours would be right. */
  readonly onProblem: (error: Error) => void;
}

/** Does something to records at the queue that each came from: a receipt handle is worth nothing at another. */
export function atTheirQueues<M extends QueuedMessage>({
  queueUrls,
  act,
  onProblem,
}: RequestQueues<M>): ActOnMessages<M> {
  const actions = new Map(queueUrls.map((url) => [url.slice(url.lastIndexOf('/') + 1), act(url)]));
  return async (records, signal) => {
    const byQueue = Map.groupBy(records, ({ eventSourceARN }) => eventSourceARN);
    const undone = await Promise.all(
      Array.from(byQueue, async ([arn, those]) => {
        const action = actions.get(arn.slice(arn.lastIndexOf(':') + 1));
        if (action !== undefined) return await action(those, signal);
        onProblem(unknownQueue(arn, those.length, queueUrls));
        return those;
      }),
    );
    return undone.flat();
  };
}

function unknownQueue(arn: string, records: number, queueUrls: readonly string[]): Error {
  return new Error(
    `expected records of ${queueUrls.join(' or ')}, got ${records} of ${arn}, which stay until their visibility ` +
      'timeout ends; add the URL of that queue to the request queues of the configuration, or remove its event source mapping',
  );
}
