import { describe, expect, it } from '@jest/globals';
import { settingsThatHold } from '../../../../bench/scale/advise.ts';
import { brokenBy, outcomeOf } from '../../../../bench/scale/outcome.ts';
import type { Scenario } from '../../../../bench/scale/scenario.ts';
import { scenarioOf } from './loads.ts';

const SPAN = { seconds: 100, seed: 1 };

/** What is advised of each packing, as `requests to a message, shards, concurrency, the account's`. */
function advised(scenario: Partial<Scenario>): number[][] {
  return settingsThatHold(scenarioOf(scenario), SPAN).map(({ scenario: { requestsPerMessage, shards, ...rest } }) => [
    requestsPerMessage,
    shards,
    rest.maximumConcurrency ?? 0,
    rest.accountConcurrency,
  ]);
}

describe('the settings that hold a traffic', () => {
  it('are one shard, and a quarter more concurrency than it takes, with messages as they are and packed', () => {
    // 1.25 × 10,000 ÷ 1,000 a second for each invocation; packed 1.25 × 79 messages ÷ 960, and two at the least.
    expect(advised({ requestsPerSecond: 10_000 })).toEqual([
      [1, 1, 13, 1_000],
      [127, 1, 2, 1_000],
    ]);
  });

  it.each<[string, Partial<Scenario>, number[]]>([
    // 1.25 × 90,000 ÷ 100 = 1,125 invocations of a second: more than the 1,000 of one mapping.
    ['two shards where one mapping is not enough', { requestsPerSecond: 90_000, batchMs: 990 }, [1, 2, 1_126, 1_126]],
    // 1.25 × 70,000 ÷ 1,000 = 88 invocations of 2,000 messages each: more than 120,000 in flight, and 44 are not.
    [
      'two shards where one queue is not enough',
      { requestsPerSecond: 70_000, batchSize: 2_000, batchMs: 1_800 },
      [1, 2, 88, 1_000],
    ],
    // 1.25 × 10,000 messages a second, ten of them in each invocation of 100 ms.
    [
      'one shard where a FIFO queue takes them all, ten to an invocation',
      { requestsPerSecond: 10_000, fifo: true, batchSize: 10, windowSeconds: 0, batchMs: 99 },
      [1, 1, 125, 1_000],
    ],
  ])('are %s', (_, scenario, expected) => {
    expect(advised(scenario)[0]).toEqual(expected);
  });

  it('hold, and those with a shard less do not', () => {
    const scenario = { requestsPerSecond: 90_000, batchMs: 990 };
    const [one] = settingsThatHold(scenarioOf(scenario), SPAN);
    expect(one?.holds).toBe(true);
    const less = outcomeOf(scenarioOf({ ...scenario, shards: 1, maximumConcurrency: 800, accountConcurrency: 2_000 }), {
      ...SPAN,
      seconds: 200,
    });
    expect([less.holds, brokenBy(less)]).toEqual([false, 'the mapping starts no more']);
  });

  it('are none where message groups are too few, however many shards there are', () => {
    const few = { requestsPerSecond: 10_000, fifo: true, batchSize: 10, windowSeconds: 0, groups: 50 };
    expect(advised({ ...few, requestBytes: 40_000 })).toEqual([]);
  });
});

describe('an outcome', () => {
  it('is that of all shards together', () => {
    const { last } = outcomeOf(scenarioOf({ requestsPerSecond: 40_000, shards: 4 }), SPAN);
    const alone = outcomeOf(scenarioOf({ requestsPerSecond: 10_000, accountConcurrency: 250 }), SPAN).last;
    expect(last).toEqual({
      ...alone,
      arrived: 4 * alone.arrived,
      answered: 4 * alone.answered,
      waiting: 4 * alone.waiting,
      inFlight: 4 * alone.inFlight,
      running: 4 * alone.running,
      mapping: 4 * alone.mapping,
    });
  });

  it('says when a backlog of the start was gone, and how large it was', () => {
    const { holds, caughtUpSeconds, mostWaiting } = outcomeOf(scenarioOf({ requestsPerSecond: 50_000 }), SPAN);
    // Five invocations of 1,000 a second, five more each second: 50 after 9 s, when 9 × 45,000 ÷ 2 have been left.
    expect(holds).toBe(true);
    expect(mostWaiting / 202_500).toBeCloseTo(1, 0);
    expect(caughtUpSeconds).toBe(10);
  });

  it('names what is in the way at the end', () => {
    const outcome = outcomeOf(scenarioOf({ requestsPerSecond: 2_000, accountConcurrency: 1 }), SPAN);
    expect([outcome.holds, outcome.caughtUpSeconds, brokenBy(outcome)]).toEqual([
      false,
      undefined,
      'the concurrency of the account',
    ]);
    expect(outcome.throttled).toBeGreaterThan(0);
  });
});
