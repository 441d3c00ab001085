import { MESSAGES_IN_FLIGHT } from '../../lambda/core/limits.ts';
import { ACCOUNT, BUCKET, FIFO_CALLS_PER_SECOND, MAPPING, MESSAGES_PER_RECEIVE, POLLER, TABLE } from './rules.ts';
import { fullBatch, messageBytes, runMs, type Scenario } from './scenario.ts';

/** The most that one rule lets through, once everything has grown and batches are full. */
export interface Ceiling {
  readonly limit: string;
  /** Requests a second. */
  readonly most: number;
  /** How that is worked out. */
  readonly sum: string;
}

/**
 * Every ceiling, the lowest first: it is what breaks first. By Little's law, so many invocations at a time, each of a full
 * batch, let that many batches through in the time of one; and so many messages in flight, for as long as one invocation
 * takes at least, that many messages.
 *
 * @see https://en.wikipedia.org/wiki/Little%27s_law
 */
export function ceilingsOf(scenario: Scenario): Ceiling[] {
  const { requestsPerMessage: packed, shards, accountConcurrency, fifo, groups, results } = scenario;
  const messages = fullBatch(scenario);
  const requests = messages * packed;
  const seconds = runMs(scenario, messages) / 1000;
  const batch = `${count(requests)} requests in ${seconds.toFixed(3)} s`;
  const invocations = (limit: string, most: number): Ceiling => ({
    limit,
    most: (most * requests) / seconds,
    sum: `${count(most)} × ${batch}`,
  });
  const ceilings: (Ceiling | undefined)[] = [
    mappingCeiling(scenario, invocations),
    invocations("the account's concurrency", accountConcurrency),
    {
      limit: "the account's invocations a second",
      most: ACCOUNT.invocationsPerSecond * accountConcurrency * requests,
      sum: `${ACCOUNT.invocationsPerSecond} × ${count(accountConcurrency)} × ${count(requests)} requests`,
    },
    {
      limit: 'messages in flight',
      most: (shards * MESSAGES_IN_FLIGHT * packed) / seconds,
      sum: `${shards} × ${count(MESSAGES_IN_FLIGHT)} messages × ${packed} in ${seconds.toFixed(3)} s`,
    },
    fifo ? invocations('message groups', groups) : undefined,
    fifo
      ? {
          limit: 'calls of the FIFO queues',
          most: shards * FIFO_CALLS_PER_SECOND * MESSAGES_PER_RECEIVE * packed,
          sum: `${shards} × ${count(FIFO_CALLS_PER_SECOND)} calls/s × ${MESSAGES_PER_RECEIVE} messages × ${packed}`,
        }
      : undefined,
    ...pollerCeilings(scenario),
    results === 'table' ? tableCeiling(scenario) : undefined,
    results === 'bucket'
      ? {
          limit: "the bucket's PUTs under its shards",
          most: BUCKET.shards * BUCKET.putsPerSecond * requests,
          sum: `${BUCKET.shards} × ${count(BUCKET.putsPerSecond)} × ${count(requests)} requests`,
        }
      : undefined,
  ];
  return ceilings.filter((ceiling) => ceiling !== undefined).toSorted((a, b) => a.most - b.most);
}

/** Concurrent invocations that the mappings start at the most, and which rule says so. */
export function mappingMost(scenario: Scenario): { readonly limit: string; readonly most: number } {
  const { shards, maximumConcurrency, maximumPollers } = scenario;
  if (maximumPollers !== undefined)
    return { limit: 'invocations of the pollers', most: POLLER.invocations * maximumPollers };
  if (maximumConcurrency !== undefined) return { limit: 'maximumConcurrency', most: maximumConcurrency };
  return { limit: 'concurrency of the mappings', most: shards * MAPPING.most };
}

function mappingCeiling(scenario: Scenario, ceiling: (limit: string, most: number) => Ceiling): Ceiling {
  const { limit, most } = mappingMost(scenario);
  return ceiling(limit, most);
}

function pollerCeilings(scenario: Scenario): Ceiling[] {
  const { maximumPollers, requestsPerMessage } = scenario;
  if (maximumPollers === undefined) return [];
  const received = POLLER.callsPerSecond * MESSAGES_PER_RECEIVE;
  const bytes = messageBytes(scenario);
  return [
    {
      limit: 'receives of the pollers',
      most: maximumPollers * received * requestsPerMessage,
      sum: `${count(maximumPollers)} × ${received} messages/s × ${requestsPerMessage}`,
    },
    {
      limit: 'bytes of the pollers',
      most: (maximumPollers * POLLER.bytesPerSecond * requestsPerMessage) / bytes,
      sum: `${count(maximumPollers)} × 1 MB/s ÷ ${count(bytes)} bytes × ${requestsPerMessage}`,
    },
  ];
}

function tableCeiling({ resultBytes }: Scenario): Ceiling {
  const units = Math.ceil(resultBytes / TABLE.unitBytes);
  return {
    limit: "the table's write units",
    most: TABLE.writesPerSecond / units,
    sum: `${count(TABLE.writesPerSecond)} ÷ ${units} for each result; a new table ${count(TABLE.writesPerSecondWhenNew)}`,
  };
}

export function count(value: number): string {
  return Math.round(value).toLocaleString('en');
}
