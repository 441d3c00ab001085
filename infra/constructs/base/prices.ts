import prices from './prices.json' with { type: 'json' };

/** US dollars. What the dashboard's cost is computed from. */
export interface Prices {
  /** When the prices were read, such as `2026-11`. */
  readonly date: string;
  readonly region: string;
  readonly lambdaX86GbSecond: number;
  readonly lambdaArmGbSecond: number;
  readonly lambdaMillionRequests: number;
  readonly sqsStandardMillionRequests: number;
  readonly sqsFifoMillionRequests: number;
  readonly dynamodbMillionWrites: number;
  readonly dynamodbMillionReads: number;
  readonly s3ThousandPuts: number;
  readonly s3ThousandGets: number;
  /** What Managed Instances cost above the EC2 price, in percent of it. */
  readonly managedInstancesFeePercent: number;
  /** An hour on demand, by EC2 instance type. */
  readonly instanceHour: Readonly<Record<string, number>>;
}

/** Public prices with their date and region; what a deployment pays differs, so that each can be overridden. */
export const PRICES: Prices = prices;
