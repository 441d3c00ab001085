import type { Clock } from '../../lambda/core/concurrency.ts';
import { INVOCATIONS_ADDED_PER_MINUTE, INVOCATIONS_AT_FIRST } from '../../lambda/core/limits.ts';
import { createGather, type GatherLimits, MESSAGES_A_POLL } from '../local/gather.ts';

export interface Mapping extends GatherLimits {
  readonly maximumConcurrency: number;
}

/** Returns the duration of an invocation with `messages` messages. */
export type InvocationMs = (messages: number) => number;

export type Course = ReturnType<typeof simulateMapping>;

/** Slot that gathers a batch of arrivals and then runs it. */
interface Slot {
  readonly index: number;
  readonly gather: ReturnType<typeof createGather<number>>;
  isRunning: boolean;
  /** True if the slot is in the queue of slots that receive messages. */
  isInTurn: boolean;
}

/**
 * Simulates the event source mapping of a standard queue. It has slots that each gather a batch, as the local mapping
 * does, and then run it. As AWS documents, it has at least five slots, adds slots while messages wait, and removes them
 * when none wait, up to the maximum concurrency. The simulation begins with the number of slots that the traffic keeps
 * busy. AWS does not document how messages are distributed: the simulation assumes that gathering slots receive in turn
 * and without delay. Every invocation succeeds.
 *
 * @param arrivals milliseconds, ascending
 * @param from index of the first message that counts. The queue settles before it. @default 0
 * @see https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-scaling.html
 */
export function simulateMapping(
  arrivals: Float64Array,
  { batchSize, windowSeconds, maximumConcurrency }: Mapping,
  invocationMs: InvocationMs,
  from = 0,
) {
  const [firstMs, lastMs] = [arrivals[0] ?? 0, arrivals.at(-1) ?? 0];
  const min = Math.min(INVOCATIONS_AT_FIRST, maximumConcurrency);
  const busy = (arrivals.length / (lastMs - firstMs)) * (invocationMs(batchSize) / batchSize);
  let limit = Math.min(maximumConcurrency, Math.max(min, Math.ceil(busy)));
  const clock = createVirtualClock(firstMs);
  let limitedAtMs = firstMs;
  const slots: Slot[] = [];
  const inTurn: Slot[] = [];
  const ages = new Float64Array(arrivals.length);
  /** Number of invocations by their number of messages. */
  const sizes = new Map<number, number>();
  let [aged, messages, invocations] = [0, 0, 0];
  let [nextWaiting, came] = [0, 0];

  const createSlot = (index: number): Slot => {
    const limits = { batchSize, windowSeconds, clock, bytesOf: () => 0 };
    const gather = createGather<number>(limits, ({ records }) => run(slot, records));
    const slot: Slot = { index, gather, isRunning: false, isInTurn: false };
    return slot;
  };
  const putInTurn = (slot: Slot): void => {
    if (slot.isInTurn || slot.isRunning) return;
    slot.isInTurn = true;
    inTurn.push(slot);
  };
  const run = (slot: Slot, batch: readonly number[]): void => {
    const ms = invocationMs(batch.length);
    if ((batch.at(-1) as number) >= from) {
      for (const index of batch) if (index >= from) ages[aged++] = clock.now() + ms - (arrivals[index] as number);
      sizes.set(batch.length, (sizes.get(batch.length) ?? 0) + 1);
      messages += batch.length;
      invocations += 1;
    }
    slot.isRunning = true;
    clock.after(ms, () => {
      slot.isRunning = false;
      scale();
      putInTurn(slot);
      receive();
    });
  };
  const receive = (): void => {
    while (nextWaiting < came) {
      const slot = inTurn.shift();
      if (slot === undefined) return;
      slot.isInTurn = false;
      const { gather } = slot;
      // The mapping removes slots that gather nothing.
      if (slot.isRunning || (gather.size() === 0 && slot.index >= Math.floor(limit))) continue;
      const end = Math.min(came, nextWaiting + Math.min(batchSize - gather.size(), MESSAGES_A_POLL));
      const received: number[] = [];
      while (nextWaiting < end) received.push(nextWaiting++);
      gather.add(received);
      putInTurn(slot);
    }
  };
  const scale = (): void => {
    const change = ((clock.now() - limitedAtMs) * INVOCATIONS_ADDED_PER_MINUTE) / 60_000;
    const before = Math.floor(limit);
    limitedAtMs = clock.now();
    limit = nextWaiting < came ? Math.min(maximumConcurrency, limit + change) : Math.max(min, limit - change);
    if (slots.length > 0 && Math.floor(limit) <= before) return;
    while (slots.length < Math.floor(limit)) slots.push(createSlot(slots.length));
    for (const slot of slots.slice(0, Math.floor(limit))) putInTurn(slot);
  };

  for (const arrivedMs of arrivals) {
    clock.passUntil(arrivedMs);
    scale();
    came += 1;
    receive();
  }
  clock.passUntil(Number.POSITIVE_INFINITY);
  const sorted = ages.subarray(0, aged).sort();
  return {
    /** Time from a message's arrival to the end of its invocation: the median and the 99th percentile. */
    p50Ms: quantile(sorted, 0.5),
    p99Ms: quantile(sorted, 0.99),
    sizes,
    messages,
    invocations,
  };
}

/** Creates a clock whose time passes at once. */
function createVirtualClock(startMs: number): Clock & { passUntil(ms: number): void } {
  let nowMs = startMs;
  /** Timers, the soonest first. */
  const timers: { readonly atMs: number; readonly act: () => void }[] = [];
  return {
    now: () => nowMs,
    after(ms, act) {
      const timer = { atMs: nowMs + ms, act };
      let place = timers.length;
      while (place > 0 && (timers[place - 1] as typeof timer).atMs > timer.atMs) place -= 1;
      timers.splice(place, 0, timer);
      return () => {
        const at = timers.indexOf(timer);
        if (at >= 0) timers.splice(at, 1);
      };
    },
    passUntil(ms) {
      for (let next = timers[0]; next !== undefined && next.atMs <= ms; next = timers[0]) {
        timers.shift();
        nowMs = next.atMs;
        next.act();
      }
      if (ms < Number.POSITIVE_INFINITY) nowMs = ms;
    },
  };
}

/** Returns the smallest sorted value that at least `share` of the values do not exceed. It is NaN if there are none. */
export function quantile(sorted: Float64Array, share: number): number {
  return sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? Number.NaN;
}

export type Arrivals = ReturnType<typeof poissonArrivals>;

/** Seed for all candidates, so that only their settings differ. */
const SEED = 20_261_122;
/** Share of the messages during which the queue settles. */
const SETTLING_SHARE = 0.1;

/**
 * Returns the arrivals of a Poisson process with `perSecond` messages on average, in ascending milliseconds, and the
 * index of the first message that counts. They are the same for each call.
 */
export function poissonArrivals(perSecond: number, count: number) {
  const next = randomNumbers(SEED);
  const times = new Float64Array(count);
  let nowMs = 0;
  for (let index = 0; index < count; index++) {
    nowMs -= (1000 * Math.log(1 - next())) / perSecond;
    times[index] = nowMs;
  }
  return { times, perSecond, from: Math.floor(SETTLING_SHARE * count) };
}

/**
 * Creates a generator of uniform numbers in [0, 1): mulberry32.
 *
 * @see https://gist.github.com/tommyettinger/46a874533244883189143505d203312c
 */
function randomNumbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
