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
