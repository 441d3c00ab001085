import { describe, expect, it } from '@jest/globals';
import { runStateMachine, type StateDependencies } from '../../../../cli/local/localStates.ts';
import { jobDefinition, type StateMachine, type TaskState } from '../../../../infra/jobs/jobDefinition.ts';

const DEFINITION = jobDefinition({ scoreFunctionArn: 'score', controlFunctionArn: 'control' });

const START = { job: 'a1', run: 1, bucket: 'files', key: 'in/x.jsonl', folder: 'out/a1/', concurrency: 2 };

interface Call {
  readonly function: string;
  readonly payload: {
    readonly action: string;
    readonly part?: unknown;
    readonly next?: unknown;
    readonly start?: unknown;
  };
}

/** What a function answers, or throws. */
type Answer = (call: Call) => unknown;

/** The parts of a plan, as lines. */
function planOf(parts: readonly unknown[]): string {
  return parts.map((part) => `${JSON.stringify(part)}\n`).join('');
}

/** What functions answer where nothing goes wrong: each part in one call. */
function wellAnswered({ payload }: Call): unknown {
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

function named(name: string, message = name): Error {
  const error = new Error(message);
  error.name = name;
  return error;
}

/** Runs the definition of jobs with waits that pass at once, and half of each wait that has jitter. */
async function runJob(
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
) {
  const calls: Call[] = [];
  const waits: number[] = [];
  const objects = new Map([['out/a1/plan.jsonl', plan]]);
  const dependencies: StateDependencies = {
    async invoke(name, payload) {
      const call = { function: name, payload: payload as Call['payload'] };
      calls.push(call);
      return answer(call);
    },
    objects: {
      get: async (key) => objects.get(key),
      async put(key, body) {
        objects.set(key, String(body));
      },
    },
    clock: {
      now: () => 0,
      after(ms, callback) {
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

const actionsOf = (calls: readonly Call[]): string[] => calls.map(({ payload }) => payload.action);
const isScoring = ({ payload }: Call): boolean => payload.action === 'score';

describe('a job on the local stack', () => {
  it('has no more children at work than its concurrency', async () => {
    let working = 0;
    let max = 0;
    await runJob(
      async (call) => {
        if (isScoring(call)) max = Math.max(max, ++working);
        await new Promise(setImmediate);
        if (isScoring(call)) working--;
        return wellAnswered(call);
      },
      { plan: planOf(Array.from({ length: 9 }, (_, part) => ({ part }))) },
    );
    expect(max).toBe(START.concurrency);
  });
});

describe('a call that fails', () => {
  const failing = (error: Error, times: number) => {
    let left = times;
    return (call: Call): unknown => {
      if (isScoring(call) && left-- > 0) throw error;
      return wellAnswered(call);
    };
  };
  const onePart = { plan: planOf([{ part: 0 }]) };

  it('is made twice more, later each time, with jitter', async () => {
    const { ended, calls, waits } = await runJob(failing(named('Runtime.ExitError'), 2), onePart);
    expect(ended.status).toBe('SUCCEEDED');
    expect(actionsOf(calls)).toEqual(['plan', 'score', 'score', 'score', 'finish']);
    expect(waits).toEqual([2500, 5000]);
  });

  it('is made so often as Lambda has no concurrency left, up to a minute apart', async () => {
    const { ended, waits } = await runJob(failing(named('Lambda.TooManyRequestsException'), 40), onePart);
    expect(ended.status).toBe('SUCCEEDED');
    expect(waits).toHaveLength(40);
    expect(waits.slice(0, 8)).toEqual([500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]);
  });

  it('counts the attempts of each kind of error for itself', async () => {
    const errors = ['Lambda.ServiceException', 'Error', 'Lambda.ServiceException', 'Error'];
    const { ended, waits } = await runJob((call) => {
      const name = isScoring(call) ? errors.shift() : undefined;
      if (name !== undefined) throw named(name);
      return wellAnswered(call);
    }, onePart);
    expect(ended.status).toBe('SUCCEEDED');
    expect(waits).toEqual([1000, 2500, 2000, 5000]);
  });

  it('every time is passed over: the function hears why, and the part goes on behind the piece', async () => {
    let failed = false;
    let isLost = true;
    const { ended, calls } = await runJob((call) => {
      if (isScoring(call) && !failed) throw named('Runtime.ExitError', 'signal: killed');
      if (call.payload.action !== 'skip') return wellAnswered(call);
      failed = true;
      if (isLost) {
        isLost = false;
        throw named('Lambda.ServiceException');
      }
      return { action: 'score', bucket: 'files', folder: 'out/a1/', part: { part: 0 }, next: { piece: 1 } };
    }, onePart);
    expect(ended.status).toBe('SUCCEEDED');
    expect(actionsOf(calls)).toEqual(['plan', 'score', 'score', 'score', 'skip', 'skip', 'score', 'finish']);
    expect(calls[4]?.payload).toEqual({
      action: 'skip',
      bucket: 'files',
      folder: 'out/a1/',
      part: { part: 0 },
      error: {
        Error: 'Runtime.ExitError',
        Cause: JSON.stringify({ errorType: 'Runtime.ExitError', errorMessage: 'signal: killed' }),
      },
      entered: expect.any(String),
    });
    // A call that is made again is known by it.
    expect(calls[5]?.payload).toEqual(calls[4]?.payload);
    expect(calls[6]?.payload.next).toEqual({ piece: 1 });
  });
});

describe('a job that cannot go on', () => {
  it('ends at once when the input was overwritten: no further call scores, and the failure is explained', async () => {
    const { ended, calls, waits } = await runJob(
      (call) => {
        if (isScoring(call)) throw named('INPUT_CHANGED');
        return wellAnswered(call);
      },
      { plan: planOf(Array.from({ length: 20 }, (_, part) => ({ part }))) },
    );
    expect(ended).toEqual({ status: 'FAILED', error: 'INPUT_CHANGED', cause: 'it was overwritten' });
    expect(waits).toEqual([]);
    expect(calls.filter(isScoring).length).toBeLessThanOrEqual(START.concurrency);
    const explained = calls.find(({ payload }) => payload.action === 'explain');
    expect(explained?.payload.start).toMatchObject({ error: { Error: 'States.ExceedToleratedFailureThreshold' } });
    expect(actionsOf(calls)).not.toContain('finish');
  });
});

describe('a job that is cancelled', () => {
  it('makes no further call, not even of what waits for another attempt', async () => {
    const cancel = new AbortController();
    const { ended, calls } = await runJob(
      (call) => {
        if (!isScoring(call)) return wellAnswered(call);
        cancel.abort();
        throw named('Lambda.TooManyRequestsException');
      },
      { signal: cancel.signal, plan: planOf([{ part: 0 }, { part: 1 }, { part: 2 }]) },
    );
    const made = calls.length;
    await new Promise(setImmediate);
    expect(ended).toEqual({ status: 'ABORTED' });
    expect(calls).toHaveLength(made);
    expect(calls.filter(isScoring).length).toBeLessThanOrEqual(START.concurrency);
    expect(actionsOf(calls)).not.toContain('finish');
  });
});

describe('a path', () => {
  const finishingWith = (path: string): StateMachine => ({
    ...DEFINITION,
    States: {
      ...DEFINITION.States,
      Finish: {
        ...(DEFINITION.States.Finish as TaskState),
        Parameters: { FunctionName: 'control', 'Payload.$': path },
      },
    },
  });

  it.each(['$.nothing', '$.parts[0]', '$..part', "States.Hash('x', 'MD5')"])(
    'that leads to nothing, or is of a kind that is not known, ends the execution, and no catcher takes it: %s',
    async (path) => {
      const { ended, calls } = await runJob(wellAnswered, { machine: finishingWith(path) });
      const cause = expect.stringContaining(`${path}: expected `);
      expect(ended).toEqual({ status: 'FAILED', error: 'States.Runtime', cause });
      expect(actionsOf(calls)).not.toContain('explain');
    },
  );
});
