import { describe, expect, it } from '@jest/globals';
import { benchColdStart } from '../../../bench/coldStartBench.ts';
import { runMain } from '../../helpers/batchscore.ts';

/** Seconds on an idle machine; the rest is for a busy one. */
const LONG_TIMEOUT_MS = 420_000;

describe('npm run bench:cold-start', () => {
  it(
    'starts the entry with digits and with a large model, and ONNX Runtime alone, and prints what that took',
    async () => {
      const { code, stdout } = await runMain(benchColdStart, ['--megabytes', '17', '--rounds', '1']);

      const [head, , ...rows] = stdout.trimEnd().split('\n');
      expect(head).toMatch(/^\| models of 17 MB \| ready, s \| answered, s \| CPU until then, s \|/);
      expect(rows).toHaveLength(4);
      for (const row of rows) expect(row).toMatch(/^\| (digits|folder)[^|]*( \| [\d.,]+){4} \|$/);
      expect(code).toBe(0);
    },
    LONG_TIMEOUT_MS,
  );
});
