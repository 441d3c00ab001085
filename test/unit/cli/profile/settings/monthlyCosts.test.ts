import { describe, expect, it } from '@jest/globals';
import { PRICES } from '../../../../../cli/priceList.ts';
import { questionOf } from '../../../../../cli/profile/question.ts';
import { type SettingsQuestion, settingsFor } from '../../../../../cli/profile/settings/chooseSettings.ts';
import { monthlyCosts, SECONDS_A_MONTH } from '../../../../../cli/profile/settings/monthlyCosts.ts';
import { reportOf } from '../page/reports.ts';
import { SINGLE, tableOf } from './setup.ts';

const OPTIONS = {
  'latency-budget-ms': '2000',
  'requests-per-message': '1',
  'result-bytes': '450',
  'packed-results': false,
};
const { measured: MEASURED } = reportOf();
const rateOf = async (options: object): Promise<number> =>
  (await questionOf({ ...OPTIONS, ...options }, () => {}))(MEASURED).messagesPerSecond;

function costsOf(rowsPerMonth: number, overrides: Partial<SettingsQuestion> = {}) {
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
  return { chosen, costs: new Map(monthlyCosts(question, chosen).map((one) => [one.way, one])) };
}

describe('traffic', () => {
  it.each([
    [{ 'rows-per-second': '0.5' }, 0.5],
    [{ 'rows-per-day': '86,400' }, 1],
    [{ 'rows-per-month': '2_628_000' }, 1],
    [{ 'rows-per-month': '26280000', 'requests-per-message': '10' }, 1],
    [{ 'arrival-rate': '7' }, 7],
    [{}, 100],
  ])('may be said as %j', async (options, rate) => {
    expect(await rateOf(options)).toBeCloseTo(rate, 10);
  });

  it.each([
    [{ 'rows-per-month': 'many' }, /^--rows-per-month: expected rows a month, above 0 and up to \d+, got 'many'$/],
    [{ 'rows-per-day': '1', 'arrival-rate': '1' }, /^--rows-per-day: expected it without --arrival-rate, got both/],
    [{ 'rows-per-day': '1', trace: 'times.txt' }, /^--trace: expected it without --rows-per-day, got both/],
  ])('is refused as %j', async (options, message) => {
    await expect(rateOf(options)).rejects.toThrow(message);
  });
});

describe('a month', () => {
  it('costs by each way what a million rows cost, as often as it has them', () => {
    const { chosen, costs } = costsOf(10_000_000);
    expect([...costs.keys()]).toEqual(['queue', 'packed', 'worker', 'job']);
    expect(costs.get('queue')?.dollarsPerMonth).toBeCloseTo(10 * chosen.dollarsPerMillionRows.total, 6);
    // A task of one vCPU and 2 GB is there for 730 hours, and the rest goes to SQS: six requests for ten messages.
    const { fargateArmVcpuHour: vcpu, fargateArmGbHour: gb, sqsStandardMillionRequests: requests } = PRICES;
    expect(costs.get('worker')?.dollarsPerMonth).toBeCloseTo(730 * (vcpu + 2 * gb) + 0.6 * 10 * requests, 1);
    const [packed, job] = [costs.get('packed')?.dollarsPerMonth ?? 0, costs.get('job')?.dollarsPerMonth ?? 0];
    expect(packed).toBeLessThan(0.1 * 10 * chosen.dollarsPerMillionRows.total);
    expect(job).toBeGreaterThan(0);
    expect(job).toBeLessThan(packed);
  });

  it('has as many tasks as keep up, and no way that no function holds', () => {
    const slow = { table: tableOf((rows) => 900 * rows) };
    const { costs } = costsOf(2_628_000, slow);
    expect(costs.get('worker')?.how).toMatch(/, 2 × 1 vCPU and 2 GB on Fargate/);
    expect(costs.has('packed')).toBe(false);
    const large = { messages: { ...SINGLE, messageBytes: 600_000 } };
    expect(costsOf(1_000_000, large).costs.has('packed')).toBe(false);
  });
});
