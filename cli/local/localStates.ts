import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import pLimit from 'p-limit';
import { z } from 'zod';
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
import { type Clock, SYSTEM_CLOCK } from '../../lambda/aws/clock.ts';
import { raceAbort } from '../../lambda/core/concurrency.ts';
import { messageOf } from '../../lambda/core/failure.ts';
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
  /** @returns whether it is a new execution; one with the same input may be running under that name */
  start(name: string, input: string): boolean;
  /** Ends the server and cancels what runs. */
  stop(): Promise<void>;
}

interface LocalStatesOptions extends Pick<StateDependencies, 'invoke' | 'objects'> {
  readonly machine: StateMachine;
  readonly region: string;
  /** Called when an execution has ended. */
  readonly onEnd: (name: string, how: Ended) => void;
}

/** What became of an execution. */
export type Ended =
  | { readonly status: 'SUCCEEDED'; readonly output: unknown }
  | { readonly status: 'FAILED'; readonly error: string; readonly cause: string }
  | { readonly status: 'ABORTED' };

/** Starts it on a free port of 127.0.0.1. Executions that have ended are kept as long as it runs. */
export async function startLocalStates(options: LocalStatesOptions): Promise<LocalStates> {
  const executions = createExecutions(options);
  const server = createServer(async (request, response) => {
    const target = String(request.headers['x-amz-target'] ?? '').replace('AWSStepFunctions.', '');
    const { status, body } = await text(request)
      .then((body) => answerTo(target, JSON.parse(body), executions))
      .catch(refusalOf);
    response.writeHead(status, { 'content-type': 'application/x-amz-json-1.0' }).end(JSON.stringify(body));
  });
  refuseForeignCallers(server);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    stateMachineArn: executions.stateMachineArn,
    endpoint: `http://127.0.0.1:${port}`,
    start(name, input) {
      const started = executions.start(name, input);
      return started?.isNew ?? false;
    },
    async stop() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
      await executions.stop();
    },
  };
}

const START = z.object({ stateMachineArn: z.string(), name: z.string().regex(/^[\w-]{1,80}$/), input: z.string() });
const EXECUTION = z.object({ executionArn: z.string() });
const STOP = EXECUTION.extend({ error: z.string().optional(), cause: z.string().optional() });

interface Answer {
  readonly status: number;
  readonly body: object;
}

/** A call that Step Functions refuses. */
class Refusal extends Error {
  constructor(type: string, message: string) {
    super(message);
    this.name = type;
  }
}

function refusalOf(error: unknown): Answer {
  const type = error instanceof Refusal ? error.name : 'ValidationException';
  return { status: 400, body: { __type: type, message: messageOf(error) } };
}

/** @see https://docs.aws.amazon.com/step-functions/latest/apireference/API_Operations.html */
function answerTo(target: string, input: unknown, executions: Executions): Answer {
  switch (target) {
    case 'StartExecution': {
      const { stateMachineArn, name, input: given } = START.parse(input);
      if (stateMachineArn !== executions.stateMachineArn)
        throw new Refusal('StateMachineDoesNotExist', `${stateMachineArn}: there is none of that name`);
      const started = executions.start(name, given);
      if (started === undefined)
        throw new Refusal('ExecutionAlreadyExists', `${name}: there was an execution of that name`);
      const { arn, startedAt } = started.execution;
      return { status: 200, body: { executionArn: arn, startDate: seconds(startedAt) } };
    }
    case 'DescribeExecution':
      return { status: 200, body: describe(executions.find(EXECUTION.parse(input).executionArn), executions) };
    case 'StopExecution': {
      const { executionArn, ...why } = STOP.parse(input);
      const execution = executions.find(executionArn);
      if (execution.ended === undefined) execution.stoppedBecause = why;
      execution.cancel.abort();
      return { status: 200, body: { stopDate: seconds(new Date()) } };
    }
    default:
      throw new Refusal('UnknownOperationException', `${target}: the local stack knows no such call`);
  }
}

function describe(execution: Execution, { stateMachineArn }: Executions): object {
  const { arn, name, input, startedAt, ended, stoppedBecause } = execution;
  const common = { executionArn: arn, stateMachineArn, name, input, startDate: seconds(startedAt) };
  if (ended === undefined) return { ...common, status: 'RUNNING' };
  const { at, how } = ended;
  return {
    ...common,
    status: how.status,
    stopDate: seconds(at),
    ...(how.status === 'SUCCEEDED' && { output: JSON.stringify(how.output) }),
    ...(how.status === 'ABORTED' && stoppedBecause),
    ...(how.status === 'FAILED' && { error: how.error, cause: how.cause }),
  };
}

