import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import { describe, expect, it } from '@jest/globals';
import { gpuBench } from '../../../bench/gpu/gpuBench.ts';
import { runMain } from '../../helpers/batchscore.ts';
import { REPOSITORY } from '../../helpers/command.ts';
import { useFolder } from '../../helpers/folders.ts';

const LONG_TIMEOUT_MS = 240_000;

describe('npm run bench:gpu, rehearsed on a processor', () => {
  const inFolder = useFolder();
  const small = (part: string): string[] => [
    ...['--provider', 'cpu', '--small', '--part', part],
    ...['--results', inFolder('gpu.json')],
  ];

  it(
    'measures a model by all contestants, and goes on where it ended',
    async () => {
      const { code, stdout } = await runMain(gpuBench, small('trees'));
      expect(code).toBe(0);
      expect(stdout).toContain('## trees');
      const { parts } = JSON.parse(await readFile(inFolder('gpu.json'), 'utf8'));
      expect(Object.keys(parts)).toEqual(['trees']);
      expect(parts.trees.bare.map(({ batch }: { batch: number }) => batch)).toEqual([1, 4, 8]);
      expect(parts.trees.handler).toHaveLength(5);
      expect(parts.trees.handler[0].rowsPerSecond).toBeGreaterThan(0);
      expect(parts.trees.worker.rowsPerSecond).toBeGreaterThan(0);

      expect((await runMain(gpuBench, small('trees'))).stdout).toBe(stdout);
      const [option = '', , ...others] = small('trees');
      expect(await runMain(gpuBench, [option, 'cuda', ...others])).toMatchObject({
        code: 2,
        stderr: expect.stringMatching(
          /^batchscore: --results: expected a file of this machine, provider and size, got {.*"provider":"cpu"/,
        ),
      });
    },
    LONG_TIMEOUT_MS,
  );

  it('refuses an unknown part', async () => {
    expect(await runMain(gpuBench, small('resnet'))).toMatchObject({ code: 2 });
  });
});

it(
  'npm run test:gpu passes on a processor, but for the tests that wait for a timeout',
  async () => {
    const patterns = ['on the processor, of', 'OUT_OF_MEMORY', 'device is lost', 'another host'].map(
      (text) => `--test-name-pattern=${text}`,
    );
    const reporter = '--test-reporter=./test/system/image/reporter.ts';
    const args = ['--test', ...patterns, reporter, 'test/system/gpu/testGpu.ts'];
    const { stdout } = await promisify(execFile)(process.execPath, args, {
      cwd: REPOSITORY,
      env: { ...process.env, PROVIDER: 'cpu' },
    });
    expect(stdout).toContain('4 passed, 0 failed');
  },
  LONG_TIMEOUT_MS,
);
