import { writeFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { PRICES } from '../../../../cli/priceList.ts';
import { pricesFrom, readTrace } from '../../../../cli/profile/question.ts';
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

describe('readTrace', () => {
  it('takes seconds and ISO 8601 in any order, blank lines left out', async () => {
    const path = fileWith('trace', '1767225602.5\n\n2026-01-01T00:00:00Z\r\n1767225601\n');
    const { times, perSecond, from } = await readTrace(path);
    const start = Date.parse('2026-01-01T00:00:00Z');
    expect([...times]).toEqual([start, start + 1000, start + 2500]);
    expect([perSecond, from]).toEqual([2 / 2.5, 0]);
  });

  it.each([
    ['1\ntwo\n', "trace:2: expected seconds since 1970 or a time as ISO 8601, got 'two'; correct it"],
    ['5\n5\n', 'expected two times that differ, or more, got 2; give one a line'],
    ['', 'expected two times that differ, or more, got 0; give one a line'],
    [`${Array.from({ length: 50_001 }, (_, index) => index).join('\n')}`, 'at most 50000 times, got 50001'],
  ])('refuses what is no such list: %.12j', async (text, message) => {
    await expect(readTrace(fileWith('trace', text))).rejects.toThrow(message);
  });
});