/** As the protocol has times. */
function seconds(date: Date): number {
  return date.getTime() / 1000;
}

interface Execution {
  readonly arn: string;
  readonly name: string;
  readonly input: string;
  readonly startedAt: Date;
  readonly cancel: AbortController;
  stoppedBecause?: { readonly error?: string | undefined; readonly cause?: string | undefined };
  /** Undefined while it runs. */
  ended?: { readonly at: Date; readonly how: Ended };
}

type Executions = ReturnType<typeof createExecutions>;

function createExecutions({ machine, region, onEnd, ...dependencies }: LocalStatesOptions) {
  const arnOf = (resource: string): string => `arn:aws:states:${region}:000000000000:${resource}`;
  const all = new Map<string, Execution>();
  const running = new Set<Promise<void>>();
  const run = async (execution: Execution): Promise<void> => {
    const { arn, name, input, cancel } = execution;
    const hostDependencies = { ...dependencies, clock: SYSTEM_CLOCK, random: Math.random, signal: cancel.signal };
    const how = await runStateMachine(machine, JSON.parse(input), hostDependencies).catch(
      (error: unknown): Ended => ({ status: 'FAILED', error: RUNTIME, cause: `${arn}: ${messageOf(error)}` }),
    );
    execution.ended = { at: new Date(), how };
    onEnd(name, how);
  };
  return {
    stateMachineArn: arnOf('stateMachine:batchscore-jobs'),
    /**
     * A name stands for one execution: started again with the same input while it runs, it is that one.
     *
     * @returns undefined when there is one of that name that has ended, or has another input
     * @see https://docs.aws.amazon.com/step-functions/latest/apireference/API_StartExecution.html
     */
    start(name: string, input: string): { readonly execution: Execution; readonly isNew: boolean } | undefined {
      const arn = arnOf(`execution:batchscore-jobs:${name}`);
      const before = all.get(arn);
      if (before !== undefined) {
        const isSame = before.ended === undefined && before.input === input;
        return isSame ? { execution: before, isNew: false } : undefined;
      }
      const execution: Execution = { arn, name, input, startedAt: new Date(), cancel: new AbortController() };
      all.set(arn, execution);
      const finished = run(execution).finally(() => running.delete(finished));
      running.add(finished);
      return { execution, isNew: true };
    },
    find(arn: string): Execution {
      const execution = all.get(arn);
      if (execution === undefined) throw new Refusal('ExecutionDoesNotExist', 'there is no execution of that ARN');
      return execution;
    },
    async stop(): Promise<void> {
      for (const { cancel } of all.values()) cancel.abort();
      await Promise.all(running);
    },
  };
}

/** What states reach. */
export interface StateDependencies {
  /** Calls a function; what it throws is the error of the state. */
  readonly invoke: (functionArn: string, payload: unknown) => Promise<unknown>;
  readonly objects: {
    get(bucket: string, key: string): Promise<string>;
    put(bucket: string, key: string, body: string): Promise<void>;
  };
  readonly clock: Clock;
  /** 0 to 1, for waits with jitter. */
  readonly random: () => number;
  readonly signal: AbortSignal;
}

/**
 * Runs a state machine in this process, as Step Functions does: a task calls a function, a distributed map reads its items
 * from an object and runs its processor for each. When the signal aborts, no further call is made.
 *
 * @throws Error when the definition has a field that it does not know
 */
export async function runStateMachine(machine: StateMachine, input: unknown, deps: StateDependencies): Promise<Ended> {
  refuseUnknownFields(machine, 'state machine');
  try {
    return { status: 'SUCCEEDED', output: await walk(machine, { data: input }, deps) };
  } catch (error) {
    if (deps.signal.aborted) return { status: 'ABORTED' };
    if (error instanceof StateError) return { status: 'FAILED', error: error.error, cause: error.text };
    throw error;
  }
}

/** An error as Step Functions names it: states retry and catch it by its name. */
export class StateError extends Error {
  readonly error: string;
  readonly text: string;

