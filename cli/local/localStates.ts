import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
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
} from '../../infra/constructs/jobs/states.ts';
import { type Clock, SYSTEM_CLOCK } from '../../lambda/aws/clock.ts';
import { messageOf } from '../../lambda/core/contract/failure.ts';
import { refuseForeignCallers } from './localServices.ts';

interface SfnServer {
  /** `http://127.0.0.1:PORT`: the endpoint to give a client of Step Functions. */
  readonly endpoint: string;
  close(): Promise<void>;
}

const START = z.object({ stateMachineArn: z.string(), name: z.string().regex(/^[\w-]{1,80}$/), input: z.string() });
const EXECUTION = z.object({ executionArn: z.string() });
const STOP = EXECUTION.extend({ error: z.string().optional(), cause: z.string().optional() });

/** What a call answers, or how Step Functions refuses it. */
type Answer = { readonly answer: object } | { readonly refusal: string; readonly message: string };

/**
 * Serves the three calls of Step Functions that jobs take, on a free port of 127.0.0.1.
 *
 * @see https://docs.aws.amazon.com/step-functions/latest/apireference/API_Operations.html
 */
export async function startSfnServer(executions: LocalExecutions): Promise<SfnServer> {
  const server = createServer((request, response) => {
    reply(request, response, executions).catch((error: unknown) => {
      respond(response, 500, { __type: 'InternalServerError', message: messageOf(error) });
    });
  });
  refuseForeignCallers(server);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    endpoint: `http://127.0.0.1:${port}`,
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

async function reply(request: IncomingMessage, response: ServerResponse, executions: LocalExecutions): Promise<void> {
  const target = String(request.headers['x-amz-target'] ?? '').replace('AWSStepFunctions.', '');
  const answer = answerTo(target, await text(request), executions);
  if ('answer' in answer) respond(response, 200, answer.answer);
  else respond(response, 400, { __type: answer.refusal, message: answer.message });
}

function respond(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'content-type': 'application/x-amz-json-1.0' }).end(JSON.stringify(body));
}

function answerTo(target: string, body: string, executions: LocalExecutions): Answer {
  try {
    const input: unknown = JSON.parse(body);
    switch (target) {
      case 'StartExecution':
        return start(START.parse(input), executions);
      case 'DescribeExecution':
        return of(executions.find(EXECUTION.parse(input).executionArn), (found) => describe(found, executions));
      case 'StopExecution':
        return stop(STOP.parse(input), executions);
      default:
        return { refusal: 'UnknownOperationException', message: `${target}: the local stack knows no such call` };
    }
  } catch (error) {
    return { refusal: 'ValidationException', message: messageOf(error) };
  }
}

function start({ stateMachineArn, name, input }: z.infer<typeof START>, executions: LocalExecutions): Answer {
  if (stateMachineArn !== executions.stateMachineArn) {
    return { refusal: 'StateMachineDoesNotExist', message: `${stateMachineArn}: there is none of that name` };
  }
  const started = executions.start(name, input);
  if (started === undefined) {
    return { refusal: 'ExecutionAlreadyExists', message: `${name}: there was an execution of that name` };
  }
  const { arn, startedAt } = started.execution;
  return { answer: { executionArn: arn, startDate: seconds(startedAt) } };
}

function stop({ executionArn, ...why }: z.infer<typeof STOP>, executions: LocalExecutions): Answer {
  return of(executions.stop(executionArn, why), () => ({ stopDate: seconds(new Date()) }));
}

function of(execution: Execution | undefined, answer: (execution: Execution) => object): Answer {
  if (execution !== undefined) return { answer: answer(execution) };
  return { refusal: 'ExecutionDoesNotExist', message: 'there is no execution of that ARN' };
}

function describe({ arn, name, input, startedAt, ended }: Execution, { stateMachineArn }: LocalExecutions): object {
  const common = { executionArn: arn, stateMachineArn, name, input, startDate: seconds(startedAt) };
  if (ended === undefined) return { ...common, status: 'RUNNING' };
  const { at, how, why } = ended;
  return {
    ...common,
    status: how.status,
    stopDate: seconds(at),
    ...(how.status === 'SUCCEEDED' && { output: JSON.stringify(how.output) }),
    ...(how.status === 'ABORTED' && why),
    ...(how.status === 'FAILED' && { error: how.error, cause: how.cause }),
  };
}

