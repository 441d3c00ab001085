import { randomUUID } from 'node:crypto';
import pLimit from 'p-limit';
import type { ChoiceState, MapState, State, StateMachine, TaskState } from '../../infra/jobs/jobDefinition.ts';
import { attempt, type Patience, pause, untilAborted } from './states/attempts.ts';
import { refuseUnknownFields } from './states/knownFields.ts';
import { fill, find, place, read, type Scope } from './states/paths.ts';
import { errorOfFunction, RUNTIME, StateError } from './states/stateError.ts';

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
