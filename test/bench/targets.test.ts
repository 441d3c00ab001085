import { describe, expect, it } from '@jest/globals';
import type { BenchResults, GrowthResult, ScenarioResult } from '../../bench/measure/results.ts';
import { renderMarkdown } from '../../bench/report/markdown.ts';
import { assessTargets } from '../../bench/report/targets.ts';

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

function results(parts: Partial<BenchResults>): BenchResults {
  const machine = {
    cpu: 'Some CPU',
    cores: 2,
    memoryBytes: 8 * 2 ** 30,
    platform: 'linux x64',
    node: 'v24.21.0',
    onnxruntime: '1.30.0',
  };
  return { machine, scenarios: [], growth: [], loneMessage: [], ...parts };
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

  it('allows a lone message 10 % or 1 ms, whichever is more', () => {
    const lone = (overMicroseconds: number, overPercent: number) => ({
      scenario: 'transformer',
      encoding: 'json' as const,
      bareMicroseconds: 20_000,
      batchscoreMicroseconds: 20_000,
      overMicroseconds,
      overPercent,
    });
    expect(reached({ loneMessage: [lone(900, 300), lone(1_800, 9), lone(2_200, 11)] })).toEqual([true, true, false]);
  });
});

describe('renderMarkdown', () => {
  it('says that batching does not pay where it gains less than a fifth', () => {
    const row = scenarioResult({ scenario: 'convnet', batchingGain: 1.12 });
    const markdown = renderMarkdown(results({ scenarios: [row] }));
    expect(markdown).toContain('batching does not pay: the model does 1.12 × the rows per second of single rows');
    expect(reached({ scenarios: [row] })).toEqual([true]);
  });

  it('claims no more of the convnet than was measured', () => {
    const row = scenarioResult({ scenario: 'convnet', batchingGain: 1.5 });
    expect(renderMarkdown(results({ scenarios: [row] }))).not.toContain('batching does not pay: ');
    expect(reached({ scenarios: [row] })).toEqual([false]);
  });
});
