import prices from '../../infra/constructs/base/prices.json' with { type: 'json' };
import { sqsDollars } from '../measure/hops.ts';
import { billedSends } from '../workload/messages.ts';
import { TABLE } from './rules.ts';
import { messageBytes, runMs, type Scenario } from './scenario.ts';

const MILLION = 1_000_000;
const BILLED_BYTES = 65_536;
/** So many messages are reckoned up, in place of a million. */
const SAMPLE = 100;

/**
 * US dollars an hour, by the arithmetic of docs/operations.md: SQS, compute and result stores, without the pollers.
 *
 * @param batch messages of an invocation, on average
 */
export function dollarsPerHour(scenario: Scenario, batch: number): number {
  const perMillion = sqs(scenario) + compute(scenario, batch) + store(scenario, batch);
  return (perMillion * scenario.requestsPerSecond * 3_600) / MILLION;
}

function sqs(scenario: Scenario): number {
  const { fifo, requestsPerMessage, results, resultBytes } = scenario;
  const requests = SAMPLE * requestsPerMessage;
  const perPackedResult = Math.floor(BILLED_BYTES / resultBytes);
  const ofResults = {
    queue: { messages: requests, chunks: billedSends(Array(requests).fill(resultBytes)) },
    packed: { messages: requests / perPackedResult, chunks: requests / perPackedResult },
    table: { messages: 0, chunks: 0 },
    bucket: { messages: 0, chunks: 0 },
  }[results];
  const dollars = sqsDollars({
    requests,
    messageBytes: Array(SAMPLE).fill(messageBytes(scenario)),
    delivered: { ...ofResults, calls: 0, writeUnits: 0, readUnits: 0, objects: 0, errors: 0 },
    microsecondsPerRequest: 0,
  });
  return fifo ? (dollars * prices.sqsFifoMillionRequests) / prices.sqsStandardMillionRequests : dollars;
}

function compute(scenario: Scenario, batch: number): number {
  const gbSeconds = (runMs(scenario, batch) / 1000) * (scenario.memoryMb / 1024);
  const invocation = gbSeconds * prices.lambdaArmGbSecond + prices.lambdaMillionRequests / MILLION;
  return (MILLION / (batch * scenario.requestsPerMessage)) * invocation;
}

/** A result is written and read once; an invocation puts one object. */
function store({ results, resultBytes, requestsPerMessage }: Scenario, batch: number): number {
  const units = Math.ceil(resultBytes / TABLE.unitBytes);
  if (results === 'table') return units * (prices.dynamodbMillionWrites + prices.dynamodbMillionReads);
  if (results === 'bucket') return ((MILLION / (batch * requestsPerMessage)) * prices.s3ThousandPuts) / 1_000;
  return 0;
}
