import { MESSAGES_IN_FLIGHT } from '../../lambda/core/limits.ts';
import { mappingMost } from './ceilings.ts';
import {
  ACCOUNT,
  ENVIRONMENTS,
  FIFO_CALLS_PER_SECOND,
  MAPPING,
  MESSAGES_PER_RECEIVE,
  POLLER,
  PROVISIONED_PER_MINUTE,
} from './rules.ts';
import { fullBatch, messageBytes, messagesPerSecond, runMs, type Scenario } from './scenario.ts';

/** What one shard is given to do, and what it may use for that. */
export interface Load {
  readonly messagesPerSecond: number;
  /** Most messages of an invocation. */
  readonly batchSize: number;
  readonly windowMs: number;
  readonly runMs: (messages: number) => number;
  readonly coldMs: number;
  /** Concurrent invocations of the mapping. */
  readonly mapping: { readonly atFirst: number; readonly perSecond: number; readonly most: number };
  /** Messages that are received in a second at the most, of the queue and for each invocation that there may be by now. */
  readonly receives: { readonly ofQueue: number; readonly ofEach: number };
  readonly messagesInFlight: number;
  /** Of the account, and of the function. */
  readonly concurrency: number;
  readonly invocationsPerSecond: number;
  readonly environments: { readonly atOnce: number; readonly perSecond: number };
}

/** Shards are alike: each has its part of the traffic, and of what the account and the function have once for all. */
export function loadOfShard(scenario: Scenario): Load {
  const { shards, windowSeconds, coldMs, accountConcurrency } = scenario;
  return {
    messagesPerSecond: messagesPerSecond(scenario) / shards,
    batchSize: fullBatch(scenario),
    windowMs: windowSeconds * 1000,
    runMs: (messages) => runMs(scenario, messages),
    coldMs,
    mapping: mappingOf(scenario),
    receives: receivesOf(scenario),
    messagesInFlight: MESSAGES_IN_FLIGHT,
    concurrency: accountConcurrency / shards,
    invocationsPerSecond: (ACCOUNT.invocationsPerSecond * accountConcurrency) / shards,
    environments: { atOnce: ENVIRONMENTS.atOnce / shards, perSecond: ENVIRONMENTS.perSecond / shards },
  };
}

/** On a FIFO queue a message group is in one invocation at a time. */
function mappingOf(scenario: Scenario): Load['mapping'] {
  const { shards, fifo, groups, maximumPollers, minimumPollers = POLLER.atFirst * shards } = scenario;
  const most = Math.floor(Math.min(mappingMost(scenario).most, fifo ? groups : Number.POSITIVE_INFINITY) / shards);
  const [atFirst, perMinute] =
    maximumPollers === undefined
      ? [MAPPING.atFirst, MAPPING.perMinute]
      : [(POLLER.invocations * minimumPollers) / shards, PROVISIONED_PER_MINUTE];
  return { atFirst: Math.min(atFirst, most), perSecond: perMinute / 60, most };
}

/** Of provisioned pollers there are as many as ten invocations each need. */
function receivesOf(scenario: Scenario): Load['receives'] {
  const { fifo, maximumPollers } = scenario;
  const ofPoller = Math.min(
    POLLER.callsPerSecond * MESSAGES_PER_RECEIVE,
    POLLER.bytesPerSecond / messageBytes(scenario),
  );
  return {
    ofQueue: fifo ? FIFO_CALLS_PER_SECOND * MESSAGES_PER_RECEIVE : Number.POSITIVE_INFINITY,
    ofEach: maximumPollers === undefined ? Number.POSITIVE_INFINITY : ofPoller / POLLER.invocations,
  };
}