  constructor(error: string, text: string) {
    super(`${error}: ${text}`);
    this.error = error;
    this.text = text;
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
    if (state === undefined) throw new StateError(RUNTIME, `${name}: expected a state of that name, got none`);
    switch (state.Type) {
      case 'Succeed':
        return data;
      case 'Fail':
        throw new StateError(String(read(state.ErrorPath, { data })), String(read(state.CausePath, { data })));
      case 'Choice':
        name = chosen(state, data);
        break;
      default: {
        const outcome = await attempt(state, { data, context }, deps);
        if ('caught' in outcome) {
          const { error, text } = outcome.error;
          data = place(outcome.caught.ResultPath, data, { Error: error, Cause: text });
          name = outcome.caught.Next;
        } else {
          data = outputOf(state, data, outcome.result);
          name = state.Next;
        }
      }
    }
  }
  return data;
}

function chosen({ Choices, Default }: ChoiceState, data: unknown): string {
  const choice = Choices.find(({ Variable, IsPresent }) => (find(Variable, { data }) !== undefined) === IsPresent);
  return choice?.Next ?? Default;
}

function outputOf(state: TaskState | MapState, data: unknown, result: unknown): unknown {
  if (state.Type === 'Map') return place(state.ResultPath, data, result);
  const { ResultSelector, ResultPath = '$', OutputPath = '$' } = state;
  const selected = ResultSelector === undefined ? result : fill(ResultSelector, { data: result });
  return read(OutputPath, { data: place(ResultPath, data, selected) });
}

type Outcome = { readonly result: unknown } | { readonly caught: Catcher; readonly error: StateError };

/**
 * Does what a state does until it is done, its retriers have no attempts left, or none means the error; then a catcher may
 * mean it. Each retrier counts for itself.
 *
 * @throws StateError that nothing caught
 * @see https://docs.aws.amazon.com/step-functions/latest/dg/concepts-error-handling.html
 */
