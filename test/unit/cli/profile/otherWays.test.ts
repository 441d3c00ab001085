import { describe, expect, it } from '@jest/globals';
import { PRICES } from '../../../../cli/priceList.ts';
import { type SettingsQuestion, settingsFor } from '../../../../cli/profile/chooseSettings.ts';
import { otherWays, SECONDS_A_MONTH } from '../../../../cli/profile/otherWays.ts';
import { questionOf } from '../../../../cli/profile/profileCommand.ts';
import { reportOf } from './reports.ts';
import { SINGLE, tableOf } from './setup.ts';

const OPTIONS = {
  'latency-budget-ms': '2000',
  'requests-per-message': '1',
  'result-bytes': '450',
  'packed-results': false,
};
const { measured: MEASURED } = reportOf();
const rateOf = (options: object): number => questionOf({ ...OPTIONS, ...options })(MEASURED).messagesPerSecond;

describe('traffic', () => {
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

function waysOf(rowsPerMonth: number, overrides: Partial<SettingsQuestion> = {}) {
  const question: SettingsQuestion = {
    table: tableOf((rows) => 2 + 0.01 * rows),
    length: 1,
    messagesPerSecond: rowsPerMonth / SECONDS_A_MONTH,
    budgetMs: 2000,
    messages: SINGLE,
    prices: PRICES,
    architecture: 'arm64',
    ...overrides,
  };
  const { chosen } = settingsFor(question);
  const ways = otherWays(question, chosen);
  return { chosen, ways, find: (name: RegExp) => ways.find(({ compute }) => name.test(compute)) };
}

describe('other ways to have rows scored', () => {
  it('have the price of a million rows, packed messages less than single ones and a job less than those', () => {
    const { chosen, ways, find } = waysOf(10_000_000);
    expect(ways.map(({ compute }) => compute)).toEqual([
      'lambda, 100 rows a message, gathered in 26 s',
      'ecs, 1 × 1 vCPU',
      'job, a file a day',
    ]);
    // A task of one vCPU and 2 GB is there for 730 hours, and the rest goes to SQS: six requests for ten messages.
    const { fargateArmVcpuHour: vcpu, fargateArmGbHour: gb, sqsStandardMillionRequests: requests } = PRICES;
    expect(find(/^ecs/)?.dollarsPerMillionRows).toBeCloseTo((730 * (vcpu + 2 * gb)) / 10 + 0.6 * requests, 1);
    const [packed, job] = [find(/^lambda/)?.dollarsPerMillionRows ?? 0, find(/^job/)?.dollarsPerMillionRows ?? 0];
    expect(packed).toBeLessThan(0.1 * chosen.dollarsPerMillionRows);
    expect(job).toBeGreaterThan(0);
    expect(job).toBeLessThan(packed);
  });

  it('have as many tasks as keep up, and leave out what no function holds', () => {
    const { find } = waysOf(2_628_000, { table: tableOf((rows) => 900 * rows) });
    expect(find(/^ecs, 2 × 1 vCPU$/)).toBeDefined();
    expect(find(/^lambda/)).toBeUndefined();
    const large = { messages: { ...SINGLE, messageBytes: 600_000 } };
    expect(waysOf(1_000_000, large).find(/^lambda/)).toBeUndefined();
  });
});
