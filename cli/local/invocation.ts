import type { Context, SQSEvent, SQSRecord } from 'aws-lambda';
import type { Clock } from '../../lambda/aws/clock.ts';
import { failedMessageIds } from './batchResponse.ts';
import { createLambdaContext } from './lambdaContext.ts';

export type Invoke = (event: SQSEvent, context: Context) => Promise<unknown>;

export interface InvocationOptions {
  invoke: Invoke;
  region: string;
  functionTimeoutSeconds: number;
  clock: Clock;
}

/** What became of a batch: the message IDs to leave in the queue, and the error where all of them failed. */
export interface Verdict {
  failed: ReadonlySet<string>;
  error?: unknown;
}

/** Invokes the function once. Never rejects: a throw, a timeout or a malformed response fails the whole batch. */
export async function invokeOnce(records: readonly SQSRecord[], options: InvocationOptions): Promise<Verdict> {
  const sentIds = new Set(records.map(({ messageId }) => messageId));
  const deadline = options.clock.now() + options.functionTimeoutSeconds * 1000;
  try {
    const context = createLambdaContext(deadline, { region: options.region, now: options.clock.now });
    const work = () => options.invoke({ Records: [...records] }, context);
    const response = await withinTimeout(work, { deadline, ...options });
    return { failed: failedMessageIds(response, sentIds) };
  } catch (error) {
    return { failed: sentIds, error };
  }
}

async function withinTimeout<T>(
  work: () => Promise<T>,
  { deadline, functionTimeoutSeconds, clock }: InvocationOptions & { deadline: number },
): Promise<T> {
  const timedOut = () =>
    new Error(
      `expected the invocation to end within the function's timeout of ${functionTimeoutSeconds} s, it did not; ` +
        'raise the timeout, or lower the batch size',
    );
  const timeout = Promise.withResolvers<never>();
  const cancelTimeout = clock.after(deadline - clock.now(), () => timeout.reject(timedOut()));
  try {
    const result = await Promise.race([work(), timeout.promise]);
    // A handler that blocks the event loop also keeps the timer from firing.
    if (clock.now() > deadline) throw timedOut();
    return result;
  } finally {
    cancelTimeout();
  }
}
