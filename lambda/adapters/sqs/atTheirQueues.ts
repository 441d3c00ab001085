import type { MessageRecord } from '../../core/contract/record.ts';
import type { ActOnMessages } from './messageAction.ts';

export interface RequestQueues {
  /** The queues that records may come from, one for each shard. */
  readonly queueUrls: readonly string[];
  /** What is done to the records of one queue. */
  readonly act: (queueUrl: string) => ActOnMessages<MessageRecord>;
  /** Told of records of another queue: nothing is done to them, as no call to a queue of ours would be right. */
  readonly onProblem: (error: unknown) => void;
}

/** Does something to records at the queue that each came from: a receipt handle is worth nothing at another. */
export function atTheirQueues({ queueUrls, act, onProblem }: RequestQueues): ActOnMessages<MessageRecord> {
  const actions = new Map(queueUrls.map((url) => [url.slice(url.lastIndexOf('/') + 1), act(url)]));
  return async (records, signal) => {
    const byQueue = Map.groupBy(records, ({ eventSourceARN }) => eventSourceARN);
    await Promise.all(
      Array.from(byQueue, async ([arn, those]) => {
        const action = actions.get(arn.slice(arn.lastIndexOf(':') + 1));
        if (action === undefined) onProblem(unknownQueue(arn, those.length, queueUrls));
        else await action(those, signal);
      }),
    );
  };
}

function unknownQueue(arn: string, records: number, queueUrls: readonly string[]): Error {
  return new Error(
    `expected records of ${queueUrls.join(' or ')}, got ${records} of ${arn}, which stay until their visibility ` +
      'timeout ends; add the URL of that queue to the request queues of the configuration, or remove its event source mapping',
  );
}
