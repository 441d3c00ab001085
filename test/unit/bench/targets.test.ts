import { describe, expect, it } from '@jest/globals';
import type { BenchResults, GrowthResult, ScenarioResult } from '../../../bench/measure/benchResults.ts';
import type { GainFigures } from '../../../bench/measure/gains.ts';
import type { HopFigures } from '../../../bench/measure/hops.ts';
import { assessTargets, renderMarkdown } from '../../../bench/report/markdown.ts';

const MEMORY = { peakRssBytes: 50 * 2 ** 20, processRssBytes: 300 * 2 ** 20, eventRssBytes: 10 * 2 ** 20 };

function scenarioResult(overrides: Partial<ScenarioResult>): ScenarioResult {
  return {
    scenario: 'mlp-small',
    encoding: 'json',
    messages: 10_000,
    efficiency: 0.95,
    speedupOverOneByOne: 10,
    speedupOverFirstCome: 1,
    paddingShare: 0,
    optimalPaddingShare: 0,
    bestRows: 512,
    batchingGain: 30,
    microBatches: 20,
    limitMs: 95,
    batchscoreMs: 100,
    firstComeMs: 100,
    oneByOneMs: 1_000,
    ...MEMORY,
    ...overrides,
  };
}

function growthResult(messages: number, microsecondsPerMessage: number, peakMiB: number): GrowthResult {
  const peakRssBytes = peakMiB * 2 ** 20;
  return { scenario: 'mlp-small', encoding: 'json', messages, microsecondsPerMessage, ...MEMORY, peakRssBytes };
}

/** Just fast enough. */
function gain(overrides: Partial<GainFigures>): GainFigures {
  return {
    scenario: 'encoder',
    encoding: 'json',
    messages: 500,
    batchscoreMs: [100, 100],
    rowsAloneMs: [98, 98],
    bareMs: [98, 98],
    partitionMs: 95,
    partitionRuns: 60,
    ...overrides,
  };
}

function hop(overrides: Partial<HopFigures>): HopFigures {
  return {
    store: 'queue',
    encoding: 'json',
    requestsPerMessage: 1,
    resultsPerMessage: 1,
    cpuMicroseconds: 75,
    wallMicroseconds: 75,
    callsPerThousand: 100,
    dollars: 0.265,
    sqsDollars: 0.24,
    loneMs: 1,
    ...overrides,
  };
}

function results(parts: Partial<BenchResults>): BenchResults {
  const machine = {
    cpu: 'Some CPU',
    cores: 2,
    memoryBytes: 8 * 2 ** 30,
    platform: 'linux x64',
    node: 'v24.21.0',
    onnxruntime: '1.30.0',
  };
  return { machine, scenarios: [], gains: [], growth: [], loneMessage: [], hops: [], ...parts };
}

function reached(parts: Partial<BenchResults>): boolean[] {
  return assessTargets(results(parts)).map((target) => target.reached);
}

