import { describe, expect, it } from '@jest/globals';
import type { GpuReading } from '../../../lambda/core/observer.ts';
import { createGpuWatch } from '../../../lambda/hosts/task.ts';
import { useSqsServer } from '../../helpers/awsServers.ts';
import { deployment, nvidiaSmi } from '../../helpers/hosts.ts';
import { createManualClock } from '../../helpers/manualClock.ts';

const MINUTE_MS = 60_000;
const DEVICE: GpuReading = { usedPercent: 50, memoryUsedMib: 1, memoryMib: 2 };

/** A watch, and what it was told and told. Each answer is for one question. */
function watch(answers: readonly (() => Promise<GpuReading[]>)[] = [], providers = ['cuda']) {
  const clock = createManualClock();
  const told: string[] = [];
  let asked = 0;
  const tellOf = createGpuWatch({
    read: () => answers[asked++]?.() ?? Promise.resolve([DEVICE]),
    onReadings: (readings) => void told.push(`${readings.length} device`),
    onProblem: (message) => void told.push(message),
    clock,
  });
  for (const provider of providers) tellOf(provider);
  const settled = () => new Promise((resolve) => setImmediate(resolve));
  return {
    told,
    asked: () => asked,
    async pass(minutes: number) {
      for (let minute = 0; minute < minutes; minute++) {
        await settled();
        clock.advance(MINUTE_MS);
      }
      await settled();
    },
  };
}

const failing = (why: string) => () => Promise.reject(new Error(why));
const knowing = () => Promise.resolve([DEVICE]);
const UNKNOWN = 'there are no GPU metrics: ';

describe('the watch over the devices', () => {
  it('looks at once, and every minute', async () => {
    const { told, pass } = watch();

    await pass(0);
    expect(told).toEqual(['1 device']);
    await pass(2);
    expect(told).toEqual(['1 device', '1 device', '1 device']);
  });

  it.each([
    ['begins once, however many models are on devices', ['cpu', 'cuda', 'tensorrt'], 1],
    ['does not begin where nothing computes on devices', ['cpu', 'webgpu'], 0],
  ])('%s', async (_, providers, asks) => {
    const { asked, pass } = watch([], providers);

    await pass(0);

    expect(asked()).toBe(asks);
  });

  it('tells once that nothing is known, and goes on looking', async () => {
    const { told, pass } = watch([failing('gone'), failing('gone'), failing('lost'), knowing, failing('again')]);

    await pass(5);

    expect(told).toEqual([`${UNKNOWN}gone`, '1 device', `${UNKNOWN}again`, '1 device']);
  });

  it('does not ask again while it has no answer', async () => {
    const answer = Promise.withResolvers<GpuReading[]>();
    const { told, asked, pass } = watch([() => answer.promise]);

    await pass(3);
    expect([told, asked()]).toEqual([[`${UNKNOWN}nvidia-smi does not end`], 1]);
    answer.resolve([DEVICE]);
    await pass(1);
    expect([told.slice(1), asked()]).toEqual([['1 device', '1 device'], 2]);
  });
});

describe('a worker', () => {
  const server = useSqsServer();
  const CUDA = { BATCHSCORE_PROVIDERS: 'cuda,cpu', BATCHSCORE_ALLOW_PROVIDER_FALLBACK: 'true' };

  it('has metrics of the devices where it is to run on them', async () => {
    const environment = await nvidiaSmi("echo '90, 3000, 12000'; echo '10, 6000, 12000'");
    const { start } = await deployment(server, { environment: { ...CUDA, ...environment } });

    const metrics = await start().says('GpuUtilization');

    expect(metrics).toMatchObject({ GpuUtilization: [90, 10], GpuMemoryUtilization: [25, 50], service: 'batchscore' });
    expect(JSON.stringify(metrics)).toContain('{"Name":"GpuUtilization","Unit":"Percent"}');
  });
});
