import { readFileSync } from 'node:fs';
import { z } from 'zod';
import { IN_OUR_WORDS, problemsIn } from '../lambda/core/wrongValue.ts';
import prices from './prices.json' with { type: 'json' };

/** Prices in US dollars, from which the dashboard computes the cost. */
export interface Prices {
  /** When the prices were looked up, such as `2026-11`. */
  readonly date: string;
  readonly region: string;
  /** The pages that they were looked up on. */
  readonly sources: readonly string[];
  readonly lambdaX86GbSecond: number;
  readonly lambdaArmGbSecond: number;
  /** Of an invocation in an environment that is kept warm. */
  readonly lambdaX86WarmGbSecond: number;
  readonly lambdaArmWarmGbSecond: number;
  /** Of an environment that is kept warm, invoked or not. */
  readonly lambdaX86ProvisionedGbSecond: number;
  readonly lambdaArmProvisionedGbSecond: number;
  readonly lambdaMillionRequests: number;
  /** Of a task on Fargate, on demand: each vCPU, and each GB of its memory. */
  readonly fargateX86VcpuHour: number;
  readonly fargateX86GbHour: number;
  readonly fargateArmVcpuHour: number;
  readonly fargateArmGbHour: number;
  readonly sqsStandardMillionRequests: number;
  readonly sqsFifoMillionRequests: number;
  readonly dynamodbMillionWrites: number;
  readonly dynamodbMillionReads: number;
  readonly s3ThousandPuts: number;
  readonly s3ThousandGets: number;
  /** From one state to the next of a Standard workflow, retries included. */
  readonly stepFunctionsThousandTransitions: number;
  /** A GiB of logs that CloudWatch takes in. */
  readonly logGb: number;
  /** A custom metric for a month. */
  readonly metricMonth: number;
  /** The fee for Managed Instances, in percent of the EC2 price. */
  readonly managedInstancesFeePercent: number;
  /** On-demand price of an hour, by EC2 instance type. */
  readonly instanceHour: Readonly<Record<string, number>>;
}

/** Public prices with their date and region. What a deployment pays may differ, so each can be overridden. */
export const PRICES: Prices = prices;

const DOLLARS = 'expected US dollars as a number of at least 0';
const usd = z.number({ error: DOLLARS }).min(0, { error: DOLLARS });

/** Any of the keys of infra/prices.json. */
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
  throw new Error(`prices: expected ${file} to hold keys of infra/prices.json, got what is not: ${problem}`);
}

function readJson(file: string): unknown {
  try {
    return JSON.parse(readFileSync(file, 'utf8'));
  } catch {
    throw new Error(`prices: expected a JSON file, got ${file}, which cannot be read as one; check the path`);
  }
}
