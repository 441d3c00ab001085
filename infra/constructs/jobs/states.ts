/*
 * The part of the Amazon States Language that the state machine of jobs is made of. The local stack walks the same
 * objects and knows no other fields: what is added here is added there.
 *
 * @see https://states-language.net/
 */

/** Text that ends in `.$` as a key has a path as its value, or a call of `States.Format`. */
export type Template = { readonly [key: string]: string | Template };

export interface Retrier {
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

export interface Catcher {
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

export type TaskState = Tried &
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

export type MapState = Tried &
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

export interface ChoiceState {
  readonly Type: 'Choice';
  readonly Choices: readonly { readonly Variable: string; readonly IsPresent: boolean; readonly Next: string }[];
  readonly Default: string;
}

export interface SucceedState {
  readonly Type: 'Succeed';
}

export interface FailState {
  readonly Type: 'Fail';
  readonly ErrorPath: string;
  readonly CausePath: string;
}

export type State = TaskState | MapState | ChoiceState | SucceedState | FailState;

export interface StateMachine {
  readonly Comment?: string;
  readonly StartAt: string;
  readonly States: Readonly<Record<string, State>>;
}
