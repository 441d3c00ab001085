import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import pLimit from 'p-limit';
import * as z from 'zod';
import type {
  Catcher,
  ChoiceState,
  MapState,
  Retrier,
  State,
  StateMachine,
  TaskState,
  Template,
} from '../../infra/jobs/jobDefinition.ts';
import { type Clock, raceAbort, SYSTEM_CLOCK } from '../../lambda/core/concurrency.ts';
import { messageOf } from '../../lambda/core/failure.ts';
import { isObject, parseIfJson } from '../../lambda/core/json.ts';
import type { JobStorage } from '../../lambda/jobs/jobTypes.ts';
import { refuseForeignCallers } from './localServices.ts';

/*
 * Step Functions on this machine: a server of the three calls that jobs make, the executions of one state machine, and
 * the interpreter that walks its definition, the very object that is deployed.
 */

/** Step Functions with one state machine. */
export interface LocalStates {
  readonly stateMachineArn: string;
  /** `http://127.0.0.1:PORT`: the endpoint to give a client of Step Functions. */
  readonly endpoint: string;
  /** Starts an execution, unless there is or was one of that name. @returns whether it did */
  start(name: string, input: string): boolean;
  /** The executions that were started last, the newest last. */
  newest(max: number): readonly Execution['described'][];
  /** Ends the server and cancels what runs. */
  stop(): Promise<void>;
}

interface LocalStatesOptions extends Pick<StateDependencies, 'invoke' | 'objects'> {
  readonly machine: StateMachine;
  readonly region: string;
  /** Called when an execution has ended. */
  readonly onEnd: (name: string, how: Ended) => void;
}

/** What became of an execution, as `DescribeExecution` has it. */
export type Ended =
  | { readonly status: 'SUCCEEDED' /** JSON */; readonly output: string }
  | { readonly status: 'FAILED'; readonly error: string; readonly cause: string }
  | { readonly status: 'ABORTED' };

/** Starts it on a free port of 127.0.0.1. Executions that have ended are kept as long as it runs. */
export async function startLocalStates(options: LocalStatesOptions): Promise<LocalStates> {
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
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    stateMachineArn: executions.stateMachineArn,
    endpoint: `http://127.0.0.1:${port}`,
    start: (name, input) => executions.start(name, input)?.isNew ?? false,
    newest: executions.newest,
    async stop() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
      await executions.stop();
    },
  };
}

/** An error by the name that Step Functions gives it: of a refused call, or of a state, which is retried and caught by it. */
class StatesError extends Error {
  constructor(name: string, message: string) {
    super(message);
    this.name = name;
  }
}

interface Execution {
  /** As `DescribeExecution` has it. Dates are seconds since 1970. */
  readonly described: {
    readonly executionArn: string;
    readonly stateMachineArn: string;
    readonly name: string;
    readonly input: string;
    readonly startDate: number;
    readonly stopDate?: number;
    readonly status: 'RUNNING' | Ended['status'];
  };
  readonly cancel: AbortController;
}

const START = z.object({ stateMachineArn: z.string(), name: z.string().regex(/^[\w-]{1,80}$/), input: z.string() });
const EXECUTION = z.object({ executionArn: z.string() });
const STOP = EXECUTION.extend({ error: z.string().optional(), cause: z.string().optional() });

const secondsNow = (): number => Date.now() / 1000;

