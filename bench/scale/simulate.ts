import { createRandom, type Random } from '../workload/random.ts';
import { createBacklog } from './backlog.ts';
import { createLatencies } from './latencies.ts';
import type { Load } from './load.ts';
import { createMapping, type Reason, TICK_MS } from './mapping.ts';

/** One shard over a stretch of time; numbers of messages at its end, rates and latencies within it. */
export interface Stretch {
  readonly endSeconds: number;
  readonly arrived: number;
  readonly answered: number;
  /** Left waiting in the queue. */
  readonly waiting: number;
  readonly inFlight: number;
  /** Invocations under way. */
  readonly running: number;
  /** Concurrent invocations that the mapping may start by now. */
  readonly mapping: number;
  /** Messages of an invocation, on average. */
  readonly batch: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** What held messages back for most of it. */
  readonly heldBackBy: Reason | undefined;
}

export interface Course {
  readonly stretches: readonly Stretch[];
  /** Messages in the queue or in flight, on average over time. */
  readonly meanInSystem: number;
  readonly meanLatencyMs: number;
  /** Batches that Lambda refused at first: each counts as a receive of its messages. */
  readonly throttled: number;
}

export interface Span {
  readonly seconds: number;
  readonly seed: number;
  /** @default 10 */
  readonly stretchSeconds?: number;
  /** When messages come, in place of a Poisson process: how many in a tick that begins then. */
  readonly arrivals?: ((nowMs: number) => number) | undefined;
}

/**
 * Simulates one shard: messages come at random, the mapping gathers batches and invokes the function as far as the rules
 * let it. Besides the rules it assumes, as AWS does not document it, that the pollers of a mapping that are not provisioned
 * receive as fast as messages come, each in turn; that the mapping shrinks as fast as it grows once nothing waits; that a
 * batch that is refused is tried again at once; and that every invocation succeeds.
 */
export function simulate(load: Load, { seconds, seed, stretchSeconds = 10, arrivals }: Span): Course {
  const random = createRandom(seed);
  const perTick = (load.messagesPerSecond * TICK_MS) / 1000;
  const came = arrivals ?? (() => poisson(perTick, random));
  const backlog = createBacklog();
  const [latencies, all] = [createLatencies(), createLatencies()];
  const mapping = createMapping(load, backlog, (pieces, endMs) => {
    latencies.add(pieces, endMs);
    all.add(pieces, endMs);
  });
  const stretches: Stretch[] = [];
  let [arrived, inSystem] = [0, 0];
  for (let tick = 1; tick <= (seconds * 1000) / TICK_MS; tick++) {
    const nowMs = (tick - 1) * TICK_MS;
    const messages = came(nowMs);
    backlog.add(nowMs, messages);
    arrived += messages;
    mapping.tick(nowMs);
    inSystem += backlog.messages + mapping.inFlight;
    if ((tick * TICK_MS) % (stretchSeconds * 1000) === 0) {
      stretches.push({
        endSeconds: (tick * TICK_MS) / 1000,
        arrived,
        waiting: backlog.messages,
        inFlight: mapping.inFlight,
        running: mapping.running,
        mapping: mapping.concurrency,
        ...mapping.endStretch(),
        p50Ms: latencies.quantile(0.5),
        p99Ms: latencies.quantile(0.99),
      });
      arrived = 0;
      latencies.clear();
    }
  }
  return {
    stretches,
    meanInSystem: inSystem / ((seconds * 1000) / TICK_MS),
    meanLatencyMs: all.meanMs,
    throttled: mapping.throttled,
  };
}

const MANY = 30;

/** How many of a Poisson process come in a time in which `mean` do on average; of many by their normal approximation. */
function poisson(mean: number, random: Random): number {
  if (mean > MANY) return Math.max(0, Math.round(mean + Math.sqrt(mean) * random.normal()));
  const end = Math.exp(-mean);
  let count = 0;
  for (let product = random.next(); product > end; product *= random.next()) count += 1;
  return count;
}
