import { join } from 'node:path';
import { setImmediate as turnOfTheLoop } from 'node:timers/promises';
import { describe, expect, it } from '@jest/globals';
import { openSession, type Session, type SessionThread, startThread } from '../../../../lambda/onnx/session.ts';
import type { RunTask, SessionSpec } from '../../../../lambda/onnx/sessionJobs.ts';
import { identityModel, turningModel } from '../../../helpers/onnxModels.ts';
import { afterThisTest, modelsDirectory } from '../../../helpers/openModels.ts';

/** More than is copied. */
const MANY_ROWS = 100_000;
/** Some tens of milliseconds. */
const LONG = 20_000;

async function specOf(bytes: Uint8Array): Promise<SessionSpec> {
  const directory = await modelsDirectory({ 'model.onnx': bytes });
  return { path: join(directory, 'model.onnx'), providers: ['cpu'], sessionOptions: {} };
}

function rowsOf(length: number, value: number): RunTask {
  const data = new Float32Array(length).fill(value);
  return { inputs: [{ name: 'x', onnxType: 'float32', shape: [length / 3, 3], data }] };
}

function turns(count: number): RunTask {
  return { inputs: [{ name: 'turns', onnxType: 'int64', shape: [1], data: BigInt64Array.of(BigInt(count)) }] };
}

function keepsItsMemory({ inputs }: RunTask): boolean {
  return inputs.every(({ data }) => data.length > 0);
}

async function firstOf(session: Session, task: RunTask): Promise<unknown> {
  const { outputs } = await session.run(task);
  return outputs[0]?.data[0];
}

describe('a run that is asked for while another one is under way', () => {
  it('is handed over to the thread with a copy of its inputs, and each gets its own answer', async () => {
    const session = await openSession(await specOf(turningModel()));
    afterThisTest(() => session.close());
    const [first, next, third] = [LONG, 2, 3].map(turns) as [RunTask, RunTask, RunTask];

    const running = [firstOf(session, first)];
    await turnOfTheLoop();
    for (const task of [next, third]) running.push(firstOf(session, task));
    expect([first, next, third].map(keepsItsMemory)).toEqual([false, true, true]);

    expect(await Promise.all(running)).toEqual([LONG, 2, 3].map(BigInt));
    expect([first, next, third].map(keepsItsMemory)).toEqual([false, true, false]);
  });

  it('has its inputs copied only where they are small', async () => {
    const session = await openSession(await specOf(identityModel()));
    afterThisTest(() => session.close());
    const large = [4, 5, 6].map((value) => rowsOf(3 * MANY_ROWS, value));

    const running: Promise<unknown>[] = [];
    for (const task of large) {
      running.push(firstOf(session, task));
      await turnOfTheLoop();
    }

    expect(await Promise.all(running)).toEqual([4, 5, 6]);
    expect(large.map(keepsItsMemory)).toEqual([false, false, false]);
  });
});

describe('a job that was handed over to a thread', () => {
  const threadWithModel = async (): Promise<SessionThread> => {
    const spec = await specOf(turningModel());
    const thread = startThread();
    afterThisTest(() => thread.close());
    await thread.call('open', spec);
    return thread;
  };

  it('is not done once it was withdrawn, and those after it are', async () => {
    const thread = await threadWithModel();
    const running = thread.call('run', turns(LONG));
    let replied = false;
    const next = thread.callNext('run', turns(2));
    void next.reply.then(() => {
      replied = true;
    });

    expect(next.withdraw()).toBe(true);
    const after = thread.callNext('run', turns(3));

    expect([await running, await after.reply].map(({ outputs }) => Number(outputs[0]?.data[0]))).toEqual([LONG, 3]);
    expect(replied).toBe(false);
  });

  it('can no longer be withdrawn when it was done', async () => {
    const thread = await threadWithModel();
    const running = thread.call('run', turns(1));
    const next = thread.callNext('run', turns(2));
    await running;

    expect(Number((await next.reply).outputs[0]?.data[0])).toBe(2);
    expect(next.withdraw()).toBe(false);
  });

  it('is done before the thread is closed', async () => {
    const thread = await threadWithModel();
    const running = thread.call('run', turns(LONG));
    const next = thread.callNext('run', turns(2));
    const closed = thread.close();

    expect(Number((await running).outputs[0]?.data[0])).toBe(LONG);
    expect(Number((await next.reply).outputs[0]?.data[0])).toBe(2);
    await closed;
    await expect(thread.call('run', turns(1))).rejects.toThrow('got one that has ended');
  });
});
