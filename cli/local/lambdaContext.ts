import { randomUUID } from 'node:crypto';
import { totalmem } from 'node:os';
import type { Context } from 'aws-lambda';

interface LambdaContextOptions {
  /** @default 'eu-central-1' */
  readonly region?: string;
  /** @default Date.now */
  readonly now?: () => number;
}

const FUNCTION_NAME = 'batchscore-local';
const MIB = 2 ** 20;

/**
 * Creates the context of one invocation, as Lambda passes it to the handler.
 *
 * @param deadlineMs time when the function times out, on the clock `now`
 */
export function createLambdaContext(
  deadlineMs: number,
  { region = 'eu-central-1', now = Date.now }: LambdaContextOptions = {},
): Context {
  return {
    callbackWaitsForEmptyEventLoop: true,
    functionName: FUNCTION_NAME,
    functionVersion: '$LATEST',
    invokedFunctionArn: `arn:aws:lambda:${region}:000000000000:function:${FUNCTION_NAME}`,
    memoryLimitInMB: String(Math.floor(totalmem() / MIB)),
    awsRequestId: randomUUID(),
    logGroupName: `/aws/lambda/${FUNCTION_NAME}`,
    logStreamName: 'local',
    getRemainingTimeInMillis: () => Math.floor(deadlineMs - now()),
    done: refuseCallback,
    fail: refuseCallback,
    succeed: refuseCallback,
  };
}

function refuseCallback(): never {
  throw new Error(
    'expected the handler to return a promise, got a call of context.done, fail or succeed; ' +
      'they left Lambda with Node 8',
  );
}
