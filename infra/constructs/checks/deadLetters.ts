import type { IQueue } from 'aws-cdk-lib/aws-sqs';
import type { Problem } from '../base/refuse.ts';
import { fifoOf } from '../storage/known.ts';
import { type ExistingQueue, redriveOf } from '../storage/requestQueue.ts';

/**
 * Dead letters of an existing request queue that its redrive policy does not name, as far as the CDK knows it: alarm and
 * permissions would be those of a queue that gets none.
 *
 * @param maxReceiveCount as it was given; undefined is left to the queue's own
 */
export function deadLetterProblems(
  existing: ExistingQueue | undefined,
  maxReceiveCount: number | undefined,
): Problem[] {
  if (existing === undefined) return [];
  const { queue, deadLetterQueue } = existing;
  const known = redriveOf(queue);
  return [
    ...(deadLetterQueue === undefined
      ? []
      : [
          sameQueue(queue, deadLetterQueue),
          otherKind(queue, deadLetterQueue),
          otherQueue(known?.queue, deadLetterQueue),
        ]),
    otherCount(known?.maxReceiveCount, maxReceiveCount),
  ];
}

const NAME = 'requestQueue.deadLetterQueue';

function sameQueue(queue: IQueue, deadLetterQueue: IQueue): Problem {
  if (queue.queueArn !== deadLetterQueue.queueArn) return undefined;
  return `${NAME}: expected another queue than the request queue, got the same; give the one that its redrive policy names`;
}

/** @see https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-dead-letter-queues.html */
function otherKind(queue: IQueue, deadLetterQueue: IQueue): Problem {
  const [ofQueue, ofDeadLetters] = [fifoOf(queue), fifoOf(deadLetterQueue)];
  if (ofQueue === undefined || ofDeadLetters === undefined || ofQueue === ofDeadLetters) return undefined;
  const kind = (isFifo: boolean): string => (isFifo ? 'FIFO' : 'standard');
  return (
    `${NAME}: expected a ${kind(ofQueue)} queue, as the request queue is, got a ${kind(ofDeadLetters)} queue; ` +
    'give the one that the redrive policy of the request queue names'
  );
}

function otherQueue(known: IQueue | undefined, deadLetterQueue: IQueue): Problem {
  if (known === undefined || known.queueArn === deadLetterQueue.queueArn) return undefined;
  return (
    `${NAME}: expected ${known.node.path}, where the redrive policy of the request queue sends messages, ` +
    `got ${deadLetterQueue.node.path}; leave it out`
  );
}

function otherCount(known: number | undefined, given: number | undefined): Problem {
  if (known === undefined || given === undefined || known === given) return undefined;
  return (
    `maxReceiveCount: expected ${known}, as the given request queue has it, got ${given}; leave it out, or change the ` +
    "queue's"
  );
}
