import { describe, expect, it } from '@jest/globals';
import { assessWorker, type WorkerFigures, workerTable } from '../../../bench/measure/workerCosts.ts';
import { benchWorker } from '../../../bench/workerBench.ts';
import { runMain } from '../../helpers/batchscore.ts';

const LONG_TIMEOUT_MS = 240_000;
const FIGURES = { cpuMicroseconds: expect.any(Number), requestsPerSecond: expect.any(Number) };

function row(overrides: Partial<WorkerFigures>): WorkerFigures {
  const turn = { cpuMicroseconds: 200, requestsPerSecond: 4_000 };
  return {
    encoding: 'json',
    requestsPerMessage: 1,
    resultsPerMessage: 1,
    worker: turn,
    bare: turn,
    plain: turn,
    timesBare: 1.15,
    timesPlain: 0.8,
    ...overrides,
  };
}

function costing(cpuMicroseconds: number): Pick<WorkerFigures, 'worker'> {
  return { worker: { cpuMicroseconds, requestsPerSecond: 4_000 } };
}

describe('npm run bench:worker', () => {
  it(
    'measures the worker and the bare loops, packed both ways, with every request scored',
    async () => {
      const { code, stdout } = await runMain(benchWorker, [
        '--requests',
        '100',
        '--rounds',
        '1',
        '--packed',
        'both',
        '--json',
      ]);
      expect(code).toBe(0);
      const ways = ['json', 'binary'].map((encoding) => ({
        encoding,
        requestsPerMessage: 100,
        resultsPerMessage: 'fill',
        worker: FIGURES,
        bare: FIGURES,
        plain: FIGURES,
        timesBare: expect.any(Number),
        timesPlain: expect.any(Number),
      }));
      expect(JSON.parse(stdout)).toEqual(ways);
    },
    LONG_TIMEOUT_MS,
  );

  it.each([
    [['--requests', '99'], /^batchscore: --requests: expected a whole number from 100/],
    [['--packed', 'none,all'], /^batchscore: --packed: expected none, results, both, got 'none,all'/],
    [['--rounds', '0'], /^batchscore: --rounds: expected a whole number from 1/],
  ])('refuses %j with exit code 2', async (args, message) => {
    const { code, stderr } = await runMain(benchWorker, args);
    expect(code).toBe(2);
    expect(stderr).toMatch(message);
  });
});

describe('what a request must cost the worker at most', () => {
  const reached = (overrides: Partial<WorkerFigures>) => assessWorker([row(overrides)]).map((target) => target.reached);

  it('is 1.15 times the bare loop, however requests travel', () => {
    expect(reached({ resultsPerMessage: 'fill' })).toEqual([true]);
    expect(reached({ resultsPerMessage: 'fill', timesBare: 1.16 })).toEqual([false]);
  });

  it('is 250 µs of single messages, and 12 µs packed both ways', () => {
    expect(reached(costing(250))).toEqual([true, true]);
    expect(reached(costing(251))).toEqual([true, false]);
    const packed = { requestsPerMessage: 100, resultsPerMessage: 'fill' } as const;
    expect(reached({ ...packed, ...costing(12) })).toEqual([true, true]);
    expect(reached({ ...packed, ...costing(12.1) })).toEqual([true, false]);
  });

  it('stands in a table of one row for each way', () => {
    expect(workerTable([row({}), row({ encoding: 'binary' })]).split('\n')).toHaveLength(4);
  });
});
