import { GetQueueAttributesCommand, type QueueAttributeName, type SQSClient } from '@aws-sdk/client-sqs';
import type { LocalQueues } from '../queues.ts';
import type { QueuesSeen } from './wire.ts';

export interface QueuesOptions {
  readonly sqs: SQSClient;
  readonly queues: LocalQueues;
  /** When the newest message was sent that was handed to the function, in milliseconds since 1970. */
  readonly newestSentAt: () => number;
  /** Asked for what is there once, which takes a moment. @default the system's */
  readonly now?: () => number;
}

/** Asks how much lies on the queues. */
export function createQueueWatch({ sqs, queues, newestSentAt, now = Date.now }: QueuesOptions): {
  look(): Promise<QueuesSeen>;
} {
  let emptyAt = now();
  const countsOf = async (QueueUrl: string): Promise<{ waiting: number; inFlight: number }> => {
    const { Attributes = {} } = await sqs.send(new GetQueueAttributesCommand({ QueueUrl, AttributeNames: NAMES }));
    const { ApproximateNumberOfMessages: waiting, ApproximateNumberOfMessagesNotVisible: inFlight } = Attributes;
    return { waiting: Number(waiting), inFlight: Number(inFlight) };
  };
  return {
    async look() {
      const [requests, deadLetters, results] = await Promise.all([
        Promise.all(queues.requestQueues.map(({ queueUrl }) => countsOf(queueUrl))),
        countsOf(queues.deadLetterQueueUrl),
        countsOf(queues.resultQueueUrl),
      ]);
      const waiting = requests.reduce((sum, one) => sum + one.waiting, 0);
      if (waiting === 0) emptyAt = now();
      return {
        waiting,
        inFlight: requests.reduce((sum, one) => sum + one.inFlight, 0),
        // What waits was sent after what was handed over, as a rule, and after the queue was empty.
        oldestMs: waiting === 0 ? 0 : Math.max(0, now() - Math.max(emptyAt, newestSentAt())),
        deadLetters: deadLetters.waiting,
        results: results.waiting + results.inFlight,
      };
    },
  };
}

const NAMES: QueueAttributeName[] = ['ApproximateNumberOfMessages', 'ApproximateNumberOfMessagesNotVisible'];
