import { writeFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { PRICES, readPrices } from '../../../../cli/priceList.ts';
import { useFolder } from '../../../helpers/folders.ts';

const inFolder = useFolder();
const fileWith = (text: string): string => {
  writeFileSync(inFolder('prices.json'), text);
  return inFolder('prices.json');
};

describe('a price list', () => {
  it('has some of the prices, in place of those with their date and sources', () => {
    expect(readPrices(fileWith('{"lambdaMillionRequests":1}'))).toEqual({ lambdaMillionRequests: 1 });
    expect(PRICES.date).toMatch(/^\d{4}-\d{2}$/);
    expect(PRICES.sources.every((source) => source.startsWith('https://aws.amazon.com/'))).toBe(true);
  });

  it('is refused with other keys', () => {
    expect(() => readPrices(fileWith('{"lambda":1}'))).toThrow(/^prices: expected/);
  });
});
