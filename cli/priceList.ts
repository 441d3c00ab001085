import { readFileSync } from 'node:fs';
import * as z from 'zod';
import { IN_OUR_WORDS, problemsIn } from '../lambda/core/wrongValue.ts';
import prices from './prices.json' with { type: 'json' };

const DOLLARS = 'expected US dollars as a number of at least 0';
const usd = z.number({ error: DOLLARS }).min(0, { error: DOLLARS });

/** The keys of cli/prices.json. */
const PRICE_LIST = z.strictObject({
  /** When the prices were looked up, such as `2026-11`. */
  date: z.string().min(1),
  region: z.string().min(1),
  /** The pages that they were looked up on. */
  sources: z.array(z.string().min(1)).readonly(),
  lambdaX86GbSecond: usd,
  lambdaArmGbSecond: usd,
  /** Of an invocation in an environment that is kept warm. */
  lambdaX86WarmGbSecond: usd,
  lambdaArmWarmGbSecond: usd,
  /** Of an environment that is kept warm, invoked or not. */
  lambdaX86ProvisionedGbSecond: usd,
  lambdaArmProvisionedGbSecond: usd,
  lambdaMillionRequests: usd,
  /** Of a task on Fargate, on demand: each vCPU, and each GB of its memory. */
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
  /** From one state to the next of a Standard workflow, retries included. */
  stepFunctionsThousandTransitions: usd,
  /** A GiB of logs that CloudWatch takes in. */
  logGb: usd,
  /** A custom metric for a month. */
  metricMonth: usd,
  /** The fee for Managed Instances, in percent of the EC2 price. */
  managedInstancesFeePercent: usd,
  /** On-demand price of an hour, by EC2 instance type. */
  instanceHour: z.record(z.string(), usd).readonly(),
});

/** Prices in US dollars, from which costs are estimated. */
export type Prices = Readonly<z.infer<typeof PRICE_LIST>>;

/** Public prices with their date and region. What a deployment pays may differ, so each can be overridden. */
export const PRICES: Prices = prices;

/** @throws Error when the file is not a price list */
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
