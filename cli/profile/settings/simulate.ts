import { INVOCATIONS_ADDED_PER_MINUTE, INVOCATIONS_AT_FIRST } from '../../../lambda/core/limits.ts';

/** How messages become invocations. */
export interface Mapping {
  /** Most messages of an invocation. */
  readonly batchSize: number;
  readonly windowMs: number;
  /** Most invocations at a time. */
  readonly maximumConcurrency: number;
}

/** Milliseconds that an invocation with so many messages takes. */
export type InvocationMs = (messages: number) => number;

const NEVER = Number.POSITIVE_INFINITY;
const NOT_OPEN = Number.NaN;

/**
 * Simulates the event source mapping of a standard queue, from one event to the next. It has slots, each of which gathers
 * a batch and then runs it: five, more while messages are left waiting and fewer once none are, as AWS documents it, and
 * no more than the maximum concurrency. As AWS does not document it, it assumes that the slots that
 * gather take messages in turn, at once, and that slots go as fast as they come. It begins with as many as the traffic keeps
 * busy. Every invocation succeeds.
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
  const tally = createTally(arrivals, from);
  const atFirst = Math.min(INVOCATIONS_AT_FIRST, maximumConcurrency);
  const [windowEnds, runEnds] = [createEventQueue(), createEventQueue()];
  /** By slot: the messages that it has gathered, when its window ends, whether it runs, whether it is in turn. */
  const members: number[][] = [];
  const windowEndsMs: number[] = [];
  const isRunning: boolean[] = [];
  const isInTurn: boolean[] = [];
  /** Slots that take messages, whose turn it is first; some may be running by now. */
  const inTurn: number[] = [];
  /** Slots that the mapping has taken away. */
  const away: number[] = [];
  const spanMs = (arrivals.at(-1) ?? 0) - (arrivals[0] ?? 0);
  const busy = (arrivals.length / spanMs) * (invocationMs(batchSize) / batchSize);
  let slots = Math.min(maximumConcurrency, Math.max(atFirst, Math.ceil(busy)));
  let changedMs = arrivals[0] ?? 0;
  let [nextWaiting, came] = [0, 0];

  const putInTurn = (slot: number): void => {
    if (!isInTurn[slot]) inTurn.push(slot);
    isInTurn[slot] = true;
  };
  const run = (slot: number, nowMs: number): void => {
    const batch = members[slot] as number[];
    const endMs = nowMs + invocationMs(batch.length);
    tally.add(batch, endMs);
    members[slot] = [];
    windowEndsMs[slot] = NOT_OPEN;
    isRunning[slot] = true;
    runEnds.add(endMs, slot);
  };
  const take = (slot: number, count: number, nowMs: number): void => {
    const batch = members[slot] as number[];
    if (batch.length === 0 && windowMs > 0) {
      windowEndsMs[slot] = nowMs + windowMs;
      windowEnds.add(nowMs + windowMs, slot);
    }
    for (let taken = 0; taken < count; taken++) batch.push(nextWaiting++);
    if (batch.length === batchSize || windowMs === 0) run(slot, nowMs);
    else putInTurn(slot);
  };
  const receive = (nowMs: number): void => {
    while (nextWaiting < came) {
      const slot = inTurn.shift();
      if (slot === undefined) return;
      isInTurn[slot] = false;
      if (isRunning[slot]) continue;
      const gathered = (members[slot] as number[]).length;
      if (gathered === 0 && slot >= Math.floor(slots)) away.push(slot);
      else take(slot, Math.min(batchSize - gathered, came - nextWaiting, MESSAGES_A_TURN), nowMs);
    }
  };
  const grow = (nowMs: number): void => {
    const change = ((nowMs - changedMs) * INVOCATIONS_ADDED_PER_MINUTE) / 60_000;
    changedMs = nowMs;
    slots = nextWaiting < came ? Math.min(maximumConcurrency, slots + change) : Math.max(atFirst, slots - change);
    if (away.some((slot) => slot < Math.floor(slots))) {
      for (const slot of away.splice(0)) {
        if (slot < Math.floor(slots)) putInTurn(slot);
        else away.push(slot);
      }
    }
    for (let slot = members.length; slot < Math.floor(slots); slot++) {
      members.push([]);
      putInTurn(slot);
    }
  };
  const passUntil = (untilMs: number): void => {
    for (;;) {
      const nowMs = Math.min(windowEnds.nextMs, runEnds.nextMs);
      if (nowMs > untilMs || nowMs === NEVER) return;
      grow(nowMs);
      if (runEnds.nextMs <= windowEnds.nextMs) {
        const slot = runEnds.take();
        isRunning[slot] = false;
        putInTurn(slot);
      } else {
        const slot = windowEnds.take();
        if (windowEndsMs[slot] === nowMs) run(slot, nowMs);
      }
      receive(nowMs);
    }
  };
  for (const arrivedMs of arrivals) {
    passUntil(arrivedMs);
    grow(arrivedMs);
    came += 1;
    receive(arrivedMs);
  }
  passUntil(NEVER);
  return tally.course();
}

