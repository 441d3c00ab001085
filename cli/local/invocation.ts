import { randomUUID } from 'node:crypto';
import { totalmem } from 'node:os';
import type { Context, SQSEvent, SQSRecord } from 'aws-lambda';
import { failedMessageIds } from './batchResponse.ts';
import type { Clock } from './clock.ts';

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

const FUNCTION_NAME = 'batchscore-local';
const MIB = 2 ** 20;

/** Invokes the function once. Never rejects: a throw, a timeout or a malformed response fails the whole batch. */
export async function invokeOnce(records: readonly SQSRecord[], options: InvocationOptions): Promise<Verdict> {
  const sentIds = new Set(records.map(({ messageId }) => messageId));
  const deadline = options.clock.now() + options.functionTimeoutSeconds * 1000;
  try {
    const work = () => options.invoke({ Records: [...records] }, contextUntil(deadline, options));
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

function contextUntil(deadline: number, { region, clock }: InvocationOptions): Context {
  return {
    callbackWaitsForEmptyEventLoop: true,
    functionName: FUNCTION_NAME,
    functionVersion: '$LATEST',
    invokedFunctionArn: `arn:aws:lambda:${region}:000000000000:function:${FUNCTION_NAME}`,
    memoryLimitInMB: String(Math.floor(totalmem() / MIB)),
    awsRequestId: randomUUID(),
    logGroupName: `/aws/lambda/${FUNCTION_NAME}`,
    logStreamName: 'local',
    getRemainingTimeInMillis: () => Math.floor(deadline - clock.now()),
    done: refuseCallback,
    fail: refuseCallback,
    succeed: refuseCallback,
  };
}

function refuseCallback(): never {
  throw new Error(
    'expected the handler to return a promise, got a call of context.done, fail or succeed; make it async',
  );
}