function createExecutions({ machine, region, onEnd, ...dependencies }: LocalStatesOptions) {
  const arnOf = (resource: string): string => `arn:aws:states:${region}:000000000000:${resource}`;
  const stateMachineArn = arnOf('stateMachine:batchscore-jobs');
  const all = new Map<string, Execution>();
  const running = new Set<Promise<void>>();

  const run = async ({ described, cancel }: Execution, data: unknown): Promise<void> => {
    const deps = { ...dependencies, clock: SYSTEM_CLOCK, random: Math.random, signal: cancel.signal };
    const how = await runStateMachine(machine, data, deps).catch(
      (error: unknown): Ended => ({ status: 'FAILED', error: RUNTIME, cause: messageOf(error) }),
    );
    const why = how.status === 'ABORTED' ? cancel.signal.reason : {};
    Object.assign(described, { ...how, ...why, stopDate: secondsNow() });
    onEnd(described.name, how);
  };
  /**
   * A name stands for one execution: started again with the same input while it runs, it is that one.
   *
   * @returns undefined when there is one of that name that has ended, or has another input
   * @see https://docs.aws.amazon.com/step-functions/latest/apireference/API_StartExecution.html
   */
  const start = (
    name: string,
    input: string,
  ): { readonly execution: Execution; readonly isNew: boolean } | undefined => {
    const executionArn = arnOf(`execution:batchscore-jobs:${name}`);
    const before = all.get(executionArn);
    if (before !== undefined) {
      const isSame = before.described.status === 'RUNNING' && before.described.input === input;
      return isSame ? { execution: before, isNew: false } : undefined;
    }
    const data = parseIfJson(input);
    if (data === undefined) throw new StatesError('InvalidExecutionInput', 'input: expected JSON, got something else');
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

/** What states reach. */
export interface StateDependencies {
  /** Calls a function; what it throws is the error of the state. */
  readonly invoke: (functionArn: string, payload: unknown) => Promise<unknown>;
  /** Of the one bucket that there is. */
  readonly objects: Pick<JobStorage, 'get' | 'put'>;
  readonly clock: Clock;
  /** 0 to 1, for waits with jitter. */
  readonly random: () => number;
  readonly signal: AbortSignal;
}

/**
 * Runs a state machine in this process, as Step Functions does: a task calls a function, a distributed map reads its items
 * from an object and runs its processor for each. When the signal aborts, no further call is made. A task's
 * `TimeoutSeconds` is left to the functions, which end by themselves.
 */
export async function runStateMachine(machine: StateMachine, input: unknown, deps: StateDependencies): Promise<Ended> {
  try {
    return { status: 'SUCCEEDED', output: JSON.stringify(await walk(machine, { data: input }, deps)) };
  } catch (error) {
    if (deps.signal.aborted) return { status: 'ABORTED' };
    if (error instanceof StatesError) return { status: 'FAILED', error: error.name, cause: error.message };
    throw error;
  }
}

/** What cannot be tried again: an input that a state's fields do not fit. */
const RUNTIME = 'States.Runtime';

/** @returns the output of the last state */
async function walk(machine: StateMachine, { data: input, context }: Scope, deps: StateDependencies): Promise<unknown> {
  let data = input;
  let name: string | undefined = machine.StartAt;
  while (name !== undefined) {
    deps.signal.throwIfAborted();
    const state: State | undefined = machine.States[name];
    if (state === undefined) throw new StatesError(RUNTIME, `${name}: expected a state of that name, got none`);
    switch (state.Type) {
      case 'Succeed':
        return data;
      case 'Fail':
        throw new StatesError(String(read(state.ErrorPath, { data })), String(read(state.CausePath, { data })));
      case 'Choice': {
        const holds = ({ Variable, IsPresent }: ChoiceState['Choices'][number]): boolean =>
          (find(Variable, { data }) !== undefined) === IsPresent;
        name = state.Choices.find(holds)?.Next ?? state.Default;
        break;
      }
      default:
        ({ data, next: name } = await attempt(state, { data, context: { ...context, ...enteredNow() } }, deps));
    }
  }
  return data;
}

/** As Step Functions says it in the context. */
function enteredNow(): Record<string, unknown> {
  return { State: { EnteredTime: new Date().toISOString() } };
}

function outputOf(state: TaskState | MapState, data: unknown, result: unknown): unknown {
  if (state.Type === 'Map') return place(state.ResultPath, data, result);
  const { ResultSelector, ResultPath = '$', OutputPath = '$' } = state;
  const selected = ResultSelector === undefined ? result : fill(ResultSelector, { data: result });
  return read(OutputPath, { data: place(ResultPath, data, selected) });
}

/**
 * Does what a state does until it is done, its retriers have no attempts left, or none means the error; then a catcher may
 * mean it. Each retrier counts for itself.
 *
 * @throws StatesError that nothing caught
 * @see https://docs.aws.amazon.com/step-functions/latest/dg/concepts-error-handling.html
 */
async function attempt(
  state: TaskState | MapState,
  scope: Scope,
  deps: StateDependencies,
): Promise<{ readonly data: unknown; readonly next: string | undefined }> {
  const tries = new Map<Retrier, number>();
  for (;;) {
    try {
      const result = await (state.Type === 'Task' ? runTask(state, scope, deps) : runMap(state, scope, deps));
      return { data: outputOf(state, scope.data, result), next: state.Next };
    } catch (error) {
      if (!(error instanceof StatesError)) throw error;
      const means = ({ ErrorEquals }: Retrier | Catcher): boolean =>
        ErrorEquals.includes(error.name) || (ErrorEquals.includes('States.ALL') && error.name !== RUNTIME);
      const retrier = state.Retry?.find(means);
      const before = (retrier && tries.get(retrier)) ?? 0;
      if (retrier === undefined || before >= retrier.MaxAttempts) {
        const caught = state.Catch?.find(means);
        if (caught === undefined) throw error;
        const { name: errorName, message } = error;
        const data = place(caught.ResultPath, scope.data, { Error: errorName, Cause: message });
        return { data, next: caught.Next };
      }
      tries.set(retrier, before + 1);
      await pause(waitSeconds(retrier, before, deps.random) * 1000, deps);
    }
  }
}

function waitSeconds(retrier: Retrier, before: number, random: () => number): number {
  const { IntervalSeconds = 1, BackoffRate = 2, MaxDelaySeconds = Number.POSITIVE_INFINITY, JitterStrategy } = retrier;
  const seconds = Math.min(IntervalSeconds * BackoffRate ** before, MaxDelaySeconds);
  return JitterStrategy === 'FULL' ? seconds * random() : seconds;
}

/** What crosses is JSON, as between services. @throws StatesError of the function's own name */
async function runTask(state: TaskState, scope: Scope, deps: StateDependencies): Promise<unknown> {
  const { FunctionName, Payload } = fill(state.Parameters, scope);
  const call = deps.invoke(String(FunctionName), copyOf(Payload)).catch((thrown: unknown) => {
    // As Lambda reports it.
    const errorType = thrown instanceof Error ? thrown.name : 'Error';
    throw new StatesError(errorType, JSON.stringify({ errorType, errorMessage: messageOf(thrown) }));
  });
  return { Payload: copyOf(await raceAbort(call, deps.signal)) };
}

function copyOf(value: unknown): unknown {
  return value === undefined ? null : JSON.parse(JSON.stringify(value));
}

/**
 * As one child fails, the others are stopped and the map fails: none is tolerated. The answers of all children go to one
 * object, where Step Functions writes several and a manifest of them.
 */
async function runMap(state: MapState, scope: Scope, deps: StateDependencies): Promise<unknown> {
  const key = String(fill(state.ItemReader.Parameters, scope).Key);
  const lines = await deps.objects.get(key);
  if (lines === undefined) throw new StatesError('States.ItemReaderFailed', `${key}: expected an object, got none`);
  const items: unknown[] = lines.split('\n').flatMap((line) => (line.trim() === '' ? [] : [JSON.parse(line)]));
  const failed = new AbortController();
  const signal = AbortSignal.any([deps.signal, failed.signal]);
  const child = async (item: unknown): Promise<unknown> => {
    try {
      const data = fill(state.ItemSelector, { ...scope, context: { Map: { Item: { Value: item } } } });
      return await walk(state.ItemProcessor, { data }, { ...deps, signal });
    } catch (error) {
      failed.abort(error);
      return undefined;
    }
  };
  const children = await pLimit(Number(read(state.MaxConcurrencyPath, scope))).map(items, child);
  deps.signal.throwIfAborted();
  if (failed.signal.aborted) {
    if (!(failed.signal.reason instanceof StatesError)) throw failed.signal.reason;
    throw new StatesError(
      'States.ExceedToleratedFailureThreshold',
      'The specified tolerated failure threshold was exceeded',
    );
  }
  const prefix = String(fill(state.ResultWriter.Parameters, scope).Prefix);
  const body = JSON.stringify(children.map((Output) => ({ Output: JSON.stringify(Output), Status: 'SUCCEEDED' })));
  await deps.objects.put(`${prefix}/${randomUUID()}/SUCCEEDED_0.json`, body);
  return children;
}

/** @throws the signal's reason when it aborts before */
async function pause(ms: number, { clock, signal }: Pick<StateDependencies, 'clock' | 'signal'>): Promise<void> {
  const waited = Promise.withResolvers<void>();
  const cancel = clock.after(ms, waited.resolve);
  try {
    await raceAbort(waited.promise, signal);
  } finally {
    cancel();
  }
}

/** What paths lead into: `$` the data of a state, `$$` the context. */
interface Scope {
  readonly data: unknown;
  readonly context?: object;
}

const FORMAT = /^States\.Format\('([^']*)', (\$[\w.]*)\)$/;

/** @throws StatesError when there is nothing at the path: `$` or `$$`, and names after dots */
function read(path: string, scope: Scope): unknown {
  const found = find(path, scope);
  if (found === undefined) throw new StatesError(RUNTIME, `${path}: expected something there, got nothing`);
  return found;
}

/** What is at a path; undefined if nothing is. */
function find(path: string, { data, context }: Scope): unknown {
  const [root, ...names] = path.split('.');
  return names.reduce<unknown>((at, name) => (isObject(at) ? at[name] : undefined), root === '$$' ? context : data);
}

/** A template with what its paths lead to: in each key that ends in `.$`, which loses it. */
function fill(template: Template, scope: Scope): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(template).map(([key, value]) => {
      if (typeof value !== 'string') return [key, fill(value, scope)];
      if (!key.endsWith('.$')) return [key, value];
      const [, format, path] = FORMAT.exec(value) ?? [];
      const filled =
        format === undefined || path === undefined
          ? read(value, scope)
          : format.replace('{}', () => String(read(path, scope)));
      return [key.slice(0, -2), filled];
    }),
  );
}

/** The data with a result put in: at `$` in its place, at `$.name` beside what is there, and with null nowhere. */
function place(path: string | null, data: unknown, result: unknown): unknown {
  if (path === null) return data;
  if (path === '$') return result;
  const [, name] = /^\$\.(\w+)$/.exec(path) ?? [];
  if (name !== undefined && isObject(data)) return { ...data, [name]: result };
  throw new StatesError(RUNTIME, `${path}: expected null, $ or $.name of an object, which is all that is known here`);
}
