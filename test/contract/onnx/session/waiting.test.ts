import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { createSampleRun, openSession } from '../../../../lambda/onnx/session.ts';
import type { RunTask, SessionSpec, Waiting } from '../../../../lambda/onnx/sessionJobs.ts';
import { fasterWaiting, maySpin, sessionSettings, WAITING_SETTINGS } from '../../../../lambda/onnx/waiting.ts';
import { slowModel } from '../../../helpers/onnxModels.ts';
import { afterThisTest, modelsDirectory } from '../../../helpers/openModels.ts';

const SPEC: SessionSpec = { path: 'model.onnx', providers: ['cpu'], sessionOptions: {} };

describe('whether threads may spin between runs', () => {
  it.each<[string, Partial<SessionSpec>, number, boolean]>([
    ['the only model on several cores', {}, 2, true],
    ['one core', {}, 1, false],
    ['other models beside it', { onlyModel: false }, 2, false],
    ['a GPU', { providers: ['cuda', 'cpu'] }, 2, false],
    ['several cards', { devices: [0, 1] }, 2, false],
    ['one thread', { sessionOptions: { intraOpNumThreads: 1 } }, 2, false],
    ['two threads', { sessionOptions: { intraOpNumThreads: 2 } }, 2, true],
    ['other settings', { sessionOptions: { extra: { session: { disable_prepacking: '1' } } } }, 2, true],
    ['a choice', { sessionOptions: { extra: { 'session.force_spinning_stop': '1' } } }, 2, false],
    ['a nested choice', { sessionOptions: { extra: { session: { intra_op: { allow_spinning: '0' } } } } }, 2, false],
    ['a time', { sessionOptions: { extra: { 'session.intra_op.spin_duration_us': '50' } } }, 2, false],
  ])('with %s', (_, differences, cores, expected) => {
    expect(maySpin({ ...SPEC, ...differences }, cores)).toBe(expected);
  });
});

describe('the settings of threads that wait', () => {
  it('give way to those of config.json, one by one', () => {
    const given = { session: { intra_op: { spin_duration_us: '50' } } };
    expect(sessionSettings(given, WAITING_SETTINGS.spinning)).toEqual({
      'session.force_spinning_stop': '0',
      'session.intra_op.spin_duration_us': '50',
    });
  });
});

describe('the faster way to wait', () => {
  /** A machine whose runs take what is given, in turns, on a clock of its own. */
  const measured = async (ms: Readonly<Record<Waiting, (run: number) => number>>, limitMs: number) => {
    const runs = { asleep: 0, spinning: 0 };
    let nowMs = 0;
    let rests = 0;
    const found = await fasterWaiting(
      {
        async timeMs(waiting) {
          runs[waiting] += 1;
          const taken = ms[waiting](runs[waiting]);
          nowMs += taken;
          return taken;
        },
        rest() {
          rests += 1;
        },
        now: () => nowMs,
      },
      limitMs,
    );
    return { found, runs, rests };
  };

  it.each([
    [2.5, 'spinning'],
    [2.93, 'spinning'],
    [2.95, 'asleep'],
    [3.5, 'asleep'],
  ])('is that of 3 ms asleep and %d ms spinning: %s', async (spinningMs, expected) => {
    const { found } = await measured({ asleep: () => 3, spinning: () => spinningMs }, 1_000);
    expect(found).toBe(expected);
  });

  it('does not go by single runs that something else held up, nor by the first after a rest', async () => {
    const spinning = (run: number): number => (run % 4 === 1 || run % 7 === 0 ? 50 : 2);
    const { found } = await measured({ asleep: () => 3, spinning }, 1_000);
    expect(found).toBe('spinning');
  });

  it('is looked for no longer than it may take, with three turns of four runs for each at least', async () => {
    const { runs, rests } = await measured({ asleep: () => 100, spinning: () => 100 }, 10);
    expect({ runs, rests }).toEqual({ runs: { asleep: 12, spinning: 12 }, rests: 6 });
    const short = await measured({ asleep: () => 1, spinning: () => 1 }, 1_000);
    expect(short.runs).toEqual({ asleep: 48, spinning: 48 });
  });
});

describe('the run that both ways are timed with', () => {
  const taskOf = (value: number): RunTask => ({
    inputs: [{ name: 'x', onnxType: 'float32', shape: [1, 1], data: Float32Array.of(value) }],
  });
  const sampleOf = (times: readonly number[]): RunTask | undefined => {
    const sample = createSampleRun();
    for (const ms of times) sample.offer(taskOf(ms))(ms);
    return sample.take();
  };

  it.each([
    [[0.25, 0.5, 0.125], 0.5],
    [[0.5, 4, 2, 8, 0.25], 2],
    [[25, 16, 0.5], 16],
  ])('of %j ms is that of %d ms', (times, expected) => {
    expect(sampleOf(times)).toEqual(taskOf(expected));
  });

  it('is none where all take long', () => {
    expect(sampleOf([25, 40])).toBeUndefined();
  });
});

describe('a session that was warmed up', () => {
  const opened = async (differences: Partial<SessionSpec>) => {
    const directory = await modelsDirectory({ 'model.onnx': slowModel(2, 256) });
    const session = await openSession({ ...SPEC, path: join(directory, 'model.onnx'), ...differences });
    afterThisTest(() => session.close());
    const run = async () => {
      const inputs = [
        { name: 'x', onnxType: 'float32', shape: [256, 256], data: new Float32Array(65_536).fill(0.001) },
      ];
      const { outputs } = await session.run({ inputs });
      return outputs;
    };
    return { run, session };
  };

  it('says how its threads wait, and answers as before', async () => {
    const { run, session } = await opened({ sessionOptions: { intraOpNumThreads: 2 } });
    for (let runs = 0; runs < 5; runs++) await run();
    const before = await run();
    const expected = availableParallelism() > 1 ? /^its threads (spin for a millisecond|sleep between runs)/ : /^none$/;
    expect((await session.warmedUp()).waiting ?? 'none').toMatch(expected);
    expect(await run()).toEqual(before);
  });

  it.each<[string, Partial<SessionSpec>]>([
    ['one thread', { sessionOptions: { intraOpNumThreads: 1 } }],
    ['other models beside it', { onlyModel: false, sessionOptions: { intraOpNumThreads: 2 } }],
  ])('compares nothing with %s', async (_, differences) => {
    const { run, session } = await opened(differences);
    await run();
    expect((await session.warmedUp()).waiting).toBeUndefined();
  });
});
