import type { Context, SQSEvent, SQSRecord } from 'aws-lambda';
import { failedMessageIds } from './batchResponse.ts';
import { createLambdaContext } from './lambdaContext.ts';

export type Invoke = (event: SQSEvent, context: Context) => Promise<unknown>;

export interface InvocationOptions {
  invoke: Invoke;
  region: string;
  functionTimeoutSeconds: number;
  /** Milliseconds that only go forward. */
  now: () => number;
}

/** What became of a batch: the IDs to leave in the queue, and why when that is all of them. */
export interface Verdict {
  failed: ReadonlySet<string>;
  error?: unknown;
}

/** Invokes the function once. Never rejects: a throw, a timeout or a malformed response fails the whole batch. */
export async function invokeOnce(records: readonly SQSRecord[], options: InvocationOptions): Promise<Verdict> {
  const sentIds = new Set(records.map(({ messageId }) => messageId));
  const deadline = options.now() + options.functionTimeoutSeconds * 1000;
  try {
    const response = await withinTimeout(
      () => options.invoke({ Records: [...records] }, createLambdaContext(deadline, options)),
      {
        deadline,
        ...options,
      },
    );
    return { failed: failedMessageIds(response, sentIds) };
  } catch (error) {
    return { failed: sentIds, error };
  }
}

async function withinTimeout<T>(
  work: () => Promise<T>,
  { deadline, functionTimeoutSeconds, now }: InvocationOptions & { deadline: number },
): Promise<T> {
  const timedOut = () =>
    new Error(
      `the invocation took longer than the function's timeout of ${functionTimeoutSeconds} s. ` +
        'Raise the timeout, or lower the batch size.',
    );
  const timeout = Promise.withResolvers<never>();
  const timer = setTimeout(() => timeout.reject(timedOut()), deadline - now());
  try {
    const result = await Promise.race([work(), timeout.promise]);
    // A handler that blocks the event loop also keeps the timer from firing.
    if (now() > deadline) throw timedOut();
    return result;
  } finally {
    clearTimeout(timer);
  }
}
