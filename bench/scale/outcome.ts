import { loadOfShard } from './load.ts';
import type { Reason } from './mapping.ts';
import { dollarsPerHour } from './money.ts';
import { messagesPerSecond, type Scenario } from './scenario.ts';
import { type Stretch, simulate } from './simulate.ts';

/** What becomes of a scenario: the simulation of one shard, times the shards. */
export interface Outcome {
  readonly scenario: Scenario;
  readonly stretches: readonly Stretch[];
  /** Whether in the end as much is answered as comes. */
  readonly holds: boolean;
  /** Seconds until nothing was late any more; undefined where something is at the end. */
  readonly caughtUpSeconds: number | undefined;
  /** At the end. */
  readonly last: Stretch;
  /** The most that waited in the queues at the end of a stretch. */
  readonly mostWaiting: number;
  /** Batches that Lambda refused. */
  readonly throttled: number;
  readonly dollarsPerHour: number;
}

export interface Span {
  readonly seconds: number;
  readonly seed: number;
}

export function outcomeOf(scenario: Scenario, span: Span): Outcome {
  const { shards } = scenario;
  const { stretches: ofShard, throttled } = simulate(loadOfShard(scenario), span);
  const stretches = ofShard.map((stretch) => timesShards(stretch, shards));
  const last = stretches.at(-1);
  if (last === undefined) throw new Error('expected at least one stretch of time');
  const isLate = ({ waiting, heldBackBy }: Stretch) =>
    heldBackBy !== undefined && waiting > messagesPerSecond(scenario);
  const lastLate = stretches.findLastIndex(isLate);
  return {
    scenario,
    stretches,
    holds: !isLate(last) || last.answered >= last.arrived,
    caughtUpSeconds: isLate(last) ? undefined : (stretches[lastLate]?.endSeconds ?? 0),
    last,
    mostWaiting: Math.max(...stretches.map(({ waiting }) => waiting)),
    throttled: throttled * shards,
    dollarsPerHour: dollarsPerHour(scenario, last.batch),
  };
}

/** What holds messages back in the end, of those that do not hold. */
export function brokenBy({ holds, last }: Outcome): Reason | undefined {
  return holds ? undefined : last.heldBackBy;
}

function timesShards(stretch: Stretch, shards: number): Stretch {
  const { arrived, answered, waiting, inFlight, running, mapping } = stretch;
  return {
    ...stretch,
    arrived: shards * arrived,
    answered: shards * answered,
    waiting: shards * waiting,
    inFlight: shards * inFlight,
    running: shards * running,
    mapping: shards * mapping,
  };
}
