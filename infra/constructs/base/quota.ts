/**
 * What a queue has handed out and not yet been told to delete. At the quota a long poll gets nothing, without an error.
 *
 * @see https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-queues.html
 * @see https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-fifo.html
 */
export const MAX_MESSAGES_IN_FLIGHT = 120_000;
