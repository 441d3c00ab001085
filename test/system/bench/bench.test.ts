import { readFile } from 'node:fs/promises';
import { describe, expect, it } from '@jest/globals';
import { bench } from '../../../bench/bench.ts';
import { runMain } from '../../helpers/batchscore.ts';
import { useFolder } from '../../helpers/folders.ts';

const FEW = ['--scenario', 'mlp-small', '--messages', '20', '--quick'];
/** Seconds on an idle machine; the rest is for a busy one. */
const LONG_TIMEOUT_MS = 240_000;
const ANY_NUMBER = expect.any(Number);

describe('npm run bench', () => {
  const inFolder = useFolder();

  it(
    'prints one JSON object with --json, and writes the same to a file',
    async () => {
      const path = inFolder('latest.json');
      const { code, stdout } = await runMain(bench, [...FEW, '--json', '--results', path]);
      expect(code).toBe(0);
      expect(await readFile(path, 'utf8')).toBe(stdout);
      expect(JSON.parse(stdout)).toMatchObject({
        machine: { node: process.version, onnxruntime: expect.stringMatching(/^\d+\.\d+\.\d+$/) },
        gains: [{ scenario: 'mlp-small', messages: 20, batchscoreMs: [ANY_NUMBER, ANY_NUMBER] }],
        hops: [],
        worker: [],
      });
    },
    LONG_TIMEOUT_MS,
  );

  it(
    'measures the hops to each store, single and packed, with every request answered',
    async () => {
      const args = ['--scenario', 'hops', '--messages', '200', '--rounds', '1', '--json'];
      const { code, stdout } = await runMain(bench, [...args, '--results', inFolder('hops.json')]);
      expect(code).toBe(0);
      const { gains, hops } = JSON.parse(stdout);
      expect(gains).toEqual([]);
      expect(hops).toHaveLength(10);
      const [single, , packed] = hops;
      expect(single).toEqual({
        ...{ store: 'queue', encoding: 'json', requestsPerMessage: 1, resultsPerMessage: 1 },
        ...{ cpuMicroseconds: ANY_NUMBER, wallMicroseconds: ANY_NUMBER, callsPerThousand: ANY_NUMBER },
      });
      // Ten results a call and more calls, where some are ready after the others.
      expect(single.callsPerThousand).toBeGreaterThanOrEqual(100);
      expect(packed).toMatchObject({ resultsPerMessage: 10_000, callsPerThousand: 5 });
    },
    LONG_TIMEOUT_MS,
  );

  it(
    'measures the worker, single and packed, with every request scored, where that is named',
    async () => {
      const args = ['--scenario', 'worker', '--messages', '100', '--rounds', '1', '--json'];
      const { code, stdout } = await runMain(bench, [...args, '--results', inFolder('worker.json')]);
      expect(code).toBe(0);
      const { worker } = JSON.parse(stdout);
      expect(worker).toHaveLength(6);
      expect(worker.slice(-2)).toEqual(
        ['json', 'binary'].map((encoding) => ({
          ...{ encoding, requestsPerMessage: 100, resultsPerMessage: 10_000 },
          ...{ cpuMicroseconds: ANY_NUMBER, requestsPerSecond: ANY_NUMBER },
        })),
      );
    },
    LONG_TIMEOUT_MS,
  );

  it(
    'measures the rows of a file, beside a loop in Python if there is one',
    async () => {
      const args = ['--scenario', 'tables', '--messages', '200', '--rounds', '1', '--json'];
      const { code, stdout } = await runMain(bench, [...args, '--results', inFolder('tables.json')]);
      expect(code).toBe(0);
      const { tables } = JSON.parse(stdout);
      expect(tables[0]).toMatchObject({ rows: 200, format: 'csv', batchscore: { wall: ANY_NUMBER, cpu: ANY_NUMBER } });
    },
    LONG_TIMEOUT_MS,
  );

  it.each([
    [['--scenario', 'resnet'], /^batchscore: --scenario: expected one of mlp-small, .*, got 'resnet'\n/],
    [['--messages', '0'], /^batchscore: --messages: expected a whole number from 1/],
    [['--fast'], /^batchscore: expected an option of this command, got --fast/],
  ])('refuses %j with exit code 2 and no stack trace', async (args, message) => {
    const { code, stdout, stderr } = await runMain(bench, args);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toMatch(message);
    expect(stderr).not.toContain('    at ');
  });
});