/** A slot receives so many in a call. @see https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_ReceiveMessage.html */
const MESSAGES_A_TURN = 10;

/** What is to happen, soonest first. */
interface EventQueue {
  /** When the next one is; Infinity where there is none. */
  readonly nextMs: number;
  add(atMs: number, slot: number): void;
  /** Takes the next one out. @returns its slot */
  take(): number;
}

/** Times are added nearly in order: each looks for its place from the end. */
function createEventQueue(): EventQueue {
  const times: number[] = [];
  const slots: number[] = [];
  let first = 0;
  return {
    get nextMs() {
      return times[first] ?? NEVER;
    },
    add(atMs, slot) {
      if (times.length === first || (times.at(-1) as number) <= atMs) {
        times.push(atMs);
        slots.push(slot);
        return;
      }
      let place = times.length - 1;
      while (place > first && (times[place - 1] as number) > atMs) place -= 1;
      times.splice(place, 0, atMs);
      slots.splice(place, 0, slot);
    },
    take() {
      const slot = slots[first++] as number;
      if (first > MAX_TAKEN) {
        times.splice(0, first);
        slots.splice(0, first);
        first = 0;
      }
      return slot;
    },
  };
}

/** Taken ones, before they are let go of. */
const MAX_TAKEN = 1_000;

/** What became of messages: how old they were when they were answered, and with how many others they were. */
export interface Course {
  /** From its arrival to the end of its invocation: of half of the messages, and of all but the oldest hundredth. */
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** How many invocations had so many messages, by their number. */
  readonly sizes: ReadonlyMap<number, number>;
  readonly messages: number;
  readonly invocations: number;
}

interface Tally {
  /** @param members messages of an invocation, as indexes of their arrivals, in order */
  add(members: readonly number[], endMs: number): void;
  course(): Course;
}

/** @param from messages before it are left out: the queue had not settled */
function createTally(arrivals: Float64Array, from: number): Tally {
  const ages = new Float64Array(arrivals.length);
  const sizes = new Map<number, number>();
  let [messages, invocations, seen] = [0, 0, 0];
  return {
    add(members, endMs) {
      if ((members.at(-1) as number) < from) return;
      for (const index of members) {
        if (index >= from) ages[seen++] = endMs - (arrivals[index] as number);
      }
      sizes.set(members.length, (sizes.get(members.length) ?? 0) + 1);
      messages += members.length;
      invocations += 1;
    },
    course() {
      const sorted = ages.subarray(0, seen).sort();
      return { p50Ms: quantile(sorted, 0.5), p99Ms: quantile(sorted, 0.99), sizes, messages, invocations };
    },
  };
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

/**
 * Messages that came at given times. All of them count: a trace may begin with its burst.
 *
 * @param times milliseconds, ascending, at least two that differ
 */
export function traceArrivals(times: Float64Array): Arrivals {
  const spanMs = (times.at(-1) as number) - (times[0] as number);
  return { times, perSecond: (1000 * (times.length - 1)) / spanMs, from: 0 };
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
