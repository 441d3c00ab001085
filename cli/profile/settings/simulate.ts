import { INVOCATIONS_ADDED_PER_MINUTE, INVOCATIONS_AT_FIRST } from '../../../lambda/core/limits.ts';
import { createEventQueue } from './eventQueue.ts';
import { type Course, createTally } from './tally.ts';

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
 * no more than the maximum concurrency. As AWS does not document it, it assumes, like bench/scale, that the slots that
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
