import type { InvocationSeen, SecondSeen } from './wire.ts';

/** What happened, second by second. */
export interface Timeline {
  sent(messages: number): void;
  /** A message was answered so long after it was sent. */
  answered(ms: number): void;
  ended(invocation: InvocationSeen): void;
  /** The last seconds that are over, the newest last. */
  all(): readonly SecondSeen[];
  /** Those that have ended since this was called last. */
  takeNew(): readonly SecondSeen[];
}

/** Seconds that are kept: five minutes. */
export const SECONDS_KEPT = 300;
/** Times to answer that a second's percentiles are taken of; of more, a random choice. */
const MOST_TIMES = 512;

type Counts = { -readonly [name in Exclude<keyof SecondSeen, 'at' | 'p50Ms' | 'p99Ms'>]: number };

/** @param now milliseconds since 1970. @default the system's */
export function createTimeline(now: () => number = Date.now): Timeline {
  const over: SecondSeen[] = [];
  let at = secondOf(now());
  let counts = nothing();
  let times: number[] = [];
  let timesSeen = 0;
  let untaken = 0;

  const close = (): void => {
    times.sort((one, other) => one - other);
    over.push({ at, ...counts, p50Ms: quantile(times, 0.5), p99Ms: quantile(times, 0.99) });
    if (over.length > SECONDS_KEPT) over.shift();
    untaken = Math.min(untaken + 1, SECONDS_KEPT);
    at += 1;
    counts = nothing();
    times = [];
    timesSeen = 0;
  };
  const advance = (): void => {
    const second = secondOf(now());
    if (second - at > SECONDS_KEPT) at = second - SECONDS_KEPT;
    while (at < second) close();
  };
  return {
    sent(messages) {
      advance();
      counts.sent += messages;
    },
    answered(ms) {
      advance();
      timesSeen += 1;
      if (times.length < MOST_TIMES) times.push(ms);
      else {
        const index = Math.floor(Math.random() * timesSeen);
        if (index < MOST_TIMES) times[index] = ms;
      }
    },
    ended({ records, batchSize, answered, errors, retried, rows, paddedRows, runs }) {
      advance();
      const more = {
        answered,
        errors,
        retried,
        records,
        rows,
        paddedRows,
        runs,
        invocations: 1,
        room: batchSize,
        sent: 0,
      };
      for (const name of Object.keys(counts) as (keyof Counts)[]) counts[name] += more[name];
    },
    all() {
      advance();
      return [...over];
    },
    takeNew() {
      advance();
      const taken = untaken === 0 ? [] : over.slice(-untaken);
      untaken = 0;
      return taken;
    },
  };
}

function secondOf(ms: number): number {
  return Math.floor(ms / 1000);
}

function nothing(): Counts {
  return {
    sent: 0,
    answered: 0,
    errors: 0,
    retried: 0,
    invocations: 0,
    records: 0,
    room: 0,
    rows: 0,
    paddedRows: 0,
    runs: 0,
  };
}

/** @param sorted ascending */
function quantile(sorted: readonly number[], share: number): number | null {
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? null;
}
