import { readFileSync } from 'node:fs';
import * as z from 'zod';
import { IN_OUR_WORDS, problemsIn } from '../lambda/core/wrongValue.ts';
import prices from './prices.json' with { type: 'json' };

const DOLLARS = 'expected US dollars as a number of at least 0';
const usd = z.number({ error: DOLLARS }).min(0, { error: DOLLARS });

/** Keys of cli/prices.json. */
const PRICE_LIST = z.strictObject({
  /** Month when the prices were looked up, such as `2026-11`. */
  date: z.string().min(1),
  region: z.string().min(1),
  /** Pages with the prices. */
  sources: z.array(z.string().min(1)).readonly(),
  lambdaX86GbSecond: usd,
  lambdaArmGbSecond: usd,
  lambdaMillionRequests: usd,
  /** On-demand price of a Fargate task: each vCPU, and each GB of its memory. */
  fargateX86VcpuHour: usd,
  fargateX86GbHour: usd,
  fargateArmVcpuHour: usd,
  fargateArmGbHour: usd,
  sqsStandardMillionRequests: usd,
  s3ThousandPuts: usd,
  s3ThousandGets: usd,
  /** State transitions of a Standard workflow, including retries. */
  stepFunctionsThousandTransitions: usd,
});

export type Prices = Readonly<z.infer<typeof PRICE_LIST>>;

/** Public prices with their date and region. Each one can be overridden, because a deployment may have other prices. */
export const PRICES: Prices = prices;

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
