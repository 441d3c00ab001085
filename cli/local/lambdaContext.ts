import { randomUUID } from 'node:crypto';
import { totalmem } from 'node:os';
import type { Context } from 'aws-lambda';

const FUNCTION_NAME = 'batchscore-local';
const MIB = 2 ** 20;

/**
 * Creates the context of one invocation, as Lambda passes it to the handler.
 *
 * @param deadlineMs time when the function times out, on the clock `now`
 */
export function createLambdaContext(
  deadlineMs: number,
  region = 'eu-central-1',
  now: () => number = Date.now,
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
    // They left Lambda with Node 8.
    done() {},
    fail() {},
    succeed() {},
  };
}
