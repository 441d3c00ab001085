import { readFileSync } from 'node:fs';
import { z } from 'zod';
import type { Prices } from '../constructs/base/prices.ts';

const usd = z.number().min(0);

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
  const parsed = PRICE_FILE.safeParse(readJson(file));
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const where = issue?.path.join('.') || 'its keys';
  throw new Error(
    `prices: expected ${file} to hold keys of infra/constructs/base/prices.json, got ${where}: ${issue?.message}; ` +
      'correct it',
  );
}

function readJson(file: string): unknown {
  try {
    return JSON.parse(readFileSync(file, 'utf8'));
  } catch {
    throw new Error(`prices: expected a JSON file, got ${file}, which cannot be read as one; check the path`);
  }
}
