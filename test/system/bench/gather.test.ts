import { describe, expect, it } from '@jest/globals';
import { simulateGather } from '../../../bench/measure/gatherSimulation.ts';
import { gatherTheory } from '../../../bench/measure/gatherTheory.ts';
import { type Arrivals, bursts, day, poisson } from '../../../bench/workload/arrivals.ts';
import { runScript } from '../../helpers/command.ts';

const REQUESTS = 20_000;
const TOLERANCE = 0.06;

describe('gathering by size or window', () => {
  it.each<[Arrivals, { batchSize: number; windowMs: number }]>([
    [poisson(20), { batchSize: 32, windowMs: 50 }],
    [poisson(200), { batchSize: 8, windowMs: 50 }],
    [poisson(1_000), { batchSize: 32, windowMs: 50 }],
    [bursts(20, 2_000), { batchSize: 32, windowMs: 50 }],
    [day(5, 500), { batchSize: 64, windowMs: 200 }],
  ])('waits and fills batches as the theory has it: %j, %j', (arrivals, settings) => {
    const [simulated, theory] = [simulateGather(arrivals, settings, REQUESTS), gatherTheory(arrivals, settings)];

    for (const figure of ['p50WaitMs', 'p99WaitMs', 'fill'] as const) {
      expect(simulated[figure] / theory[figure]).toBeGreaterThan(1 - TOLERANCE);
      expect(simulated[figure] / theory[figure]).toBeLessThan(1 + TOLERANCE);
    }
    expect(simulated.p99WaitMs).toBeLessThanOrEqual(settings.windowMs);
  });

  it('adds no wait without a window', () => {
    const settings = { batchSize: 32, windowMs: 0 };

    expect(simulateGather(poisson(500), settings, 1_000)).toEqual({ p50WaitMs: 0, p99WaitMs: 0, fill: 1 / 32 });
    expect(gatherTheory(poisson(500), settings)).toEqual({ p50WaitMs: 0, p99WaitMs: 0, fill: 1 / 32 });
  });

  it('fills every batch where requests come faster than the window ends', () => {
    const { fill, p99WaitMs } = gatherTheory(poisson(10_000), { batchSize: 10, windowMs: 1_000 });

    expect(fill).toBeCloseTo(1, 6);
    expect(p99WaitMs).toBeLessThan(3);
  });
});

describe('npm run bench:gather', () => {
  it('prints simulated figures beside those of the theory', async () => {
    const { code, stdout } = await runScript('bench/gather.ts', []);

    expect(code).toBe(0);
    expect(stdout.split('\n')[0]).toContain('wait p99 (theory)');
    expect(stdout).toMatch(/\| 5 to 500\/s over a day \| 128 \| 500 ms \| [\d.]+ ms \([\d.]+ ms\)/);
  });
});