async function attempt(state: TaskState | MapState, scope: Scope, deps: StateDependencies): Promise<Outcome> {
  const tries = new Map<Retrier, number>();
  for (;;) {
    try {
      return { result: await (state.Type === 'Task' ? runTask(state, scope, deps) : runMap(state, scope, deps)) };
    } catch (error) {
      if (!(error instanceof StateError)) throw error;
      const means = ({ ErrorEquals }: Retrier | Catcher): boolean =>
        ErrorEquals.includes(error.error) || (ErrorEquals.includes('States.ALL') && error.error !== RUNTIME);
      const retrier = state.Retry?.find(means);
      const before = (retrier && tries.get(retrier)) ?? 0;
      if (retrier === undefined || before >= retrier.MaxAttempts) {
        const caught = state.Catch?.find(means);
        if (caught === undefined) throw error;
        return { caught, error };
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

/** What crosses is JSON, as between services. @throws StateError of the function's own name, or States.Timeout */
async function runTask(state: TaskState, scope: Scope, deps: StateDependencies): Promise<unknown> {
  const { FunctionName, Payload } = fill(state.Parameters, scope);
  const answered = new AbortController();
  const call = deps.invoke(String(FunctionName), copyOf(Payload)).catch((thrown: unknown) => {
    // As Lambda tells of it.
    const errorType = thrown instanceof Error ? thrown.name : 'Error';
    throw new StateError(errorType, JSON.stringify({ errorType, errorMessage: messageOf(thrown) }));
  });
  const signal = AbortSignal.any([deps.signal, answered.signal]);
  const timeout = pause(state.TimeoutSeconds * 1000, { ...deps, signal }).then(() => {
    throw new StateError('States.Timeout', `expected an answer within ${state.TimeoutSeconds} s, got none`);
  });
  try {
    return { Payload: copyOf(await raceAbort(Promise.race([call, timeout]), deps.signal)) };
  } finally {
    answered.abort();
  }
}

function copyOf(value: unknown): unknown {
  return value === undefined ? null : JSON.parse(JSON.stringify(value));
}

/**
 * As one child fails, the others are stopped and the map fails: none is tolerated. The answers of all children go to one
 * object, where Step Functions writes several and a manifest of them.
 */
async function runMap(state: MapState, scope: Scope, deps: StateDependencies): Promise<unknown> {
  const { Bucket, Key } = fill(state.ItemReader.Parameters, scope);
  const lines = (await deps.objects.get(String(Bucket), String(Key))).split('\n');
  const items: unknown[] = lines.flatMap((line) => (line.trim() === '' ? [] : [JSON.parse(line)]));
  const failed = new AbortController();
  const signal = AbortSignal.any([deps.signal, failed.signal]);
  const limit = pLimit(Number(read(state.MaxConcurrencyPath, scope)));
  const child = async (item: unknown): Promise<unknown> => {
    const data = fill(state.ItemSelector, { ...scope, context: { Map: { Item: { Value: item } } } });
    try {
      return await walk(state.ItemProcessor, { data }, { ...deps, signal });
    } catch (error) {
      failed.abort(error);
      throw error;
    }
  };
  const children = await Promise.allSettled(items.map((item) => limit(child, item)));
  deps.signal.throwIfAborted();
  if (failed.signal.aborted) {
    if (!(failed.signal.reason instanceof StateError)) throw failed.signal.reason;
    throw new StateError(
      'States.ExceedToleratedFailureThreshold',
      'The specified tolerated failure threshold was exceeded',
    );
  }
  const answers = children.flatMap((ended) => (ended.status === 'fulfilled' ? [ended.value] : []));
  const to = fill(state.ResultWriter.Parameters, scope);
  const body = JSON.stringify(answers.map((Output) => ({ Output: JSON.stringify(Output), Status: 'SUCCEEDED' })));
  await deps.objects.put(String(to.Bucket), `${to.Prefix}/${randomUUID()}/SUCCEEDED_0.json`, body);
  return answers;
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
  readonly context?: unknown;
}

const PATH = /^\$\$?(\.\w+)*$/;
const FORMAT = /^States\.Format\('([^']*)', (\$[\w.]*)\)$/;

/** @throws StateError when there is nothing at the path, or it is none that the local stack knows */
function read(path: string, scope: Scope): unknown {
  const found = find(path, scope);
  if (found === undefined) throw new StateError(RUNTIME, `${path}: expected something there, got nothing`);
  return found;
}

/** What is at a path; undefined if nothing is. */
function find(path: string, { data, context }: Scope): unknown {
  if (!PATH.test(path)) {
    throw new StateError(
      RUNTIME,
      `${path}: expected $, $$ and names after dots, which is all that the local stack knows`,
    );
  }
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
  if (name === undefined || !isObject(data)) {
    throw new StateError(
      RUNTIME,
      `${path}: expected null, $ or $.name of an object, which is all that the local stack knows`,
    );
  }
  return { ...data, [name]: result };
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Fields that are walked here with any value, and those of which only some values mean what is done here. */
const FIELDS =
  'Comment StartAt States Parameters TimeoutSeconds ResultSelector ResultPath OutputPath Retry Catch Next End Label ItemReader ' +
  'ItemSelector MaxConcurrencyPath ItemProcessor ResultWriter Choices Default ErrorPath CausePath ErrorEquals IntervalSeconds ' +
  'MaxAttempts BackoffRate MaxDelaySeconds Variable IsPresent ReaderConfig ProcessorConfig';
const VALUES: Readonly<Record<string, RegExp>> = {
  Type: /^(Task|Map|Choice|Succeed|Fail)$/,
  Resource: /:states:::(lambda:invoke|s3:getObject|s3:putObject)$/,
  InputType: /^JSONL$/,
  Mode: /^DISTRIBUTED$/,
  ExecutionType: /^STANDARD$/,
  JitterStrategy: /^FULL$/,
};
const KNOWN = new Set([...FIELDS.split(' '), ...Object.keys(VALUES)]);
/** Their keys are the deployer's own. */
const TEMPLATES = new Set(['Parameters', 'ItemSelector', 'ResultSelector']);

/**
 * A definition with a field that is not walked here would run otherwise on AWS.
 *
 * @throws Error naming the first field or value that is not known
 */
function refuseUnknownFields(value: object, where: string): void {
  for (const [key, part] of Object.entries(value)) {
    const values = VALUES[key];
    if (!KNOWN.has(key) || (values !== undefined && !values.test(String(part)))) {
      throw new Error(
        `${where}: expected only what the local stack walks, got ${key} ${JSON.stringify(part)}; teach ` +
          'cli/local/localStates.ts to do what it means, or leave it out',
      );
    }
    if (typeof part !== 'object' || part === null || TEMPLATES.has(key)) continue;
    const named = key === 'States' ? Object.entries(part) : [part].flat().map((one) => [`${key} of ${where}`, one]);
    for (const [name, one] of named) if (isObject(one)) refuseUnknownFields(one, `${name}`);
  }
}
