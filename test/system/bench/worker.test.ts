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
});
