import { createEventQueue } from './eventQueue.ts';
import type { InvocationMs, Mapping } from './simulate.ts';
import { type Course, createTally } from './tally.ts';

// Looked up once: the global object of a test is slow.
const { min } = Math;
const NEVER = Number.POSITIVE_INFINITY;

/**
 * Simulates the event source mapping of the local host, `npm run dev` and `npm start`: one batch is gathered for all
 * invocations, and one ahead while all are busy. Nothing is received while a closed batch waits for an invocation.
 *
 * @param arrivals milliseconds, ascending
 */
export function simulateHost(
  arrivals: Float64Array,
  { batchSize, windowMs, maximumConcurrency }: Mapping,
  invocationMs: InvocationMs,
): Course {
  const tally = createTally(arrivals, 0);
  const runEnds = createEventQueue();
  let open: number[] = [];
  let closed: number[] | undefined;
  let windowEndsMs = NEVER;
  let [nextWaiting, came, running] = [0, 0, 0];

  const run = (batch: readonly number[], nowMs: number): void => {
    const endMs = nowMs + invocationMs(batch.length);
    tally.add(batch, endMs);
    running += 1;
    runEnds.add(endMs, 0);
  };
  const close = (nowMs: number): void => {
    const batch = open;
    open = [];
    windowEndsMs = NEVER;
    if (running < maximumConcurrency) run(batch, nowMs);
    else closed = batch;
  };
  const receive = (nowMs: number): void => {
    while (nextWaiting < came && closed === undefined) {
      if (open.length === 0 && windowMs > 0) windowEndsMs = nowMs + windowMs;
      open.push(nextWaiting++);
      const isPollOver = windowMs === 0 && nextWaiting === came;
      if (open.length === batchSize || isPollOver) close(nowMs);
    }
  };
  const passUntil = (untilMs: number): void => {
    for (;;) {
      const nowMs = min(windowEndsMs, runEnds.nextMs);
      if (nowMs > untilMs || nowMs === NEVER) return;
      if (nowMs < windowEndsMs) {
        runEnds.take();
        running -= 1;
        const batch = closed;
        closed = undefined;
        if (batch !== undefined) run(batch, nowMs);
      } else close(nowMs);
      receive(nowMs);
    }
  };
  for (const arrivedMs of arrivals) {
    passUntil(arrivedMs);
    came += 1;
    receive(arrivedMs);
  }
  passUntil(NEVER);
  return tally.course();
}
