import { describe, expect, it } from '@jest/globals';
import {
  candidatesFor,
  expectationOf,
  type SettingsQuestion,
  settingsFor,
} from '../../../../cli/profile/chooseSettings.ts';
import { questionOf } from '../../../../cli/profile/profileCommand.ts';
import { poissonArrivals } from '../../../../cli/profile/simulate.ts';
import { mappingProblems } from '../../../../lambda/core/limits.ts';
import { reportOf } from './reports.ts';
import { SINGLE, tableOf } from './setup.ts';

/** A run costs something, and each row a little; and a model whose rows gain nothing. */
const GAINS = tableOf((rows) => 2 + 0.01 * rows);
const GAINS_NOTHING = tableOf((rows) => 8 * rows);

function question(overrides: Partial<SettingsQuestion> = {}): SettingsQuestion {
  return {
    table: GAINS,
    length: 1,
    messagesPerSecond: 100,
    budgetMs: 2000,
    messages: SINGLE,
    ...overrides,
  };
}

describe('settingsFor', () => {
  it.each([5, 200])('finds the cheapest settings within the budget at %d messages a second', (messagesPerSecond) => {
    const asked = question({ messagesPerSecond });
    const { chosen } = settingsFor(asked);
    expect(chosen.p99AgeMs).toBeLessThanOrEqual(asked.budgetMs);
    expect(chosen.batchSize).toBeGreaterThan(1);
    const arrivals = poissonArrivals(messagesPerSecond, 4_000);
    const costs = candidatesFor(asked)
      .map((one) => expectationOf(one, arrivals, asked))
      .filter(({ p99AgeMs }) => p99AgeMs <= 0.9 * asked.budgetMs)
      .map(({ dollarsPerMillionRows }) => dollarsPerMillionRows);
    expect(costs.length).toBeGreaterThan(20);
    expect(chosen.dollarsPerMillionRows).toBeLessThanOrEqual(1.03 * Math.min(...costs));
  });

  it('recommends messages one at a time where runs of many rows gain nothing', () => {
    const { chosen, reason } = settingsFor(question({ table: GAINS_NOTHING }));
    expect(chosen).toMatchObject({ batchSize: 1, windowSeconds: 0, maxBatchRows: 1 });
    expect(reason).toBe(
      'batching does not pay: the best run gives 1 times the rows a second of one row, less than 1.1',
    );
  });

  it('recommends batches where no function holds the messages one by one', () => {
    const { chosen, reason } = settingsFor(question({ messagesPerSecond: 100_000 }));
    expect(chosen.batchSize).toBeGreaterThan(1);
    expect(chosen.p99AgeMs).toBeLessThanOrEqual(2000);
    expect(reason).toMatch(/a million rows where no function holds messages one by one, and all but 1 %/);
  });

  it('gathers no longer than the budget allows', () => {
    const { chosen, candidates } = settingsFor(question({ budgetMs: 500 }));
    expect(chosen.windowSeconds).toBe(0);
    expect(candidates.every(({ windowSeconds }) => windowSeconds === 0)).toBe(true);
    expect(chosen.p99AgeMs).toBeLessThanOrEqual(500);
  });

  it('says that nothing is within a budget that is shorter than a run, and recommends what answers soonest', () => {
    const { reason, chosen, candidates } = settingsFor(question({ budgetMs: 5 }));
    expect(reason).toMatch(
      /^nothing that was tried answers all but 1 % within 5 ms, this takes [\d.]+ ms: allow more time$/,
    );
    expect(chosen.p99AgeMs).toBe(Math.min(...candidates.map(({ p99AgeMs }) => p99AgeMs)));
  });

  it('tries nothing that AWS refuses, and no memory that the runs were seen to exceed', () => {
    const asked = question({ table: tableOf((rows) => 2 + 0.01 * rows, 1.5e9), budgetMs: 300_000 });
    const candidates = candidatesFor(asked);
    expect(candidates.length).toBeGreaterThan(50);
    for (const { invocation } of candidates) {
      expect(invocation.memoryMb).toBeGreaterThanOrEqual((1.3 * 1.5e9) / 1024 / 1024);
    }
    expect(candidates.flatMap((one) => mappingProblems({ ...one, fifo: false }))).toEqual([]);
  });

  it('refuses a model that no function holds', () => {
    expect(() => settingsFor(question({ table: tableOf(() => 1, 20e9) }))).toThrow(
      'expected settings of a function that holds the traffic, found none: the smallest run takes 1 ms and 19074 MB; ' +
        'lower the rate, or spread it over several queues',
    );
  });
});

describe('traffic', () => {
  const OPTIONS = { 'latency-budget-ms': '2000', 'requests-per-message': '1' };
  const { measured } = reportOf();
  const rateOf = (options: object): number => questionOf({ ...OPTIONS, ...options })(measured).messagesPerSecond;

  it.each([
    [{ 'rows-per-month': '2_628_000' }, 1],
    [{ 'rows-per-month': '2,628,000' }, 1],
    [{ 'rows-per-month': '26280000', 'requests-per-message': '10' }, 1],
    [{ 'arrival-rate': '7' }, 7],
    [{}, 100],
  ])('may be said as %j', (options, rate) => {
    expect(rateOf(options)).toBeCloseTo(rate, 10);
  });

  it.each([
    [{ 'rows-per-month': 'many' }, /^--rows-per-month: expected rows a month, above 0 and up to \d+, got 'many'$/],
    [{ 'arrival-rate': '0' }, /^--arrival-rate: expected messages a second, above 0 and up to 1000000, got '0'$/],
    [
      { 'rows-per-month': '1', 'arrival-rate': '100' },
      /^--arrival-rate: expected it without --rows-per-month, got both/,
    ],
  ])('is refused as %j', (options, message) => {
    expect(() => rateOf(options)).toThrow(message);
  });
});
