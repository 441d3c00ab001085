import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { onDevice } from '../../../lambda/onnx/provider.ts';
import { openSession, type Session, type SessionReply } from '../../../lambda/onnx/session.ts';
import type { RunTask } from '../../../lambda/onnx/sessionOrders.ts';
import { identityModel, turningModel } from '../../helpers/onnxModels.ts';
import { afterThisTest, alive, counting, modelsDirectory, openOnly, watchThreads } from '../../helpers/openModels.ts';

/** A processor stands for each device: a session of ONNX Runtime is the same there. */
const SEAM = { takesDevices: () => true };
/** About a second. */
const LONG = 500_000;

async function onTwoDevices(): Promise<Session> {
  const directory = await modelsDirectory({ 'model.onnx': turningModel() });
  const path = join(directory, 'model.onnx');
  const session = await openSession({ path, providers: ['cpu'], devices: [0, 1], sessionOptions: {} });
  afterThisTest(() => session.close());
  return session;
}

function turns(count: number): RunTask {
  return { inputs: [{ name: 'turns', onnxType: 'int64', shape: [1], data: BigInt64Array.of(BigInt(count)) }] };
}

function countOf({ outputs }: SessionReply): number {
  return Number(outputs[0]?.data[0]);
}

describe('a model on several devices', () => {
  it('is opened once on each, in a thread of its own, whatever is run', async () => {
    const threads = watchThreads();
    const session = await onTwoDevices();

    await Promise.all([1, 2, 3, 4, 5].map((count) => session.run(turns(count))));
    await session.endWarmUp();
    await session.run(turns(1));

    expect([session.devices, threads.length]).toEqual([2, 2]);
  });

  it('runs on the device that is free, while another is busy', async () => {
    const session = await onTwoDevices();
    const ended: string[] = [];
    const long = session.run(turns(LONG)).finally(() => void ended.push('long'));

    const short = await Promise.all([2, 3, 4].map((count) => session.run(turns(count))));
    ended.push('short');

    expect(short.map(({ device }) => device)).toEqual([1, 1, 1]);
    expect(short.map(countOf)).toEqual([2, 3, 4]);
    expect((await long).device).toBe(0);
    expect(ended).toEqual(['short', 'long']);
  });

  it('ends all its threads when it is closed, after the runs that were asked for', async () => {
    const threads = watchThreads();
    const session = await onTwoDevices();
    const running = [2, 3, 4].map((count) => session.run(turns(count)));

    await session.close();

    expect((await Promise.all(running)).map(countOf)).toEqual([2, 3, 4]);
    expect(alive(threads)).toEqual([]);
    await expect(session.run(turns(1))).rejects.toThrow('expected an open model, got a closed one');
  });

  it('has each provider that has devices work on that device', () => {
    const providers = ['tensorrt', { name: 'cuda', deviceId: 0 }, 'cpu'];

    expect(providers.map((provider) => onDevice(provider, 3))).toEqual([
      { name: 'tensorrt', deviceId: 3 },
      { name: 'cuda', deviceId: 3 },
      'cpu',
    ]);
  });
});

describe('devices in config.json', () => {
  it('open a model on each, which is warm as any other', async () => {
    const threads = watchThreads();
    const { model, repository, warnings } = await openOnly(identityModel(), { devices: [0, 2, 5] }, SEAM);

    const runs = await Promise.all([1, 2, 3].map((rows) => model.run([counting('x', rows, 3)])));

    expect(model).toMatchObject({ devices: 3, independence: 'independent' });
    expect(repository.maxDevices).toBe(3);
    expect(runs.map(({ device }) => device).toSorted()).toEqual([0, 1, 2]);
    expect(runs.map(({ outputs }) => outputs[0]?.shape)).toEqual([1, 2, 3].map((rows) => [rows, 3]));
    expect([threads.length, warnings]).toEqual([3, []]);
  });

  it('are refused where the provider has no devices, at the start', async () => {
    const opening = openOnly(identityModel(), { devices: [0, 1] });

    await expect(opening).rejects.toThrow(
      /config\.json: devices: expected a provider with devices first \(cuda, tensorrt\), got cpu; choose one as "providers", or remove "devices"$/,
    );
  });

  it.each([
    [{ devices: [0, 0] }, 'expected an array of numbers of devices, each once'],
    [
      { devices: [0, 1], providers: [{ name: 'cuda', deviceId: 1 }] },
      'devices: expected no deviceId in "providers" beside it, got one; remove either',
    ],
  ])('are refused as %j', async (config, expected) => {
    await expect(openOnly(identityModel(), config, SEAM)).rejects.toThrow(expected);
  });
});
