import { describe, expect, it } from '@jest/globals';
import { ceilingsOf } from '../../../../bench/scale/ceilings.ts';
import { loadOfShard } from '../../../../bench/scale/load.ts';
import { dollarsPerHour } from '../../../../bench/scale/money.ts';
import { fullBatch, requestsThatFill, type Scenario } from '../../../../bench/scale/scenario.ts';
import { scenarioOf } from './loads.ts';

/** The most that each limit lets through, by its name. */
function most(scenario: Partial<Scenario>): Record<string, number> {
  return Object.fromEntries(ceilingsOf(scenarioOf(scenario)).map(({ limit, most }) => [limit, Math.round(most)]));
}

describe('the ceilings', () => {
  it('are those of the documented numbers, the lowest first', () => {
    // A full batch of 100 takes 90 + 100 × 0.1 = 100 ms.
    expect(most({})).toEqual({
      "the account's concurrency": (1_000 * 100) / 0.1,
      "the account's invocations a second": 10 * 1_000 * 100,
      'messages in flight': 120_000 / 0.1,
      'concurrency of the mappings': (1_250 * 100) / 0.1,
    });
    const ceilings = ceilingsOf(scenarioOf({ batchMs: 990 }));
    expect(ceilings.map(({ most }) => most)).toEqual(ceilings.map(({ most }) => most).toSorted((a, b) => a - b));
    expect(ceilings[0]).toEqual({
      limit: "the account's concurrency",
      most: 100_000,
      sum: '1,000 × 100 requests in 1.000 s',
    });
  });

  it.each<[string, Partial<Scenario>, Record<string, number>]>([
    [
      'of four shards',
      { shards: 4 },
      {
        'messages in flight': 4_800_000,
        'concurrency of the mappings': 5_000_000,
        "the account's concurrency": 1_000_000,
      },
    ],
    ['of a maximum concurrency', { maximumConcurrency: 20 }, { maximumConcurrency: 20_000 }],
    [
      'of messages of 60 KB, of which 104 fit 6 MB',
      { requestBytes: 60_000, batchSize: 1000, batchMs: 89.6 },
      { "the account's concurrency": (1_000 * 104) / 0.1 },
    ],
    [
      'of packed messages',
      { requestsPerMessage: 50, batchMs: 85, requestMs: 0.001 },
      { 'messages in flight': (120_000 * 50) / 0.1, "the account's concurrency": (1_000 * 100 * 50) / 0.1 },
    ],
    [
      'of pollers: ten invocations, a hundred messages and 1 MB a second each',
      { maximumPollers: 30, requestBytes: 20_000 },
      { 'invocations of the pollers': 300_000, 'receives of the pollers': 3_000, 'bytes of the pollers': 1_500 },
    ],
    [
      'of FIFO queues: 70,000 calls of ten messages each, and a message group in one invocation at a time',
      { fifo: true, batchSize: 10, windowSeconds: 0, shards: 2, groups: 40, batchMs: 99 },
      { 'calls of the FIFO queues': 1_400_000, 'message groups': 4_000 },
    ],
    ['of a table', { results: 'table', resultBytes: 1_500 }, { "the table's write units": 20_000 }],
    ['of a bucket', { results: 'bucket' }, { "the bucket's PUTs under its shards": 5_600_000 }],
  ])('%s', (_, scenario, expected) => {
    expect(most(scenario)).toMatchObject(expected);
  });
});

describe('one shard of several', () => {
  it('has its part of the traffic, of the settings, of the account and of the function, and a queue of its own', () => {
    const load = loadOfShard(scenarioOf({ shards: 4, maximumConcurrency: 41 }));
    expect(load).toMatchObject({
      messagesPerSecond: 2_500,
      windowMs: 1_000,
      mapping: { atFirst: 5, perSecond: 5, most: 10 },
      receives: { ofQueue: Number.POSITIVE_INFINITY, ofEach: Number.POSITIVE_INFINITY },
      messagesInFlight: 120_000,
      concurrency: 250,
      invocationsPerSecond: 2_500,
      environments: { atOnce: 250, perSecond: 25 },
    });
    expect(load.runMs(100)).toBeCloseTo(100);
  });

  it('begins with its pollers, and grows by a thousand invocations a minute', () => {
    const load = loadOfShard(scenarioOf({ shards: 2, minimumPollers: 8, maximumPollers: 30, requestBytes: 20_000 }));
    expect(load.mapping).toEqual({ atFirst: 40, perSecond: 1_000 / 60, most: 150 });
    expect(load.receives).toEqual({ ofQueue: Number.POSITIVE_INFINITY, ofEach: 50 / 10 });
  });

  it('receives 700,000 messages a second at the most on a FIFO queue, and has its part of the message groups', () => {
    const load = loadOfShard(scenarioOf({ fifo: true, shards: 2, groups: 9 }));
    expect(load).toMatchObject({ receives: { ofQueue: 700_000 }, mapping: { atFirst: 4, most: 4 } });
  });

  it('never begins with more than it may have', () => {
    expect(loadOfShard(scenarioOf({ maximumConcurrency: 3 })).mapping).toMatchObject({ atFirst: 3, most: 3 });
  });
});

describe('a message', () => {
  it('is filled with as many requests as 64 KiB hold, brackets and commas included', () => {
    // 127 × 513 + 1 = 65,152 bytes; one more would be 65,665.
    expect(requestsThatFill(scenarioOf({ requestBytes: 512 }))).toBe(127);
    expect(requestsThatFill(scenarioOf({ requestBytes: 100_000 }))).toBe(1);
    expect(requestsThatFill(scenarioOf({ requestBytes: 1 }))).toBe(10_000);
  });

  it('is one of as many as 6 MB hold, and one at least', () => {
    expect(fullBatch(scenarioOf({ requestsPerMessage: 127 }))).toBe(96);
    expect(fullBatch(scenarioOf({ requestBytes: 7_000_000 }))).toBe(1);
  });
});

describe('the dollars of an hour', () => {
  /** Of a million requests in that hour. */
  const ofMillion = (scenario: Partial<Scenario>, batch = 100) =>
    dollarsPerHour(scenarioOf({ requestsPerSecond: 1_000_000 / 3_600, resultBytes: 450, ...scenario }), batch);

  it('are those of docs/operations.md', () => {
    expect(ofMillion({})).toBeCloseTo(0.265, 3);
    expect(ofMillion({ results: 'table' })).toBeCloseTo(0.025 + 0.12 + 0.75, 3);
    expect(ofMillion({ results: 'bucket' })).toBeCloseTo(0.025 + 0.12 + 0.05, 3);
  });

  it('fall with packed messages and results, and rise on FIFO queues and with half-empty batches', () => {
    // 145 results of 450 bytes to 64 KiB, each message sent, received and deleted: 2.1 × 0.40 $ ÷ 145.
    expect(ofMillion({ results: 'packed' })).toBeCloseTo(0.025 + 0.12 + 0.0058, 3);
    // Ten messages of 51,301 bytes are billed as eight requests.
    expect(ofMillion({ requestsPerMessage: 100, results: 'bucket', messageMs: 0, batchMs: 100 })).toBeCloseTo(
      0.00025 + 0.0005 + ((2 * 0.8 + 0.1) * 0.4) / 100,
      3,
    );
    expect(ofMillion({ fifo: true })).toBeCloseTo(0.025 + (0.24 * 0.5) / 0.4, 3);
    expect(ofMillion({ messageMs: 0, batchMs: 100 }, 50)).toBeCloseTo(2 * 0.025 + 0.24, 3);
  });
});
