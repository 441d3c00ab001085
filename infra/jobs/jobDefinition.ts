import { JOB_TIMEOUT_SECONDS } from '../../lambda/core/limits.ts';
import { JOB_CODES } from '../../lambda/jobs/jobTypes.ts';

/** What the states call. */
interface JobFunctions {
  /** Plans and scores; it has the models. */
  readonly scoreFunctionArn: string;
  /** Ends jobs, and says why one failed. */
  readonly controlFunctionArn: string;
  /** @default 'aws' */
  readonly partition?: string;
}

/** Names the map in the ARNs of its children, and so in their metrics and in what may stop them. */
export const MAP_LABEL = 'Parts';

/** What a function's refusal is called: trying again would be refused again. */
const PERMANENT = [...JOB_CODES];

/** A function that has died without a word is not waited for; one that lives has ended by itself. */
const CALL_SECONDS = JOB_TIMEOUT_SECONDS + 30;

const NOT_AGAIN: Retrier = { ErrorEquals: PERMANENT, MaxAttempts: 0 };

/**
 * No concurrency left: another job is scored. At 30 s on average eight hours of waiting, in 5,000 of the 25,000 events
 * that an execution may have.
 *
 * @see https://docs.aws.amazon.com/step-functions/latest/dg/service-quotas.html
 */
const WHEN_BUSY: Retrier = {
  ErrorEquals: ['Lambda.TooManyRequestsException'],
  IntervalSeconds: 1,
  BackoffRate: 2,
  MaxDelaySeconds: 60,
  MaxAttempts: 1000,
  JitterStrategy: 'FULL',
};

/** @see https://docs.aws.amazon.com/step-functions/latest/dg/sfn-best-practices.html#bp-lambda-serviceexception */
const WHEN_LAMBDA_FAILS: Retrier = {
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

/** Anything else, such as a call that ran out of memory: twice more, as it may have been the machine. */
const OTHERWISE: Retrier = {
  ErrorEquals: ['States.ALL'],
  IntervalSeconds: 5,
  BackoffRate: 2,
  MaxAttempts: 2,
  JitterStrategy: 'FULL',
};

const RETRY = [NOT_AGAIN, WHEN_BUSY, WHEN_LAMBDA_FAILS, OTHERWISE];

/**
 * The state machine of jobs: plan, score the parts, finish. A child of the map scores one part, call after call, until
 * an answer names no next piece. A part whose calls keep failing gives up the piece that they fail at and goes on, so
 * that one piece never ends a job; input that was overwritten does.
 *
 * It holds no name of a bucket: bucket, keys and concurrency are the input of an execution.
 */
export function jobDefinition({ scoreFunctionArn, controlFunctionArn, partition = 'aws' }: JobFunctions): StateMachine {
  const call = (FunctionName: string, Payload: TaskState['Parameters']) => ({
    Type: 'Task' as const,
    Resource: `arn:${partition}:states:::lambda:invoke`,
    Parameters: { FunctionName, ...Payload },
    TimeoutSeconds: CALL_SECONDS,
    Retry: RETRY,
  });
  const explained: Catcher[] = [{ ErrorEquals: ['States.ALL'], ResultPath: '$.error', Next: 'Explain' }];
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
        // The answers of all parts would not fit into the output of a state.
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

/** An answer is the event that was asked, with `next` or without, so that it takes the place of the state. */
function statesOfPart(
  call: (functionArn: string, payload: TaskState['Parameters']) => Omit<TaskState, 'Next' | 'End'>,
  scoreFunctionArn: string,
): Record<string, State> {
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
      ...call(scoreFunctionArn, {
        Payload: {
          action: 'skip',
          'bucket.$': '$.bucket',
          'folder.$': '$.folder',
          'part.$': '$.part',
          'error.$': '$.error',
          // The same when the call is made again.
          'entered.$': '$$.State.EnteredTime',
        },
      }),
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

/*
 * The part of the Amazon States Language that the state machine of jobs is made of. The local stack makes the same calls
 * in its own words: `cli/local/runJob.ts`.
 *
 * @see https://states-language.net/
 */

/** Text that ends in `.$` as a key has a path as its value, or a call of `States.Format`. */
type Template = { readonly [key: string]: string | Template };

interface Retrier {
  readonly ErrorEquals: readonly string[];
  /** Of the first wait. */
  readonly IntervalSeconds?: number;
  /** 0: it is not tried again. */
  readonly MaxAttempts: number;
  /** By which each wait is longer than the one before. */
  readonly BackoffRate?: number;
  readonly MaxDelaySeconds?: number;
  /** `FULL`: each wait is a random share of what it would be. */
  readonly JitterStrategy?: 'FULL';
}

interface Catcher {
  readonly ErrorEquals: readonly string[];
  readonly Next: string;
  /** Where the error goes, `{Error, Cause}`, in the input. */
  readonly ResultPath: string;
}

/** What a state that may fail does about it. */
interface Tried {
  readonly Retry?: readonly Retrier[];
  readonly Catch?: readonly Catcher[];
}

type Onward = { readonly Next: string; readonly End?: never } | { readonly End: true; readonly Next?: never };

type TaskState = Tried &
  Onward & {
    readonly Type: 'Task';
    /** Lambda's optimised integration: it answers `{Payload}`. */
    readonly Resource: string;
    readonly Parameters: Template;
    readonly TimeoutSeconds: number;
    readonly ResultSelector?: Template;
    /** Where the answer goes in the input. @default `$`: in its place */
    readonly ResultPath?: string;
    /** What of all that the next state gets. @default `$` */
    readonly OutputPath?: string;
  };

type MapState = Tried &
  Onward & {
    readonly Type: 'Map';
    readonly Label: string;
    readonly ItemReader: {
      readonly Resource: string;
      readonly ReaderConfig: { readonly InputType: 'JSONL' };
      readonly Parameters: Template;
    };
    readonly ItemSelector: Template;
    readonly MaxConcurrencyPath: string;
    readonly ItemProcessor: StateMachine & {
      readonly ProcessorConfig: { readonly Mode: 'DISTRIBUTED'; readonly ExecutionType: 'STANDARD' };
    };
    readonly ResultWriter: { readonly Resource: string; readonly Parameters: Template };
    /** null: the input goes on as it is. */
    readonly ResultPath: null;
  };

interface ChoiceState {
  readonly Type: 'Choice';
  readonly Choices: readonly { readonly Variable: string; readonly IsPresent: boolean; readonly Next: string }[];
  readonly Default: string;
}

interface SucceedState {
  readonly Type: 'Succeed';
}

interface FailState {
  readonly Type: 'Fail';
  readonly ErrorPath: string;
  readonly CausePath: string;
}

type State = TaskState | MapState | ChoiceState | SucceedState | FailState;

interface StateMachine {
  readonly Comment?: string;
  readonly StartAt: string;
  readonly States: Readonly<Record<string, State>>;
}
