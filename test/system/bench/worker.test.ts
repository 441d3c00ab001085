import { describe, expect, it } from '@jest/globals';
import { benchWorker } from '../../../bench/workerBench.ts';
import { runMain } from '../../helpers/batchscore.ts';

const LONG_TIMEOUT_MS = 240_000;
const FIGURES = { cpuMicroseconds: expect.any(Number), requestsPerSecond: expect.any(Number) };

describe('npm run bench:worker', () => {
  it(
    'measures the worker and the bare loop, packed both ways, with every request scored',
    async () => {
      const few = ['--requests', '100', '--rounds', '1', '--packed', 'both'];
      const { code, stdout } = await runMain(benchWorker, [...few, '--json']);
      expect(code).toBe(0);
      const ways = ['json', 'binary'].map((encoding) => ({
        encoding,
        requestsPerMessage: 100,
        resultsPerMessage: 'fill',
        worker: FIGURES,
        bare: FIGURES,
        timesBare: expect.any(Number),
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
