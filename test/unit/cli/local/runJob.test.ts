import { describe, expect, it } from '@jest/globals';
import { runJob } from '../../../../cli/local/runJob.ts';
import { linesOfPlan } from '../../../../lambda/jobs/jobObjects.ts';
import type { JobStart } from '../../../../lambda/jobs/jobTypes.ts';
import { memoryStorage } from '../../../helpers/jobs.ts';

const START: JobStart = {
  ...{ job: 'a1', run: 1, bucket: 'files', key: 'in/x.jsonl', etag: 'e', bytes: 1, folder: 'out/a1/' },
  ...{ concurrency: 2, spec: {} },
};

interface Call {
  readonly action: string;
  readonly part?: { readonly part: number };
  readonly next?: unknown;
  readonly start?: unknown;
  readonly call?: object;
}

/** What the functions answer where nothing goes wrong: each part in one call. */
function wellAnswered({ next, ...call }: Call): unknown {
  return call.action === 'explain' ? { code: 'INPUT_CHANGED', message: 'it was overwritten' } : call;
}

function named(name: string, message = name): Error {
  return Object.assign(new Error(message), { name });
}

/** Runs a job whose waits pass at once. */
async function run(
  answer: (call: Call) => unknown,
  { parts = 1, signal = new AbortController().signal }: { parts?: number; signal?: AbortSignal } = {},
) {
  const calls: Call[] = [];
  const waits: number[] = [];
  const storage = memoryStorage();
  const file = { path: '', key: 'in/a', etag: '"e"', bytes: parts, compression: 'none' } as const;
  const plan = Array.from({ length: parts }, (_, part) => ({ part, files: [{ ...file, start: part, end: part + 1 }] }));
  await storage.put('out/a1/plan.jsonl', linesOfPlan(plan));
  const call = async (event: object): Promise<unknown> => {
    calls.push(event as Call);
    return answer(event as Call);
  };
  const ended = await runJob(
    START,
    { score: call, control: call, storage, wait: async (ms) => waits.push(ms) },
    signal,
  );
  return { ended, calls, waits, actions: calls.map(({ action }) => action) };
}

const isScoring = ({ action }: Call): boolean => action === 'score';

describe('a job on the local stack', () => {
  it('has no more parts at work than its concurrency', async () => {
    let working = 0;
    let max = 0;
    const { ended } = await run(
      async (call) => {
        if (isScoring(call)) max = Math.max(max, ++working);
        await new Promise(setImmediate);
        if (isScoring(call)) working--;
        return wellAnswered(call);
      },
      { parts: 9 },
    );
    expect([ended.status, max]).toEqual(['SUCCEEDED', START.concurrency]);
  });

  it('makes a call that fails twice more, later each time', async () => {
    let left = 2;
    const { ended, actions, waits } = await run((call) => {
      if (isScoring(call) && left-- > 0) throw named('Runtime.ExitError');
      return wellAnswered(call);
    });
    expect(ended.status).toBe('SUCCEEDED');
    expect(actions).toEqual(['plan', 'score', 'score', 'score', 'finish']);
    expect(waits).toEqual([1000, 2000]);
  });

  it('passes over a piece whose calls all fail: the function hears why, and the part goes on behind it', async () => {
    let skips = 0;
    const { ended, calls, actions } = await run((call) => {
      if (isScoring(call) && skips === 0) throw named('Runtime.ExitError', 'signal: killed');
      if (call.action !== 'skip') return wellAnswered(call);
      if (skips++ === 0) throw new Error('its answer was lost');
      return { ...call.call, next: { piece: 1 } };
    });
    expect(ended.status).toBe('SUCCEEDED');
    expect(actions).toEqual(['plan', 'score', 'score', 'score', 'skip', 'skip', 'score', 'finish']);
    expect(calls[4]).toMatchObject({
      call: {
        ...{ action: 'score', bucket: 'files', folder: 'out/a1/', part: { part: 0 } },
        error: {
          Error: 'Runtime.ExitError',
          Cause: JSON.stringify({ errorType: 'Runtime.ExitError', errorMessage: 'signal: killed' }),
        },
      },
    });
    expect(calls[5]).toEqual(calls[4]);
    expect(calls[6]?.next).toEqual({ piece: 1 });
  });

  it('ends at once when the input was overwritten: no further call scores, and the failure is explained', async () => {
    const { ended, calls, actions, waits } = await run(
      (call) => {
        if (isScoring(call)) throw named('INPUT_CHANGED');
        return wellAnswered(call);
      },
      { parts: 20 },
    );
    expect(ended).toEqual({ status: 'FAILED', error: 'INPUT_CHANGED', cause: 'it was overwritten' });
    expect(waits).toEqual([]);
    expect(calls.filter(isScoring).length).toBeLessThanOrEqual(START.concurrency);
    expect(calls.at(-1)?.start).toMatchObject({ error: { Error: 'INPUT_CHANGED' } });
    expect(actions).not.toContain('finish');
  });

  it('makes no further call once it is cancelled', async () => {
    const cancel = new AbortController();
    const { ended, calls, actions } = await run(
      (call) => {
        if (!isScoring(call)) return wellAnswered(call);
        cancel.abort();
        throw new Error('died');
      },
      { signal: cancel.signal, parts: 3 },
    );
    const made = calls.length;
    await new Promise(setImmediate);
    expect(ended).toEqual({ status: 'ABORTED' });
    expect(calls).toHaveLength(made);
    expect(actions).toEqual(['plan', 'score']);
  });
});
