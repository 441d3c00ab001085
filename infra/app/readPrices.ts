import { readFileSync } from 'node:fs';
import { z } from 'zod';
import { IN_OUR_WORDS, problemsIn } from '../../lambda/core/wrongValue.ts';
import type { Prices } from '../constructs/base/prices.ts';

const DOLLARS = 'expected US dollars as a number of at least 0';
const usd = z.number({ error: DOLLARS }).min(0, { error: DOLLARS });

/** Any of the keys of infra/constructs/base/prices.json. */
const PRICE_FILE = z
  .strictObject({
    date: z.string().min(1),
    region: z.string().min(1),
    sources: z.array(z.string().min(1)),
    lambdaX86GbSecond: usd,
    lambdaArmGbSecond: usd,
    lambdaX86WarmGbSecond: usd,
    lambdaArmWarmGbSecond: usd,
    lambdaX86ProvisionedGbSecond: usd,
    lambdaArmProvisionedGbSecond: usd,
    lambdaMillionRequests: usd,
    fargateX86VcpuHour: usd,
    fargateX86GbHour: usd,
    fargateArmVcpuHour: usd,
    fargateArmGbHour: usd,
    sqsStandardMillionRequests: usd,
    sqsFifoMillionRequests: usd,
    dynamodbMillionWrites: usd,
    dynamodbMillionReads: usd,
    s3ThousandPuts: usd,
    s3ThousandGets: usd,
    stepFunctionsThousandTransitions: usd,
    logGb: usd,
    metricMonth: usd,
    managedInstancesFeePercent: usd,
    instanceHour: z.record(z.string(), usd),
  })
  .partial();

/** @throws Error when the file is not a price list */
export function readPrices(file: string): Partial<Prices> {
  const value = readJson(file);
  const parsed = PRICE_FILE.safeParse(value, IN_OUR_WORDS);
  if (parsed.success) return parsed.data;
  const [problem] = problemsIn(parsed.error.issues, value);
  throw new Error(
    `prices: expected ${file} to hold keys of infra/constructs/base/prices.json, got what is not: ${problem}`,
  );
}

function readJson(file: string): unknown {
  try {
    return JSON.parse(readFileSync(file, 'utf8'));
  } catch {
    throw new Error(`prices: expected a JSON file, got ${file}, which cannot be read as one; check the path`);
  }
}
