import { describe, expect, it } from '@jest/globals';
import { benchColdStart } from '../../../bench/coldStartBench.ts';
import { runMain } from '../../helpers/batchscore.ts';

/** Seconds on an idle machine; the rest is for a busy one. */
const LONG_TIMEOUT_MS = 240_000;

describe('npm run bench:cold-start', () => {
  it(
    'starts the entry with models from a folder and from S3, and prints what that took',
    async () => {
      const { code, stdout } = await runMain(benchColdStart, ['--megabytes', '17', '--rounds', '1']);

      const [head, , ...rows] = stdout.trimEnd().split('\n');
      expect(head).toBe('| models of 17 MB | seconds | CPU seconds | peak MB |');
      expect(rows).toHaveLength(7);
      for (const row of rows)
        expect(row).toMatch(
          /^\| (folder(, proved(, weights apart)?)?|S3, .* connections?) \| [\d.]+ \| [\d.]+ \| \d+ \|$/,
        );
      expect(code).toBe(0);
    },
    LONG_TIMEOUT_MS,
  );
});
