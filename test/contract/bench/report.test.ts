import { describe, expect, it } from '@jest/globals';
import { renderMarkdown } from '../../../bench/bench.ts';
import { takeTurns } from '../../../bench/harness/turns.ts';
import type { WorkerFigures } from '../../../bench/measure/workerCost.ts';

const MACHINE = {
  cpu: 'Some CPU',
  cores: 2,
  memoryBytes: 8 * 2 ** 30,
  platform: 'linux x64',
  node: 'v24.21.0',
  onnxruntime: '1.30.0',
};

const gain = (scenario: string, second: number, rowsAlone = 200, bare = 200) => ({
  ...{ scenario, messages: 100, batchscoreMs: [150, second] as const, rowsAloneMs: [200, rowsAlone] as const },
  bareMs: [200, bare] as const,
});
const hop = (store: 'queue' | 'table', requestsPerMessage: number, cpuMicroseconds: number) => ({
  ...{ store, encoding: 'binary' as const, requestsPerMessage, resultsPerMessage: 1 as const },
  ...{ cpuMicroseconds, wallMicroseconds: 80, callsPerThousand: 100 },
});

describe('the report of npm run bench', () => {
  const report = renderMarkdown({
    machine: MACHINE,
    gains: [gain('encoder', 100), gain('convnet', 100, 97), gain('convnet', 100, 200, 96)],
    worker: [],
    tables: [
      { rows: 10, format: 'csv', batchscore: { wall: 1, cpu: 1.2 }, python: { wall: 1, cpu: 1 } },
      { rows: 10, format: 'parquet', batchscore: { wall: 1, cpu: 1.2 }, python: undefined },
    ],
    hops: [hop('queue', 1, 75), hop('queue', 1, 76), hop('queue', 100, 5.1), hop('table', 1, 900)],
  });

  it('shows figures that miss their target in bold, with the target, and no others', () => {
    const missed = [...report.matchAll(/\*\*.*?\*\* \(.*?\)/g)].map(([text]) => text);
    expect(missed).toEqual([
      ...['**0.97** (at least 0.98)', '**0.96** (at least 0.98)'],
      ...['**76 µs** (at most 75 µs)', '**5.1 µs** (at most 5 µs)'],
      '**1.2** (at most 1)',
    ]);
  });

  it('has the machine, and a row for each figure', () => {
    expect(report).toContain('Some CPU, 2 cores, 8 GiB, linux x64, Node v24.21.0, ONNX Runtime 1.30.0.');
    expect(report).toContain('| queue | binary | 1 | 1 | 75 µs | 80 µs | 100 |');
    expect(report).toContain('| encoder | 100 | 150 ms, 100 ms | 200 ms, 200 ms | 200 ms, 200 ms |');
  });
});

describe('the report of the worker', () => {
  const row = (cpuMicroseconds: number, packing: Partial<WorkerFigures> = {}): WorkerFigures => ({
    ...{ encoding: 'json', requestsPerMessage: 1, resultsPerMessage: 1, cpuMicroseconds, requestsPerSecond: 4_000 },
    ...packing,
  });

  it('holds a request against its most, by packing', () => {
    const packed = { requestsPerMessage: 100, resultsPerMessage: 10_000 } as const;
    const worker = [row(250), row(251), row(12.1, packed)];
    const cells = renderMarkdown({ machine: MACHINE, gains: [], hops: [], tables: [], worker })
      .trim()
      .split('\n')
      .slice(-3)
      .map((line) => line.split(' | ')[3]);
    expect(cells).toEqual(['250 µs', '**251 µs** (at most 250 µs)', '**12.1 µs** (at most 12 µs)']);
  });
});

describe('takeTurns', () => {
  it('gives every contestant a turn in each round, another first each time, after turns that do not count', async () => {
    const order: string[] = [];
    const contestant = (name: string) => async () => order.push(name);
    const taken = await takeTurns(['a', 'b', 'c'].map(contestant), 3, 0);
    expect(order.join('')).toBe('abc' + 'abc' + 'bca' + 'cab');
    expect(taken).toEqual([
      [4, 9, 11],
      [5, 7, 12],
      [6, 8, 10],
    ]);
  });
});