describe('assessTargets', () => {
  it('holds the efficiency of both MLPs against 0.9', () => {
    const rows = [0.9, 0.89].map((efficiency) => scenarioResult({ scenario: 'mlp-wide', efficiency }));
    expect(reached({ scenarios: rows })).toEqual([true, false]);
  });

  it("holds the transformer's padding against the least, and its speed against first come, first served", () => {
    const padded = { scenario: 'transformer', optimalPaddingShare: 0.1 };
    const good = scenarioResult({ ...padded, paddingShare: 0.104, speedupOverFirstCome: 2.5 });
    const bad = scenarioResult({ ...padded, paddingShare: 0.106, speedupOverFirstCome: 2.49 });
    expect(reached({ scenarios: [good] })).toEqual([true, true]);
    expect(reached({ scenarios: [bad] })).toEqual([false, false]);
  });

  it('holds time from 1,000 and memory from 10,000 to 100,000 messages against 15 %', () => {
    const upTo = (last: GrowthResult) => ({
      growth: [growthResult(100, 90, 1), growthResult(1_000, 10, 20), growthResult(10_000, 11, 100), last],
    });
    expect(reached(upTo(growthResult(100_000, 11.4, 114)))).toEqual([true, true]);
    expect(reached(upTo(growthResult(100_000, 11.6, 116)))).toEqual([false, false]);
  });

  it('says nothing of growth that was not measured to the end', () => {
    expect(reached({ growth: [growthResult(1_000, 10, 20)] })).toEqual([]);
  });

  it('allows a lone message 0.3 ms', () => {
    const lone = (overMicroseconds: number) => ({
      scenario: 'transformer',
      encoding: 'json' as const,
      bareMicroseconds: 20_000,
      batchscoreMicroseconds: 20_000,
      overMicroseconds,
      overPercent: 3,
      bareAfterPauseMicroseconds: 30_000,
      afterPauseMicroseconds: 30_000,
    });
    expect(reached({ loneMessage: [lone(-100), lone(300), lone(301)] })).toEqual([true, true, false]);
  });

  it("holds the second call against the fastest partition's runs, of the encoder", () => {
    const second = (secondMs: number) =>
      gain({ batchscoreMs: [150, secondMs], partitionMs: 95, rowsAloneMs: [200, 200], bareMs: [200, 200] });
    expect(reached({ gains: [second(100)] })).toEqual([true, true]);
    expect(reached({ gains: [second(101)] })).toEqual([false, true]);
    expect(reached({ gains: [{ ...second(101), scenario: 'textline' }] })).toEqual([true]);
  });

  it('holds both calls against rows alone, through the handler and bare', () => {
    const even = { scenario: 'convnet', batchscoreMs: [100, 100] } as const;
    const slower = [
      gain({ ...even, rowsAloneMs: [97, 98] }),
      gain({ ...even, rowsAloneMs: [98, 97] }),
      gain({ ...even, bareMs: [97, 98] }),
      gain({ ...even, bareMs: [98, 97] }),
    ];
    expect(reached({ gains: [gain(even), ...slower] })).toEqual([true, false, false, false, false]);
  });
});

describe('assessTargets of hops', () => {
  it.each([
    ['single messages', { requestsPerMessage: 1, resultsPerMessage: 1 }, 75],
    ['packed results', { requestsPerMessage: 1, resultsPerMessage: 'fill' }, 20],
    ['packed both ways, JSON', { requestsPerMessage: 100, resultsPerMessage: 'fill' }, 8],
    ['packed both ways, binary', { requestsPerMessage: 100, resultsPerMessage: 'fill', encoding: 'binary' }, 5],
  ] as const)('holds the CPU of %s against its most', (_, way, max) => {
    const rows = [max, max + 0.1].map((cpuMicroseconds) => hop({ ...way, cpuMicroseconds }));
    expect(reached({ hops: rows })).toEqual([true, false]);
  });

  it('holds the dollars of filled messages against a tenth of single ones', () => {
    const filled = (dollars: number) =>
      hop({ requestsPerMessage: 'fill', resultsPerMessage: 'fill', dollars, cpuMicroseconds: 100 });
    expect(reached({ hops: [hop({}), filled(0.0265), filled(0.0266)] })).toEqual([true, true, false]);
  });

  it('holds nothing against tables and buckets', () => {
    expect(reached({ hops: [hop({ store: 'table', cpuMicroseconds: 1_000 })] })).toEqual([]);
  });
});

describe('renderMarkdown', () => {
  it('says that batching does not pay where it gains less than a fifth', () => {
    const row = scenarioResult({ scenario: 'convnet', batchingGain: 1.12 });
    const markdown = renderMarkdown(results({ scenarios: [row] }));
    expect(markdown).toContain('batching does not pay: the model does 1.12 × the rows per second of single rows');
    expect(reached({ scenarios: [row] })).toEqual([true]);
  });

  it('shows what a request costs with its hops', () => {
    const markdown = renderMarkdown(results({ hops: [hop({ resultsPerMessage: 'fill', dollars: 0.1492 })] }));
    expect(markdown).toContain('| queue | json | 1 | fill | 75.0 µs | 75.0 µs | 100.0 | 0.1492 | 0.2400 | 1.00 ms |');
  });

  it('claims no more of the convnet than was measured', () => {
    const row = scenarioResult({ scenario: 'convnet', batchingGain: 1.5 });
    expect(renderMarkdown(results({ scenarios: [row] }))).not.toContain('batching does not pay: ');
    expect(reached({ scenarios: [row] })).toEqual([false]);
  });
});
