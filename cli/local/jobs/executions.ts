import type { StateMachine } from '../../../infra/jobs/jobDefinition.ts';
import { SYSTEM_CLOCK } from '../../../lambda/aws/clock.ts';
import { messageOf } from '../../../lambda/core/contract/failure.ts';
import { type Ended, runStateMachine, type Surroundings } from '../mapRun.ts';

/** An execution, as far as it has come. */
export interface Execution {
  readonly arn: string;
  readonly name: string;
  readonly input: string;
  readonly startedAt: Date;
  /** Undefined while it runs. */
  readonly ended?: { readonly at: Date; readonly how: Ended; readonly why: Why | undefined } | undefined;
}

/** Why an execution was stopped, as whoever did it says. */
export interface Why {
  readonly error?: string | undefined;
  readonly cause?: string | undefined;
}

export interface LocalExecutions {
  readonly stateMachineArn: string;
  /**
   * A name stands for one execution: started again with the same input while it runs, it is that one.
   *
   * @returns undefined when there is one of that name that has ended, or has another input
   * @see https://docs.aws.amazon.com/step-functions/latest/apireference/API_StartExecution.html
   */
  start(name: string, input: string): { readonly execution: Execution; readonly isNew: boolean } | undefined;
  find(arn: string): Execution | undefined;
  /** No further call is made. */
  stop(arn: string, why: Why): Execution | undefined;
  /** Stops those that run. */
  close(): Promise<void>;
}

export interface ExecutionsOptions extends Pick<Surroundings, 'invoke' | 'objects'> {
  readonly machine: StateMachine;
  readonly region: string;
  /** Told when an execution has ended. */
  readonly onEnd: (execution: Execution, how: Ended) => void;
}

const ACCOUNT = '000000000000';
const NAME = 'batchscore-jobs';

interface Running {
  execution: Execution;
  why?: Why;
  readonly cancel: AbortController;
  readonly finished: Promise<void>;
}

/** The executions of one state machine, in this process; those that have ended are kept as long as it runs. */
export function createLocalExecutions(options: ExecutionsOptions): LocalExecutions {
  const { region, machine, onEnd } = options;
  const arnOf = (resource: string): string => `arn:aws:states:${region}:${ACCOUNT}:${resource}`;
  const all = new Map<string, Running>();

  const run = (arn: string, input: string, signal: AbortSignal): Promise<Ended> =>
    runStateMachine(machine, JSON.parse(input), { ...options, clock: SYSTEM_CLOCK, random: Math.random, signal }).catch(
      (error: unknown): Ended => ({ status: 'FAILED', error: 'States.Runtime', cause: `${arn}: ${messageOf(error)}` }),
    );

  return {
    stateMachineArn: arnOf(`stateMachine:${NAME}`),
    start(name, input) {
      const arn = arnOf(`execution:${NAME}:${name}`);
      const before = all.get(arn)?.execution;
      if (before !== undefined) {
        return before.ended === undefined && before.input === input ? { execution: before, isNew: false } : undefined;
      }
      const cancel = new AbortController();
      const execution: Execution = { arn, name, input, startedAt: new Date() };
      const finished = run(arn, input, cancel.signal).then((how) => {
        const running = all.get(arn);
        if (running !== undefined)
          running.execution = { ...execution, ended: { at: new Date(), how, why: running.why } };
        onEnd(execution, how);
      });
      all.set(arn, { execution, cancel, finished });
      return { execution, isNew: true };
    },
    find: (arn) => all.get(arn)?.execution,
    stop(arn, why) {
      const running = all.get(arn);
      if (running === undefined) return undefined;
      if (running.execution.ended === undefined) running.why = why;
      running.cancel.abort();
      return running.execution;
    },
    async close() {
      for (const { cancel } of all.values()) cancel.abort();
      await Promise.all([...all.values()].map(({ finished }) => finished));
    },
  };
}
