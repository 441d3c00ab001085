import { PRICES, type Prices, readPrices } from '../../infra/priceList.ts';

const MOST_MONTHS = 6;

/**
 * The price list of the construct, with those of a file in place of its own.
 *
 * @param warn told of prices that are older than six months
 * @throws Error when the file is not a price list
 */
export function pricesFrom(file: string | undefined, now: Date, warn: (message: string) => void): Prices {
  const prices = { ...PRICES, ...(file === undefined ? {} : readPrices(file)) };
  const where = file ?? 'infra/prices.json';
  const months = monthsSince(prices.date, now);
  if (!(months <= MOST_MONTHS)) {
    warn(
      `${where}: expected prices of the last ${MOST_MONTHS} months, got the date ${prices.date}; look them up again, and ` +
        'give a file with those that changed and their date as --prices',
    );
  }
  return prices;
}

/** NaN where the date does not begin with a year and a month. */
function monthsSince(date: string, now: Date): number {
  const [, year, month] = /^(\d{4})-(\d{2})\b/.exec(date) ?? [];
  return (now.getUTCFullYear() - Number(year)) * 12 + now.getUTCMonth() + 1 - Number(month);
}