/** As the protocol has times. */
function seconds(date: Date): number {
  return date.getTime() / 1000;
}

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
interface Why {
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

interface ExecutionsOptions extends Pick<Surroundings, 'invoke' | 'objects'> {
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

/** What states reach. */
export interface Surroundings extends Patience {
  /** Calls a function; what it throws is the error of the state. */
  readonly invoke: (functionArn: string, payload: unknown) => Promise<unknown>;
  readonly objects: {
    get(bucket: string, key: string): Promise<string>;
    put(bucket: string, key: string, body: string): Promise<void>;
  };
}

/** What became of an execution. */
export type Ended =
  | { readonly status: 'SUCCEEDED'; readonly output: unknown }
  | { readonly status: 'FAILED'; readonly error: string; readonly cause: string }
  | { readonly status: 'ABORTED' };

/**
 * Runs a state machine in this process, as Step Functions does: a task calls a function, a distributed map reads its items
 * from an object and runs its processor for each. When the signal aborts, no further call is made.
 *
 * @throws Error when the definition has a field that it does not know
 */
export async function runStateMachine(
  machine: StateMachine,
  input: unknown,
  surroundings: Surroundings,
): Promise<Ended> {
  refuseUnknownFields(machine);
  try {
    return { status: 'SUCCEEDED', output: await walk(machine, { data: input }, surroundings) };
  } catch (error) {
    if (surroundings.signal.aborted) return { status: 'ABORTED' };
    if (error instanceof StateError) return { status: 'FAILED', error: error.error, cause: error.text };
    throw error;
  }
}

/** @returns the output of the last state */
async function walk(machine: StateMachine, start: Scope, surroundings: Surroundings): Promise<unknown> {
  const { context } = start;
  let { data } = start;
  let name: string | undefined = machine.StartAt;
  while (name !== undefined) {
    surroundings.signal.throwIfAborted();
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
        const outcome = await attempt(state, () => act(state, { data, context }, surroundings), surroundings);
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
  return (
    Choices.find(({ Variable, IsPresent }) => (find(Variable, { data }) !== undefined) === IsPresent)?.Next ?? Default
  );
}

function act(state: TaskState | MapState, scope: Scope, surroundings: Surroundings): Promise<unknown> {
  return state.Type === 'Task' ? call(state, scope, surroundings) : runMap(state, scope, surroundings);
}

function outputOf(state: TaskState | MapState, data: unknown, result: unknown): unknown {
  if (state.Type === 'Map') return place(state.ResultPath, data, result);
  const { ResultSelector, ResultPath = '$', OutputPath = '$' } = state;
  const selected = ResultSelector === undefined ? result : fill(ResultSelector, { data: result });
  return read(OutputPath, { data: place(ResultPath, data, selected) });
}

/** What crosses is JSON, as between services. @throws StateError of the function's own name, or States.Timeout */
async function call(state: TaskState, scope: Scope, surroundings: Surroundings): Promise<unknown> {
  const { FunctionName, Payload } = fill(state.Parameters, scope);
  const { signal } = surroundings;
  const given = new AbortController();
  const answer = surroundings.invoke(String(FunctionName), copyOf(Payload)).catch((error: unknown) => {
    throw errorOfFunction(error);
  });
  const timeout = pause(state.TimeoutSeconds * 1000, {
    ...surroundings,
    signal: AbortSignal.any([signal, given.signal]),
  }).then(() => {
    throw new StateError('States.Timeout', `expected an answer within ${state.TimeoutSeconds} s, got none`);
  });
  try {
    return { Payload: copyOf(await untilAborted(Promise.race([answer, timeout]), signal)) };
  } finally {
    given.abort();
  }
}

function copyOf(value: unknown): unknown {
  return value === undefined ? null : JSON.parse(JSON.stringify(value));
}

/** As one child fails, the others are stopped and the map fails: none is tolerated. */
async function runMap(state: MapState, scope: Scope, surroundings: Surroundings): Promise<unknown> {
  const { Bucket, Key } = fill(state.ItemReader.Parameters, scope);
  const text = await surroundings.objects.get(String(Bucket), String(Key));
  const items: unknown[] = text.split('\n').flatMap((line) => (line.trim() === '' ? [] : [JSON.parse(line)]));
  const failed = new AbortController();
  const signal = AbortSignal.any([surroundings.signal, failed.signal]);
  const limit = pLimit(Number(read(state.MaxConcurrencyPath, scope)));
  const child = async (item: unknown): Promise<unknown> => {
    const context = { Map: { Item: { Value: item } } };
    const data = fill(state.ItemSelector, { ...scope, context });
    try {
      return await walk(state.ItemProcessor, { data }, { ...surroundings, signal });
    } catch (error) {
      failed.abort(error);
      throw error;
    }
  };
  const children = await Promise.allSettled(items.map((item) => limit(child, item)));
  surroundings.signal.throwIfAborted();
  if (failed.signal.aborted) {
    if (!(failed.signal.reason instanceof StateError)) throw failed.signal.reason;
    throw new StateError(
      'States.ExceedToleratedFailureThreshold',
      'The specified tolerated failure threshold was exceeded',
    );
  }
  const answers = children.flatMap((ended) => (ended.status === 'fulfilled' ? [ended.value] : []));
  await writeAnswers(state, scope, answers, surroundings);
  return answers;
}

/** One object with the answers of all children, where Step Functions writes several and a manifest of them. */
async function writeAnswers(
  { ResultWriter }: MapState,
  scope: Scope,
  answers: readonly unknown[],
  { objects }: Surroundings,
): Promise<void> {
  const { Bucket, Prefix } = fill(ResultWriter.Parameters, scope);
  const body = JSON.stringify(answers.map((Output) => ({ Output: JSON.stringify(Output), Status: 'SUCCEEDED' })));
  await objects.put(String(Bucket), `${Prefix}/${randomUUID()}/SUCCEEDED_0.json`, body);
}

interface Patience {
  readonly clock: Clock;
  /** 0 to 1, for waits with jitter. */
  readonly random: () => number;
  readonly signal: AbortSignal;
}

interface Tried {
  readonly Retry?: readonly Retrier[];
  readonly Catch?: readonly Catcher[];
}

type Outcome = { readonly result: unknown } | { readonly caught: Catcher; readonly error: StateError };

/**
 * Does what a state does until it is done, its retriers have no attempts left, or none means the error; then a catcher may
 * mean it. Each retrier counts for itself.
 *
 * @throws StateError that nothing caught
 */
async function attempt(state: Tried, act: () => Promise<unknown>, patience: Patience): Promise<Outcome> {
  const tries = new Map<Retrier, number>();
  for (;;) {
    try {
      return { result: await act() };
    } catch (error) {
      if (!(error instanceof StateError)) throw error;
      const retrier = state.Retry?.find(({ ErrorEquals }) => means(ErrorEquals, error));
      const before = (retrier && tries.get(retrier)) ?? 0;
      if (retrier === undefined || before >= retrier.MaxAttempts) return caughtBy(state, error);
      tries.set(retrier, before + 1);
      await pause(waitSeconds(retrier, before, patience.random) * 1000, patience);
    }
  }
}

function caughtBy({ Catch: catchers = [] }: Tried, error: StateError): Outcome {
  const caught = catchers.find(({ ErrorEquals }) => means(ErrorEquals, error));
  if (caught === undefined) throw error;
  return { caught, error };
}

/** @see https://docs.aws.amazon.com/step-functions/latest/dg/concepts-error-handling.html */
function waitSeconds(retrier: Retrier, before: number, random: () => number): number {
  const { IntervalSeconds = 1, BackoffRate = 2, MaxDelaySeconds = Number.POSITIVE_INFINITY, JitterStrategy } = retrier;
  const seconds = Math.min(IntervalSeconds * BackoffRate ** before, MaxDelaySeconds);
  return JitterStrategy === 'FULL' ? seconds * random() : seconds;
}

/** @throws the signal's reason when it aborts before */
async function pause(ms: number, { clock, signal }: Pick<Patience, 'clock' | 'signal'>): Promise<void> {
  const waited = Promise.withResolvers<void>();
  const cancel = clock.after(ms, waited.resolve);
  try {
    await untilAborted(waited.promise, signal);
  } finally {
    cancel();
  }
}

/** What is under way goes on when the signal aborts, but is waited for no longer. @throws the signal's reason */
async function untilAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  // It may fail when nobody waits for it any more.
  work.catch(() => {});
  signal.throwIfAborted();
  const aborted = Promise.withResolvers<never>();
  const abort = (): void => aborted.reject(signal.reason);
  signal.addEventListener('abort', abort, { once: true });
  try {
    return await Promise.race([work, aborted.promise]);
  } finally {
    signal.removeEventListener('abort', abort);
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
      return key.endsWith('.$') ? [key.slice(0, -2), evaluate(value, scope)] : [key, value];
    }),
  );
}

