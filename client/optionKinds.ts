import * as z from 'zod';

export const NAME = z.string().min(1);

export const QUEUE_URL = z.string().refine((text) => /^https?:\/\//.test(text) && URL.canParse(text), {
  error: ({ input }) => `expected the URL of an SQS queue, https://…, got ${JSON.stringify(input)}`,
});

export function isFifo(queueUrl: string): boolean {
  return queueUrl.endsWith('.fifo');
}

/** Returns the queue's name, which does not depend on the endpoint in its URL. */
export function queueNameOf(queueUrl: string): string {
  return queueUrl.slice(queueUrl.lastIndexOf('/') + 1);
}

/** Checks a client by its shape, because it may come from another copy of the SDK. */
export function clientOption<C>(name: string) {
  return z.custom<C>((value) => typeof value === 'object' && value !== null && 'send' in value && 'config' in value, {
    error: `expected a client of the AWS SDK, ${name}`,
  });
}
