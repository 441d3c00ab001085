import { MAX_MESSAGE_BYTES } from './limits.ts';

/**
 * What one queue takes, as far as its refusals tell: a queue may be set to take less than 1 MiB, and to ask for its
 * attributes takes a permission that a sender need not have.
 */
export interface SizeLimits {
  /** Most bytes of a message, its attributes counted. */
  messageBytes(): number;
  /** Most bytes of all messages of a batch request. */
  batchBytes(): number;
  /** @returns whether a message of so many bytes was refused for its size, and the limit thus learned */
  learnFromMessage(bytes: number, reason: string): boolean;
  /** @returns whether a batch request of so many bytes was refused for its size, and the limit thus learned */
  learnFromBatch(bytes: number, reason: string): boolean;
}

export function createSizeLimits(): SizeLimits {
  let messageBytes = MAX_MESSAGE_BYTES;
  let batchBytes = MAX_MESSAGE_BYTES;
  return {
    messageBytes: () => Math.min(messageBytes, batchBytes),
    batchBytes: () => batchBytes,
    learnFromMessage(bytes, reason) {
      const most = limitIn(reason);
      if (most !== undefined) messageBytes = Math.min(messageBytes, most, bytes - 1);
      return most !== undefined;
    },
    learnFromBatch(bytes, reason) {
      const most = limitIn(reason);
      if (most !== undefined) batchBytes = Math.min(batchBytes, most, bytes - 1);
      return most !== undefined;
    },
  };
}

/** `Message must be shorter than 262144 bytes.`, `Batch requests cannot be longer than 262144 bytes. You have sent …` */
const SIZE_REFUSAL = /\b(?:shorter|longer) than (\d+) bytes/;

function limitIn(reason: string): number | undefined {
  const most = SIZE_REFUSAL.exec(reason)?.[1];
  return most === undefined ? undefined : Number(most);
}
