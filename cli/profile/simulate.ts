import { INVOCATIONS_ADDED_PER_MINUTE, INVOCATIONS_AT_FIRST } from '../../lambda/core/limits.ts';

export interface Mapping {
  /** Most messages of an invocation. */
  readonly batchSize: number;
  readonly windowMs: number;
  /** Most invocations at a time. */
  readonly maximumConcurrency: number;
}

/** Milliseconds that an invocation with so many messages takes. */
export type InvocationMs = (messages: number) => number;

/** How old messages were when they were answered, and with how many others they were. */
export interface Course {
  /** From a message's arrival to the end of its invocation: of half of the messages, and of all but the oldest hundredth. */
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** Invocations by their number of messages. */
  readonly sizes: ReadonlyMap<number, number>;
  readonly messages: number;
  readonly invocations: number;
}

/** Gathers a batch and then runs it. */
interface Slot {
  readonly index: number;
  /** Indexes of the arrivals that it has gathered. */
  batch: number[];
  isRunning: boolean;
  /** True if it is among those that take messages in turn. */
  isInTurn: boolean;
  /** When its window or its run ends; NaN where it waits for a first message. */
  dueMs: number;
}

/** A slot receives so many in a call. @see https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_ReceiveMessage.html */
const MESSAGES_A_TURN = 10;

/**
 * Simulates the event source mapping of a standard queue. It has slots, each of which gathers a batch and then runs it:
 * five at first, more while messages are left waiting and fewer once none are, as AWS documents it, and no more than the
 * maximum concurrency. AWS does not document how messages are spread: slots that gather are taken to receive in turn and
 * without delay. The simulation begins with as many slots as the traffic keeps busy. Every invocation succeeds.
 *
 * @param arrivals milliseconds, ascending
 * @param from index of the first message that counts: before it the queue settles. @default 0
 * @see https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-scaling.html
 */
export function simulateMapping(
  arrivals: Float64Array,
  { batchSize, windowMs, maximumConcurrency }: Mapping,
  invocationMs: InvocationMs,
  from = 0,
): Course {
  const [firstMs, lastMs] = [arrivals[0] ?? 0, arrivals.at(-1) ?? 0];
  const min = Math.min(INVOCATIONS_AT_FIRST, maximumConcurrency);
  const busy = (arrivals.length / (lastMs - firstMs)) * (invocationMs(batchSize) / batchSize);
  let limit = Math.min(maximumConcurrency, Math.max(min, Math.ceil(busy)));
  let limitedAtMs = firstMs;
  const slots: Slot[] = [];
  const inTurn: Slot[] = [];
  /** Soonest first. One whose slot is due at another time by now no longer counts. */
  const events: { readonly atMs: number; readonly slot: Slot }[] = [];
  const ages = new Float64Array(arrivals.length);
  const sizes = new Map<number, number>();
  let [aged, messages, invocations] = [0, 0, 0];
  let [nextWaiting, came] = [0, 0];

  const putInTurn = (slot: Slot): void => {
    if (slot.isInTurn || slot.isRunning) return;
    slot.isInTurn = true;
    inTurn.push(slot);
  };
  const schedule = (slot: Slot, atMs: number): void => {
    slot.dueMs = atMs;
    let place = events.length;
    while (place > 0 && (events[place - 1] as { readonly atMs: number }).atMs > atMs) place -= 1;
    events.splice(place, 0, { atMs, slot });
  };
  const run = (slot: Slot, nowMs: number): void => {
    const { batch } = slot;
    const endMs = nowMs + invocationMs(batch.length);
    if ((batch.at(-1) as number) >= from) {
      for (const index of batch) if (index >= from) ages[aged++] = endMs - (arrivals[index] as number);
      sizes.set(batch.length, (sizes.get(batch.length) ?? 0) + 1);
      messages += batch.length;
      invocations += 1;
    }
    slot.batch = [];
    slot.isRunning = true;
    schedule(slot, endMs);
  };
  const receive = (nowMs: number): void => {
    while (nextWaiting < came) {
      const slot = inTurn.shift();
      if (slot === undefined) return;
      slot.isInTurn = false;
      const { batch, isRunning } = slot;
      // The mapping takes slots away that gather nothing.
      if (isRunning || (batch.length === 0 && slot.index >= Math.floor(limit))) continue;
      if (batch.length === 0 && windowMs > 0) schedule(slot, nowMs + windowMs);
      const end = Math.min(came, nextWaiting + Math.min(batchSize - batch.length, MESSAGES_A_TURN));
      while (nextWaiting < end) batch.push(nextWaiting++);
      if (batch.length === batchSize || windowMs === 0) run(slot, nowMs);
      else putInTurn(slot);
    }
  };
  const scale = (nowMs: number): void => {
    const change = ((nowMs - limitedAtMs) * INVOCATIONS_ADDED_PER_MINUTE) / 60_000;
    const before = Math.floor(limit);
    limitedAtMs = nowMs;
    limit = nextWaiting < came ? Math.min(maximumConcurrency, limit + change) : Math.max(min, limit - change);
    if (slots.length > 0 && Math.floor(limit) <= before) return;
    while (slots.length < Math.floor(limit)) {
      slots.push({ index: slots.length, batch: [], isRunning: false, isInTurn: false, dueMs: Number.NaN });
    }
    for (const slot of slots.slice(0, Math.floor(limit))) putInTurn(slot);
  };
  const passUntil = (untilMs: number): void => {
    for (let next = events[0]; next !== undefined && next.atMs <= untilMs; next = events[0]) {
      events.shift();
      const { atMs, slot } = next;
      if (slot.dueMs !== atMs) continue;
      scale(atMs);
      if (slot.isRunning) {
        slot.isRunning = false;
        slot.dueMs = Number.NaN;
        putInTurn(slot);
      } else run(slot, atMs);
      receive(atMs);
    }
  };

  for (const arrivedMs of arrivals) {
    passUntil(arrivedMs);
    scale(arrivedMs);
    came += 1;
    receive(arrivedMs);
  }
  passUntil(Number.POSITIVE_INFINITY);
  const sorted = ages.subarray(0, aged).sort();
  return { p50Ms: quantile(sorted, 0.5), p99Ms: quantile(sorted, 0.99), sizes, messages, invocations };
}

/** The value that a share of the sorted values does not exceed; NaN of none. */
export function quantile(sorted: Float64Array, share: number): number {
  return sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? Number.NaN;
}

/** When messages come. */
export interface Arrivals {
  /** Milliseconds, ascending. */
  readonly times: Float64Array;
  readonly perSecond: number;
  /** The first one that counts: before it the queue settles. */
  readonly from: number;
}

/** The same seed for every candidate: they differ by their settings alone. */
const SEED = 20_261_122;
/** Of the messages: until then the queue settles. */
const SETTLING_SHARE = 0.1;

/** Messages that come at random, so many a second on average: a Poisson process. The same ones each time. */
export function poissonArrivals(perSecond: number, count: number): Arrivals {
  const next = randomNumbers(SEED);
  const times = new Float64Array(count);
  let nowMs = 0;
  for (let index = 0; index < count; index++) {
    nowMs -= (1000 * Math.log(1 - next())) / perSecond;
    times[index] = nowMs;
  }
  return { times, perSecond, from: Math.floor(SETTLING_SHARE * count) };
}

/** Uniform in [0, 1): mulberry32. @see https://gist.github.com/tommyettinger/46a874533244883189143505d203312c */
function randomNumbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
