import type { Load } from '../../../../bench/scale/load.ts';
import type { Scenario } from '../../../../bench/scale/scenario.ts';
import { type Course, simulate } from '../../../../bench/scale/simulate.ts';

/** A shard that nothing holds back: batches of ten, without a window, of a second each. */
export function loadOf(load: Partial<Load> = {}): Load {
  return {
    messagesPerSecond: 0,
    batchSize: 10,
    windowMs: 0,
    runMs: () => 1000,
    coldMs: 0,
    mapping: { atFirst: 1000, perSecond: 0, most: 1000 },
    receives: { ofQueue: Number.POSITIVE_INFINITY, ofEach: Number.POSITIVE_INFINITY },
    messagesInFlight: 1_000_000,
    concurrency: 1_000_000,
    invocationsPerSecond: 1_000_000,
    environments: { atOnce: 1_000_000, perSecond: 0 },
    ...load,
  };
}

/** So many messages at the very start, and none later. */
export function atOnce(messages: number, load: Partial<Load>, seconds = 10): Course {
  const arrivals = (nowMs: number) => (nowMs === 0 ? messages : 0);
  return simulate(loadOf(load), { seconds, seed: 1, stretchSeconds: 1, arrivals });
}

/** Batches of a hundred single requests in 100 ms, on one standard queue of an account that asked for nothing. */
export function scenarioOf(scenario: Partial<Scenario> = {}): Scenario {
  return {
    requestsPerSecond: 10_000,
    requestsPerMessage: 1,
    requestBytes: 512,
    results: 'queue',
    resultBytes: 450,
    fifo: false,
    groups: 10_000,
    shards: 1,
    batchSize: 100,
    windowSeconds: 1,
    accountConcurrency: 1_000,
    batchMs: 90,
    messageMs: 0.1,
    requestMs: 0,
    coldMs: 0,
    memoryMb: 1_769,
    ...scenario,
  };
}
