import { writeFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { PRICES } from '../../../../cli/priceList.ts';
import { pricesFrom } from '../../../../cli/profile/profileCommand.ts';
import { useFolder } from '../../../helpers/folders.ts';

const inFolder = useFolder();
const fileWith = (name: string, text: string): string => {
  writeFileSync(inFolder(name), text);
  return inFolder(name);
};

describe('pricesFrom', () => {
  const warnings = (date: string, now: string): string[] => {
    const said: string[] = [];
    pricesFrom(fileWith('prices.json', JSON.stringify({ date })), new Date(now), (message) => said.push(message));
    return said;
  };

  it('has the prices of a file in place of the construct’s, which have their date and sources', () => {
    const file = fileWith('prices.json', '{"lambdaMillionRequests":1}');
    expect(pricesFrom(file, new Date('2026-12-01'), () => {})).toEqual({ ...PRICES, lambdaMillionRequests: 1 });
    expect(PRICES.date).toMatch(/^\d{4}-\d{2}$/);
    expect(PRICES.sources.every((source) => source.startsWith('https://aws.amazon.com/'))).toBe(true);
  });

  it('warns of prices that are older than six months', () => {
    expect(warnings('2026-11', '2027-05-31T23:59:59Z')).toEqual([]);
    expect(warnings('2026-11-30', '2027-06-01T00:00:00Z')).toEqual([
      expect.stringMatching(/expected prices of the last 6 months, got the date 2026-11-30; look them up again/),
    ]);
    expect(warnings('spring', '2026-11-01')).toHaveLength(1);
  });

  it('refuses what is no price list', () => {
    expect(() => pricesFrom(fileWith('p.json', '{"lambda":1}'), new Date(), () => {})).toThrow(/^prices: expected/);
  });
});
