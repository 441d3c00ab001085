import { MAX_MESSAGE_BYTES } from '../../lambda/aws/sqsCalls.ts';

/** The most that a queue takes in a message. Older queues, and some deployers, set less than the 1 MiB of SQS. */
export interface QueueLimit {
  /** 1 MiB until a message was refused. */
  bytes(): number;
  /** Notes what a refusal said. */
  lower(maxBytes: number): void;
}

export function createQueueLimit(): QueueLimit {
  let limit = MAX_MESSAGE_BYTES;
  return {
    bytes: () => limit,
    lower(maxBytes) {
      limit = Math.min(limit, maxBytes);
    },
  };
}