function evaluate(expression: string, scope: Scope): unknown {
  const [, format, path] = FORMAT.exec(expression) ?? [];
  return format === undefined || path === undefined
    ? read(expression, scope)
    : format.replace('{}', () => String(read(path, scope)));
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

/** An error as Step Functions names it: states retry and catch it by its name. */
export class StateError extends Error {
  readonly error: string;
  readonly text: string;

  constructor(error: string, text: string) {
    super(`${error}: ${text}`);
    this.name = 'StateError';
    this.error = error;
    this.text = text;
  }
}

/** What cannot be tried again: an input that a state's fields do not fit. */
const RUNTIME = 'States.Runtime';

/** What a function throws, as Lambda tells of it: JSON with the message in it. */
function errorOfFunction(thrown: unknown): StateError {
  const errorType = thrown instanceof Error ? thrown.name : 'Error';
  return new StateError(errorType, JSON.stringify({ errorType, errorMessage: messageOf(thrown) }));
}

/** Whether an `ErrorEquals` means an error. `States.ALL` stands for all but those that no state may catch. */
function means(errorEquals: readonly string[], { error }: StateError): boolean {
  return errorEquals.includes(error) || (errorEquals.includes('States.ALL') && error !== RUNTIME);
}

const TRIED = ['Retry', 'Catch'];
const ONWARD = ['Next', 'End'];

/** All that the local stack walks, by the type of the state. */
const FIELDS: Readonly<Record<string, readonly string[]>> = {
  Task: [
    'Type',
    'Resource',
    'Parameters',
    'TimeoutSeconds',
    'ResultSelector',
    'ResultPath',
    'OutputPath',
    ...TRIED,
    ...ONWARD,
  ],
  Map: [
    'Type',
    'Label',
    'ItemReader',
    'ItemSelector',
    'MaxConcurrencyPath',
    'ItemProcessor',
    'ResultWriter',
    'ResultPath',
    ...TRIED,
    ...ONWARD,
  ],
  Choice: ['Type', 'Choices', 'Default'],
  Succeed: ['Type'],
  Fail: ['Type', 'ErrorPath', 'CausePath'],
};

const OF_PARTS: Readonly<Record<string, readonly string[]>> = {
  Retry: ['ErrorEquals', 'IntervalSeconds', 'MaxAttempts', 'BackoffRate', 'MaxDelaySeconds', 'JitterStrategy'],
  Catch: ['ErrorEquals', 'Next', 'ResultPath'],
  Choices: ['Variable', 'IsPresent', 'Next'],
  ItemReader: ['Resource', 'ReaderConfig', 'Parameters'],
  ReaderConfig: ['InputType'],
  ResultWriter: ['Resource', 'Parameters'],
  ProcessorConfig: ['Mode', 'ExecutionType'],
};

const OF_MACHINE = ['Comment', 'StartAt', 'States'];
const OF_PROCESSOR = ['ProcessorConfig', 'StartAt', 'States'];

/** Values that stand for what the local stack does; another one would be something else. */
const ONLY: Readonly<Record<string, string>> = {
  InputType: 'JSONL',
  Mode: 'DISTRIBUTED',
  ExecutionType: 'STANDARD',
  JitterStrategy: 'FULL',
};

/** Optimised integrations, after `arn:<partition>:states:::`. */
const RESOURCES = ['lambda:invoke', 's3:getObject', 's3:putObject'];

/**
 * The local stack does what the fields say that it knows, and nothing of others: a definition with one would run here
 * otherwise than on AWS.
 *
 * @throws Error naming the first field, type or value that it does not know
 */
function refuseUnknownFields(machine: StateMachine, where = 'state machine', known = OF_MACHINE): void {
  refuseOthers(where, machine, known);
  for (const [name, state] of Object.entries(machine.States)) {
    const fields = FIELDS[state.Type];
    if (fields === undefined) throw unknown(`state '${name}'`, `type ${state.Type}`, Object.keys(FIELDS));
    refuseOthers(`state '${name}'`, state, fields);
    if (state.Type === 'Map') refuseUnknownFields(state.ItemProcessor, `processor of '${name}'`, OF_PROCESSOR);
  }
}

function refuseOthers(where: string, value: object, known: readonly string[]): void {
  for (const [key, part] of Object.entries(value)) {
    if (!known.includes(key)) throw unknown(where, `field ${key}`, known);
    const only = ONLY[key];
    if (only !== undefined && part !== only) throw unknown(where, `${key} ${part}`, [only]);
    if (key === 'Resource' && !RESOURCES.some((name) => part.endsWith(`:states:::${name}`))) {
      throw unknown(where, `resource ${part}`, RESOURCES);
    }
    const ofPart = OF_PARTS[key];
    if (ofPart !== undefined) for (const one of [part].flat()) refuseOthers(`${key} of ${where}`, one, ofPart);
  }
}

function unknown(where: string, got: string, known: readonly string[]): Error {
  return new Error(
    `${where}: expected only ${known.join(', ')}, which the local stack walks, got ${got}; teach cli/local/states to do ` +
      'what it means, or leave it out',
  );
}
