import type { Failure, TransientCode } from './failure.ts';

/**
 * One SQS message as a host receives it: the part of Lambda's `SQSRecord` that scoring reads.
 *
 * @see https://docs.aws.amazon.com/lambda/latest/dg/with-sqs.html
 */
export interface MessageRecord {
  readonly messageId: string;
  readonly receiptHandle: string;
  readonly body: string;
  readonly attributes: {
    readonly ApproximateReceiveCount: string;
    readonly SentTimestamp: string;
    readonly MessageGroupId?: string | undefined;
  };
  readonly messageAttributes: Readonly<Record<string, { readonly stringValue?: string | undefined }>>;
  readonly eventSourceARN: string;
}

/** The ordering group of a FIFO record; undefined on a standard queue, whose groups are for fairness, not for order. */
export function orderingGroup(record: MessageRecord): string | undefined {
  const { MessageGroupId } = record.attributes;
  return MessageGroupId !== undefined && record.eventSourceARN.endsWith('.fifo') ? MessageGroupId : undefined;
}

/** The attribute that carries the message ID beside a result: of an SQS message, and the partition key of a table. */
export const MESSAGE_ID_ATTRIBUTE = 'messageId';
/** The attribute of an SQS message that holds several results: how many. It then has no message ID of its own. */
export const RESULTS_ATTRIBUTE = 'results';
/** In a table: the result's JSON text, unless it lies in the payload bucket. */
export const BODY_ATTRIBUTE = 'body';
/** In place of the body: the text of a pointer to it. */
export const POINTER_ATTRIBUTE = 'pointer';

/** What is written under a message ID: one JSON document. */
export interface Result {
  readonly messageId: string;
  /** The JSON text of the answer, or of the array of answers to a packed message. */
  readonly body: string;
  /** The FIFO group of the request, so that FIFO in is FIFO out. */
  readonly messageGroupId: string | undefined;
}

/** What became of one result: taken by the store, or refused and why. */
export type WriteVerdict = { readonly written: true } | Failure;

/** A store of results. Verdicts align with `results` by index; a result that it refuses never makes it throw. */
export interface ResultWriter {
  /** @param signal aborted when there is no time left to retry; what is not written by then is a failure */
  write(results: readonly Result[], signal: AbortSignal): Promise<readonly WriteVerdict[]>;
  /**
   * Of results of one message group, in order: how many of the first are written all or not at all, as they share a
   * message. The order of a group holds within it. @default 1
   */
  writtenAsOne?(results: readonly Result[]): number;
}

/** What became of a record. `answered`: a result was written, be it a score or an error. `retry`: back to SQS. */
export type Outcome =
  | { readonly status: 'answered'; readonly failures: readonly Failure[]; readonly requests: number }
  | { readonly status: 'retry'; readonly failure: Failure<TransientCode> };

/** The time one invocation has. */
export interface TimeLimit {
  readonly remainingMs: () => number;
  /** Aborted when writes must stop being retried. */
  readonly signal: AbortSignal;
}
