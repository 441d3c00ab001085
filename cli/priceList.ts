import { readFileSync } from 'node:fs';
import * as z from 'zod';
import { IN_OUR_WORDS, problemsIn } from '../lambda/core/wrongValue.ts';
import prices from './prices.json' with { type: 'json' };

/** Public prices with their date and region. Each one can be overridden, because a deployment may have other prices. */
export const PRICES: Prices = prices;

export type Prices = Readonly<typeof prices>;

const { date: _, region: __, sources: ___, ...DOLLARS } = prices;
const EXPECTED = 'expected US dollars as a number of at least 0';
const usd = z.number({ error: EXPECTED }).min(0, { error: EXPECTED });
const text = z.string().min(1);
/** Keys of cli/prices.json. */
const PRICE_LIST = z.strictObject({
  date: text,
  region: text,
  sources: z.array(text),
  ...(Object.fromEntries(Object.keys(DOLLARS).map((name) => [name, usd])) as Record<keyof typeof DOLLARS, typeof usd>),
});

/** @throws Error if the file is not a price list */
export function readPrices(file: string): Partial<Prices> {
  const value = readJson(file);
  const parsed = PRICE_LIST.partial().safeParse(value, IN_OUR_WORDS);
  if (parsed.success) return parsed.data;
  const [problem] = problemsIn(parsed.error.issues, value);
  throw new Error(`prices: expected ${file} to hold keys of cli/prices.json, got what is not: ${problem}`);
}

function readJson(file: string): unknown {
  try {
    return JSON.parse(readFileSync(file, 'utf8'));
  } catch {
    throw new Error(`prices: expected a JSON file, got ${file}, which cannot be read as one; check the path`);
  }
}
