import { JOB_TIMEOUT_SECONDS } from '../../lambda/core/limits.ts';
import { JOB_CODES } from '../../lambda/jobs/jobFiles.ts';

interface JobFunctions {
  /** Function that plans and scores. It has the models. */
  readonly scoreFunctionArn: string;
  /** Function that ends jobs and explains failures. */
  readonly controlFunctionArn: string;
  /** @default 'aws' */
  readonly partition?: string;
}

/** Object whose keys that end in `.$` have a path or a call of `States.Format` as the value. */
type Template = { readonly [key: string]: string | Template };

/** Label of the map in the ARNs of its children, which metrics and permissions to stop contain. */
export const MAP_LABEL = 'Parts';

/** Error names of refusals, which are not retried. */
const PERMANENT = [...JOB_CODES];

/** Seconds to wait for a function. A function ends by itself before that, unless it has crashed. */
const CALL_SECONDS = JOB_TIMEOUT_SECONDS + 30;

const NOT_AGAIN = { ErrorEquals: PERMANENT, MaxAttempts: 0 };

/**
 * Retries if no concurrency is left because other jobs are scored. With 30 s on average it waits for eight hours, which
 * uses 5,000 of the 25,000 events of an execution.
 *
 * @see https://docs.aws.amazon.com/step-functions/latest/dg/service-quotas.html
 */
const WHEN_BUSY = {
  ErrorEquals: ['Lambda.TooManyRequestsException'],
  IntervalSeconds: 1,
  BackoffRate: 2,
  MaxDelaySeconds: 60,
  MaxAttempts: 1000,
  JitterStrategy: 'FULL',
};

/** @see https://docs.aws.amazon.com/step-functions/latest/dg/sfn-best-practices.html#bp-lambda-serviceexception */
const WHEN_LAMBDA_FAILS = {
  ErrorEquals: [
    'Lambda.ServiceException',
    'Lambda.AWSLambdaException',
    'Lambda.SdkClientException',
    'Lambda.ClientExecutionTimeoutException',
  ],
  IntervalSeconds: 2,
  BackoffRate: 2,
  MaxDelaySeconds: 60,
  MaxAttempts: 10,
  JitterStrategy: 'FULL',
};

/** Retries other errors twice, such as a lack of memory, because the cause may have been the machine. */
const OTHERWISE = {
  ErrorEquals: ['States.ALL'],
  IntervalSeconds: 5,
  BackoffRate: 2,
  MaxAttempts: 2,
  JitterStrategy: 'FULL',
};

const RETRY = [NOT_AGAIN, WHEN_BUSY, WHEN_LAMBDA_FAILS, OTHERWISE];

/**
 * Returns the state machine of jobs, which plans, scores the parts and finishes. A child of the map scores one part
 * with consecutive calls until an answer names no next piece. If the calls for a piece keep failing, the child gives up
 * that piece and continues, so a single piece never fails a job. If the input was overwritten, the job fails.
 *
 * The definition contains no bucket name. Bucket, keys and concurrency are the input of an execution.
 * `cli/local/runJob.ts` makes the same calls for the local stack.
 *
 * @see https://states-language.net/
 */
export function jobDefinition({ scoreFunctionArn, controlFunctionArn, partition = 'aws' }: JobFunctions) {
  const call = (FunctionName: string, Payload: Template) => ({
    Type: 'Task',
    Resource: `arn:${partition}:states:::lambda:invoke`,
    Parameters: { FunctionName, ...Payload },
    TimeoutSeconds: CALL_SECONDS,
    Retry: RETRY,
  });
  const explained = [{ ErrorEquals: ['States.ALL'], ResultPath: '$.error', Next: 'Explain' }];
  return {
    Comment: 'batchscore: scores a file of S3, part by part',
    StartAt: 'Plan',
    States: {
      Plan: {
        ...call(scoreFunctionArn, { Payload: { action: 'plan', 'start.$': '$' } }),
        ResultSelector: { 'value.$': '$.Payload' },
        ResultPath: '$.plan',
        Catch: explained,
        Next: 'Score parts',
      },
      'Score parts': {
        Type: 'Map',
        Label: MAP_LABEL,
        ItemReader: {
          Resource: `arn:${partition}:states:::s3:getObject`,
          ReaderConfig: { InputType: 'JSONL' },
          Parameters: { 'Bucket.$': '$.bucket', 'Key.$': '$.plan.value.planKey' },
        },
        ItemSelector: {
          action: 'score',
          'bucket.$': '$.bucket',
          'folder.$': '$.folder',
          'part.$': '$$.Map.Item.Value',
        },
        MaxConcurrencyPath: '$.concurrency',
        ItemProcessor: {
          ProcessorConfig: { Mode: 'DISTRIBUTED', ExecutionType: 'STANDARD' },
          StartAt: 'Score',
          States: statesOfPart(call, scoreFunctionArn),
        },
        // The answers of all parts would not fit in the output of a state.
        ResultWriter: {
          Resource: `arn:${partition}:states:::s3:putObject`,
          Parameters: { 'Bucket.$': '$.bucket', 'Prefix.$': "States.Format('{}map', $.folder)" },
        },
        ResultPath: null,
        Catch: explained,
        Next: 'Finish',
      },
      Finish: {
        ...call(controlFunctionArn, { Payload: { action: 'finish', 'start.$': '$' } }),
        OutputPath: '$.Payload',
        Catch: explained,
        End: true,
      },
      Explain: {
        ...call(controlFunctionArn, { Payload: { action: 'explain', 'start.$': '$' } }),
        OutputPath: '$.Payload',
        Next: 'Failed',
      },
      Failed: { Type: 'Fail', ErrorPath: '$.code', CausePath: '$.message' },
    },
  };
}

/**
 * Returns the states of a part. An answer is the event of the call, with or without `next`, so it replaces the state's
 * input.
 */
function statesOfPart(call: (functionArn: string, payload: Template) => object, scoreFunctionArn: string) {
  return {
    Score: {
      ...call(scoreFunctionArn, { 'Payload.$': '$' }),
      OutputPath: '$.Payload',
      Catch: [
        { ErrorEquals: PERMANENT, ResultPath: '$.error', Next: 'Ended' },
        { ErrorEquals: ['States.ALL'], ResultPath: '$.error', Next: 'Skip' },
      ],
      Next: 'More',
    },
    Skip: {
      ...call(scoreFunctionArn, { Payload: { action: 'skip', 'call.$': '$' } }),
      OutputPath: '$.Payload',
      Next: 'More',
    },
    More: {
      Type: 'Choice',
      Choices: [{ Variable: '$.next', IsPresent: true, Next: 'Score' }],
      Default: 'Done',
    },
    Done: { Type: 'Succeed' },
    Ended: { Type: 'Fail', ErrorPath: '$.error.Error', CausePath: '$.error.Cause' },
  };
}
