import { type ActOnMessages, atTheirQueues, createVisibilityChange, type QueuedMessage } from '../aws/requestQueue.ts';
import type { SqsCaller } from '../aws/sqsCalls.ts';
import type { MessageRecord } from '../core/contract/record.ts';

/** A record that stays hidden from others. */
export interface Extension extends QueuedMessage {
  readonly record: MessageRecord;
  /** Whole seconds from now. */
  readonly seconds: number;
}

export interface VisibilityActions {
  readonly extend: ActOnMessages<Extension>;
  /** Makes records visible to others at once. */
  readonly handBack: ActOnMessages<MessageRecord>;
}

export interface VisibilityActionsOptions {
  readonly sqs: SqsCaller;
  readonly queueUrls: readonly string[];
  readonly onProblem: (error: Error) => void;
}

export function createVisibilityActions(options: VisibilityActionsOptions): VisibilityActions {
  return {
    extend: atTheirQueues<Extension>({
      ...options,
      act: (queueUrl) =>
        createVisibilityChange({ ...options, queueUrl, name: 'heartbeat', secondsOf: ({ seconds }) => seconds }),
    }),
    handBack: atTheirQueues<MessageRecord>({
      ...options,
      act: (queueUrl) => createVisibilityChange({ ...options, queueUrl, name: 'handing back', secondsOf: () => 0 }),
    }),
  };
}
