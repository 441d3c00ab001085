import { describe, expect, it } from '@jest/globals';
import { PRICES } from '../../../../../cli/priceList.ts';
import { settingsFor } from '../../../../../cli/profile/settings/chooseSettings.ts';
import { SINGLE, tableOf } from './setup.ts';

const ASKED = {
  table: tableOf((rows) => 2 + 0.5 * rows),
  length: 1,
  messagesPerSecond: 500,
  budgetMs: 2000,
  messages: SINGLE,
  prices: PRICES,
  architecture: 'arm64',
} as const;

describe('forms of compute', () => {
  it('have no price where nothing was measured on a GPU, and one on the instance that was', () => {
    const { forms } = settingsFor({
      ...ASKED,
      gpus: [{ instanceType: 'g6.xlarge', table: tableOf((rows) => 1 + rows / 8) }],
    });
    const priced = forms.filter(({ dollarsPerMillionRows }) => dollarsPerMillionRows !== null).map(({ name }) => name);
    expect(priced).toEqual([
      'lambda arm64',
      'lambda arm64, one by one',
      'lambda x86_64',
      'lambda-gpu g6.xlarge',
      'ecs-gpu g6.xlarge',
    ]);
    expect(forms.map(({ name }) => name)).toEqual(
      expect.arrayContaining(['ecs-gpu g4dn.xlarge', 'ecs-gpu g5.xlarge', 'lambda-gpu g6e.xlarge']),
    );
  });

  it('cost an hour of as many instances as the rows need', () => {
    // The best run is of 256 rows in 33 ms: 7758 a second, 80 % of them 6206; one core decodes 11,905, 80 % 9524.
    const gpus = [{ instanceType: 'g4dn.xlarge', table: tableOf((rows) => 1 + rows / 8) }];
    const hours = (messagesPerSecond: number): number => {
      const { forms } = settingsFor({ ...ASKED, messagesPerSecond, gpus });
      const compute = forms.find(({ name }) => name === 'ecs-gpu g4dn.xlarge')?.dollarsPerMillionRows?.compute ?? 0;
      return (compute / 1e6) * messagesPerSecond * 3600;
    };
    expect(hours(1)).toBeCloseTo(0.526 * 1.15, 6);
    expect(hours(6000)).toBeCloseTo(0.526 * 1.15, 6);
    expect(hours(6500)).toBeCloseTo(2 * 0.526 * 1.15, 6);
  });
});
