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
