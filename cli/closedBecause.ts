import type { CloseReason } from '../lambda/core/observer.ts';

import type { ClosedBecause } from './local/localMapping.ts';

/** Why a batch was handed over, as a person reads it. */
export const BATCH_CLOSED: Readonly<Record<ClosedBecause, string>> = {
  full: 'the batch was full',
  window: 'its window ended',
  bytes: 'the next message did not fit',
  poll: 'there is no window',
  update: 'size or window changed',
  stop: 'stopping',
};

/** Why a micro-batch was run, as a person reads it. */
export const MICRO_BATCH_CLOSED: Readonly<Record<CloseReason, string>> = {
  full: 'full',
  budget: 'element budget reached',
  padding: 'another run costs less than the padding',
  dearer: 'dearer together',
  end: 'end of the batch that SQS handed over',
};
