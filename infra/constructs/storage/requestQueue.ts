import type { Duration, RemovalPolicy } from 'aws-cdk-lib';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import { type IQueue, Queue } from 'aws-cdk-lib/aws-sqs';
import type { Construct } from 'constructs';
import { createQueue } from '../base/queue.ts';

/** A queue that exists already. */
export interface ExistingQueue {
  /** The queue, standard or FIFO. */
  readonly queue: IQueue;
  /** Its visibility timeout, which the CDK does not know of an imported queue; it is checked against the compute's timeout. */
  readonly visibilityTimeout: Duration;
  /** Where its redrive policy sends messages. @default that of the queue's own construct, if this app creates it */
  readonly deadLetterQueue?: IQueue;
}

/** One queue or more. */
export type Queues = readonly [IQueue, ...IQueue[]];

/** The queues that requests come from, one for each shard, and their dead letters. */
export interface RequestQueues {
  readonly queues: Queues;
  /** Undefined if the queue was given without one. */
  readonly deadLetterQueue: IQueue | undefined;
}

export interface NewQueues {
  readonly fifo: boolean;
  readonly shards: number;
  readonly encryptionKey: IKey | undefined;
  /** Of the dead letters: requests are not kept. */
  readonly removalPolicy: RemovalPolicy;
  readonly visibilityTimeoutSeconds: number;
  readonly maxReceiveCount: number;
}

export const RETENTION_DAYS = 4;
/** On a standard queue the days count from the first send, so dead letters must be kept longer than requests. */
export const DEAD_LETTER_RETENTION_DAYS = 14;

/** New queues, with one queue for the dead letters of all. */
export function createRequestQueues(scope: Construct, options: NewQueues): RequestQueues {
  const { fifo, shards, encryptionKey, removalPolicy, visibilityTimeoutSeconds, maxReceiveCount } = options;
  const deadLetterQueue = createQueue(scope, 'DeadLetters', {
    fifo,
    encryptionKey,
    retentionDays: DEAD_LETTER_RETENTION_DAYS,
    removalPolicy,
  });
  const create = (id: string): IQueue =>
    createQueue(scope, id, {
      fifo,
      encryptionKey,
      retentionDays: RETENTION_DAYS,
      visibilityTimeoutSeconds,
      deadLetterQueue: { queue: deadLetterQueue, maxReceiveCount },
    });
  // The first has the ID of an only one: a deployment that gets shards keeps its queue, and the messages in it.
  const first = create('Requests');
  const others = Array.from({ length: shards - 1 }, (_, index) => create(`Requests${index + 2}`));
  return { queues: [first, ...others], deadLetterQueue };
}

/** The given queue, with the dead letters that it was given or is known to have. */
export function useRequestQueue({ queue, deadLetterQueue }: ExistingQueue): RequestQueues {
  return { queues: [queue], deadLetterQueue: deadLetterQueue ?? redriveOf(queue)?.queue };
}

/** The redrive policy, known only of a queue that this app creates. */
export function redriveOf(
  queue: IQueue | undefined,
): { readonly queue: IQueue; readonly maxReceiveCount: number } | undefined {
  return queue instanceof Queue ? queue.deadLetterQueue : undefined;
}
