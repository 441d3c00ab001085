import { type Ended, runStateMachine, type StateDependencies } from '../../../../../cli/local/localStates.ts';
import { jobDefinition } from '../../../../../infra/constructs/jobs/definition.ts';
import type { StateMachine } from '../../../../../infra/constructs/jobs/states.ts';

export const DEFINITION = jobDefinition({ scoreFunctionArn: 'score', controlFunctionArn: 'control' });

export const START = { job: 'a1', run: 1, bucket: 'files', key: 'in/x.jsonl', folder: 'out/a1/', concurrency: 2 };

export interface Call {
  readonly function: string;
  readonly payload: {
    readonly action: string;
    readonly part?: unknown;
    readonly next?: unknown;
    readonly start?: unknown;
  };
}

/** What a function answers, or throws. */
export type Answer = (call: Call) => unknown;

export interface Run {
  readonly ended: Ended;
  readonly calls: readonly Call[];
  /** Milliseconds of each wait; time itself does not pass. */
  readonly waits: readonly number[];
  readonly objects: ReadonlyMap<string, string>;
}

/** The parts of a plan, as lines. */
export function planOf(parts: readonly unknown[]): string {
  return parts.map((part) => `${JSON.stringify(part)}\n`).join('');
}

/** What functions answer where nothing goes wrong: each part in one call. */
export function wellAnswered({ payload }: Call): unknown {
  switch (payload.action) {
    case 'plan':
      return { planKey: 'out/a1/plan.jsonl', parts: 2, pieces: 2 };
    case 'finish':
      return { rows: 2, errors: {}, failedParts: 0 };
    case 'explain':
      return { code: 'INPUT_CHANGED', message: 'it was overwritten' };
    default: {
      const { next, ...done } = payload;
      return done;
    }
  }
}

export function named(name: string, message = name): Error {
  const error = new Error(message);
  error.name = name;
  return error;
}

/** Runs the definition of jobs with waits that pass at once, and half of each wait that has jitter. */
export async function runJob(
  answer: Answer = wellAnswered,
  {
    plan = planOf([{ part: 0 }, { part: 1 }]),
    machine = DEFINITION,
    signal = new AbortController().signal,
  }: {
    readonly plan?: string;
    readonly machine?: StateMachine;
    readonly signal?: AbortSignal;
  } = {},
): Promise<Run> {
  const calls: Call[] = [];
  const waits: number[] = [];
  const objects = new Map([['files/out/a1/plan.jsonl', plan]]);
  const dependencies: StateDependencies = {
    async invoke(name, payload) {
      const call = { function: name, payload: payload as Call['payload'] };
      calls.push(call);
      return answer(call);
    },
    objects: {
      async get(bucket, key) {
        return objects.get(`${bucket}/${key}`) ?? '';
      },
      async put(bucket, key, body) {
        objects.set(`${bucket}/${key}`, body);
      },
    },
    clock: {
      now: () => 0,
      after(ms, callback) {
        // A call's own time, of which no test is to run out.
        if (ms > 900_000) return () => {};
        waits.push(ms);
        const soon = setImmediate(callback);
        return () => clearImmediate(soon);
      },
    },
    random: () => 0.5,
    signal,
  };
  return { ended: await runStateMachine(machine, START, dependencies), calls, waits, objects };
}
