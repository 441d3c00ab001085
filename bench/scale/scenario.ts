import { MAX_EVENT_BYTES, RANGES } from '../../lambda/core/limits.ts';

/** Where results go: to the queue one by one or packed, to the table, to the bucket. */
export const RESULTS = ['queue', 'packed', 'table', 'bucket'] as const;
export type Results = (typeof RESULTS)[number];

/** A traffic, and the deployment that takes it. */
export interface Scenario {
  readonly requestsPerSecond: number;
  readonly requestsPerMessage: number;
  readonly requestBytes: number;
  readonly results: Results;
  readonly resultBytes: number;
  readonly fifo: boolean;
  /** Message groups that have requests at a time, on a FIFO queue. */
  readonly groups: number;

  readonly shards: number;
  readonly batchSize: number;
  readonly windowSeconds: number;
  /** Of all shards together, as the setting of the construct. @default what AWS allows */
  readonly maximumConcurrency?: number | undefined;
  /** Provisioned pollers of all shards together, at the most. @default none are provisioned */
  readonly maximumPollers?: number | undefined;
  /** Of those, how many always run. @default two for each shard */
  readonly minimumPollers?: number | undefined;
  /** The account's concurrent invocations. */
  readonly accountConcurrency: number;

  /** What an invocation takes whatever it holds, and what each message and each request adds, in milliseconds. */
  readonly batchMs: number;
  readonly messageMs: number;
  readonly requestMs: number;
  /** What the first invocation of an environment takes longer. */
  readonly coldMs: number;
  readonly memoryMb: number;
}

export function messagesPerSecond({ requestsPerSecond, requestsPerMessage }: Scenario): number {
  return requestsPerSecond / requestsPerMessage;
}

/** A packed message is an array: a bracket or comma for each request. */
export function messageBytes({ requestBytes, requestsPerMessage }: Scenario): number {
  return requestsPerMessage === 1 ? requestBytes : requestsPerMessage * (requestBytes + 1) + 1;
}

/** Messages of a full batch: the batch size, or what 6 MB hold. */
export function fullBatch(scenario: Scenario): number {
  return Math.max(1, Math.min(scenario.batchSize, Math.floor(MAX_EVENT_BYTES / messageBytes(scenario))));
}

/** Milliseconds that an invocation takes with so many messages. */
export function runMs({ batchMs, messageMs, requestMs, requestsPerMessage }: Scenario, messages: number): number {
  return batchMs + messages * (messageMs + requestsPerMessage * requestMs);
}

/** As many requests as SQS bills as one, where a request is smaller than that. */
export function requestsThatFill({ requestBytes }: Scenario): number {
  return Math.max(
    1,
    Math.min(RANGES.maxRequestsPerMessage.default, Math.floor((BILLED_BYTES - 1) / (requestBytes + 1))),
  );
}

const BILLED_BYTES = 65_536;
