import { createServer } from 'node:http';
import { text } from 'node:stream/consumers';
import * as z from 'zod';
import { messageOf } from '../../lambda/core/failure.ts';
import { parseIfJson } from '../../lambda/core/json.ts';
import { JOB_START, type JobStart } from '../../lambda/jobs/jobTypes.ts';
import { refuseForeignCallers, serveOnLoopback } from './localServices.ts';
import { type Ended, type JobCalls, runJob } from './runJob.ts';

/*
 * Local version of Step Functions: a server for the three calls that jobs make, and the executions of one state
 * machine.
 */

export type LocalStates = Awaited<ReturnType<typeof startLocalStates>>;

interface LocalStatesOptions extends JobCalls {
  readonly region: string;
  readonly onEnd: (execution: Described, how: Ended) => void;
}

/** Starts the server on a free port of 127.0.0.1. It keeps ended executions until it stops. */
export async function startLocalStates(options: LocalStatesOptions) {
  const executions = createExecutions(options);
  const server = createServer(async (request, response) => {
    const target = String(request.headers['x-amz-target']).replace('AWSStepFunctions.', '');
    const { status, body } = await text(request)
      .then((body) => ({ status: 200, body: executions.answer(target, JSON.parse(body)) }))
      .catch((error: unknown) => {
        const type = error instanceof StatesError ? error.name : 'ValidationException';
        return { status: 400, body: { __type: type, message: messageOf(error) } };
      });
    response.writeHead(status, { 'content-type': 'application/x-amz-json-1.0' }).end(JSON.stringify(body));
  });
  refuseForeignCallers(server);
  const { url, close } = await serveOnLoopback(server);
  return {
    stateMachineArn: executions.stateMachineArn,
    /** `http://127.0.0.1:PORT`, the endpoint for Step Functions clients. */
    endpoint: url,
    /** Starts an execution unless the name is in use or was used. @returns true if it started */
    start: (name: string, input: string): boolean => executions.start(name, input)?.isNew ?? false,
    describe: executions.describe,
    /** Returns the latest executions, the newest last. */
    newest: executions.newest,
    async stop(): Promise<void> {
      await close();
      await executions.stop();
    },
  };
}

/** Error of a refused call, with the name that Step Functions uses. */
class StatesError extends Error {
  constructor(name: string, message: string) {
    super(message);
    this.name = name;
  }
}

/** Fields of `DescribeExecution`. Dates are seconds since 1970. */
interface Described {
  readonly executionArn: string;
  readonly stateMachineArn: string;
  readonly name: string;
  readonly input: string;
  readonly startDate: number;
  readonly stopDate?: number;
  readonly status: 'RUNNING' | Ended['status'];
}

interface Execution {
  readonly described: Described;
  readonly cancel: AbortController;
}

const START = z.object({ stateMachineArn: z.string(), name: z.string().regex(/^[\w-]{1,80}$/), input: z.string() });
const EXECUTION = z.object({ executionArn: z.string() });
const STOP = EXECUTION.extend({ error: z.string().optional(), cause: z.string().optional() });

const secondsNow = (): number => Date.now() / 1000;

function createExecutions({ region, onEnd, ...calls }: LocalStatesOptions) {
  const arnOf = (resource: string): string => `arn:aws:states:${region}:000000000000:${resource}`;
  const stateMachineArn = arnOf('stateMachine:batchscore-jobs');
  const all = new Map<string, Execution>();
  const running = new Set<Promise<void>>();

  const run = async ({ described, cancel }: Execution, job: JobStart): Promise<void> => {
    const how = await runJob(job, calls, cancel.signal).catch(
      (error: unknown): Ended => ({ status: 'FAILED', error: 'States.Runtime', cause: messageOf(error) }),
    );
    const why = how.status === 'ABORTED' ? cancel.signal.reason : {};
    Object.assign(described, { ...how, ...why, stopDate: secondsNow() });
    onEnd(described, how);
  };
  /**
   * Starts an execution. If an execution with the same name and input is running, it returns that one.
   *
   * @returns undefined if an execution of that name has ended or has another input
   * @see https://docs.aws.amazon.com/step-functions/latest/apireference/API_StartExecution.html
   */
  const start = (name: string, input: string) => {
    const executionArn = arnOf(`execution:batchscore-jobs:${name}`);
    const before = all.get(executionArn);
    if (before !== undefined) {
      const isSame = before.described.status === 'RUNNING' && before.described.input === input;
      return isSame ? { execution: before, isNew: false } : undefined;
    }
    const { data } = JOB_START.safeParse(parseIfJson(input));
    if (data === undefined) {
      throw new StatesError('InvalidExecutionInput', 'input: expected the start of a job, got something else');
    }
    const execution: Execution = {
      described: { executionArn, stateMachineArn, name, input, startDate: secondsNow(), status: 'RUNNING' },
      cancel: new AbortController(),
    };
    all.set(executionArn, execution);
    const finished = run(execution, data).finally(() => running.delete(finished));
    running.add(finished);
    return { execution, isNew: true };
  };
  const find = (arn: string): Execution => {
    const execution = all.get(arn);
    if (execution === undefined) throw new StatesError('ExecutionDoesNotExist', 'there is no execution of that ARN');
    return execution;
  };
  return {
    stateMachineArn,
    start,
    describe: (arn: string) => all.get(arn)?.described,
    newest: (max: number) => [...all.values()].slice(-max).map(({ described }) => described),
    /** @see https://docs.aws.amazon.com/step-functions/latest/apireference/API_Operations.html */
    answer(target: string, input: unknown): object {
      switch (target) {
        case 'StartExecution': {
          const asked = START.parse(input);
          if (asked.stateMachineArn !== stateMachineArn) {
            throw new StatesError('StateMachineDoesNotExist', `${asked.stateMachineArn}: there is none of that name`);
          }
          const started = start(asked.name, asked.input);
          if (started === undefined) {
            throw new StatesError('ExecutionAlreadyExists', `${asked.name}: there was an execution of that name`);
          }
          const { executionArn, startDate } = started.execution.described;
          return { executionArn, startDate };
        }
        case 'DescribeExecution':
          return find(EXECUTION.parse(input).executionArn).described;
        case 'StopExecution': {
          const { executionArn, ...why } = STOP.parse(input);
          find(executionArn).cancel.abort(why);
          return { stopDate: secondsNow() };
        }
        default:
          throw new StatesError('UnknownOperationException', `${target}: the local stack knows no such call`);
      }
    },
    async stop(): Promise<void> {
      for (const { cancel } of all.values()) cancel.abort({});
      await Promise.all(running);
    },
  };
}
