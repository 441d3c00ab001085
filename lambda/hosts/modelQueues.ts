import { type Clock, SYSTEM_CLOCK } from '../aws/clock.ts';
import { deferred } from '../core/concurrency.ts';
import type { MessageRecord } from '../core/record.ts';

export interface LanesOptions {
  readonly names: readonly string[];
  readonly laneOf: (record: MessageRecord) => string;
  readonly limits: GatherLimits;
  /** Records that a batch of a lane may hold now, at most the batch size. */
  readonly mostOf: (lane: string) => number;
  /** Batches of a lane that are scored at the same time at most. */
  readonly depth: number;
  /** Whether records that were received together are dispatched together: on a FIFO queue they may be of one group. */
  readonly keepsTogether: boolean;
  /** Scores a batch. Resolves when its lane has room for another; must not throw. */
  readonly dispatch: (records: readonly MessageRecord[], lane: string) => Promise<void>;
  /** @default the system's */
  readonly clock?: Clock | undefined;
}

/** What is received and not dispatched yet, by model: a slow model does not hold up the batches of others. */
export interface Lanes {
  /** Takes what one poll returned, and dispatches what that makes due. */
  add(records: readonly MessageRecord[]): void;
  /** From now on no record waits for others: all that is pending is due. */
  endWindow(): void;
  /** Forgets records that others may have received by now. */
  drop(lost: ReadonlySet<MessageRecord>): void;
  /** Empties the lanes: none of what they held is dispatched. */
  takeAll(): MessageRecord[];
  /** What is pending in all lanes. */
  pending(): { readonly records: number; readonly bytes: number };
  /** Resolves when no batch is being scored. */
  idle(): Promise<void>;
}

interface Entry {
  readonly record: MessageRecord;
  readonly receive: { readonly at: number };
}

interface Lane {
  readonly name: string;
  waiting: Entry[];
  bytes: number;
  underWay: number;
  cancelTimer: () => void;
}

export function createLanes(options: LanesOptions): Lanes {
  const { names, laneOf, limits, mostOf, depth, keepsTogether, dispatch, clock = SYSTEM_CLOCK } = options;
  const lanes = new Map(names.map((name): [string, Lane] => [name, emptyLane(name)]));
  const allIdle = new Set<() => void>();
  let windowMs = limits.windowMs;
  const underWay = (): number => sum(lanes.values(), (lane) => lane.underWay);

  /** Dispatches what is due, as long as there is room in the pipe, and looks again when the next window ends. */
  const consider = (lane: Lane): void => {
    lane.cancelTimer();
    while (lane.underWay < depth) {
      const [oldest] = lane.waiting;
      const pending = {
        records: lane.waiting.length,
        bytes: lane.bytes,
        oldestAgeMs: oldest === undefined ? 0 : clock.now() - oldest.receive.at,
      };
      const batchSize = mostOf(lane.name);
      const decision = gather(pending, { ...limits, windowMs, batchSize });
      if (!decision.dispatch) {
        if (oldest !== undefined) lane.cancelTimer = clock.after(decision.waitMs, () => consider(lane));
        return;
      }
      void start(lane, take(lane, batchSize));
    }
  };
  const take = (lane: Lane, batchSize: number): MessageRecord[] => {
    let [count, bytes] = [0, 0];
    for (const { record, receive } of lane.waiting) {
      const isFull = count >= batchSize || bytes >= limits.batchBytes;
      if (isFull && !(keepsTogether && lane.waiting[count - 1]?.receive === receive)) break;
      count += 1;
      bytes += record.body.length;
    }
    lane.bytes -= bytes;
    return lane.waiting.splice(0, count).map(({ record }) => record);
  };
  const start = async (lane: Lane, records: readonly MessageRecord[]): Promise<void> => {
    lane.underWay += 1;
    await dispatch(records, lane.name);
    lane.underWay -= 1;
    consider(lane);
    if (underWay() === 0) for (const resolve of allIdle) resolve();
  };
  return {
    add(records) {
      const receive = { at: clock.now() };
      const touched = new Set<Lane>();
      for (const record of records) {
        const lane = lanes.get(laneOf(record)) as Lane;
        lane.waiting.push({ record, receive });
        lane.bytes += record.body.length;
        touched.add(lane);
      }
      touched.forEach(consider);
    },
    endWindow() {
      windowMs = 0;
      for (const lane of lanes.values()) consider(lane);
    },
    drop(lost) {
      for (const lane of lanes.values()) {
        lane.waiting = lane.waiting.filter(({ record }) => !lost.has(record));
        lane.bytes = sum(lane.waiting, ({ record }) => record.body.length);
      }
    },
    takeAll() {
      return [...lanes.values()].flatMap((lane) => {
        lane.cancelTimer();
        lane.bytes = 0;
        return lane.waiting.splice(0).map(({ record }) => record);
      });
    },
    pending: () => ({
      records: sum(lanes.values(), (lane) => lane.waiting.length),
      bytes: sum(lanes.values(), (lane) => lane.bytes),
    }),
    async idle() {
      if (underWay() === 0) return;
      const { promise, resolve } = deferred();
      allIdle.add(resolve);
      await promise;
    },
  };
}

function emptyLane(name: string): Lane {
  return { name, waiting: [], bytes: 0, underWay: 0, cancelTimer: () => {} };
}

function sum<T>(items: Iterable<T>, value: (item: T) => number): number {
  let total = 0;
  for (const item of items) total += value(item);
  return total;
}

/** How many records a batch may hold, so that it ends well within its time. */
interface Pace {
  /** Records, from 1 to the batch size. */
  mostOf(lane: string): number;
  took(lane: string, records: number, ms: number): void;
}

/** What is not known yet is found out with few. */
const FIRST_BATCH = 32;
/** A batch has to share its model with those before it, and its time with retries. */
const SHARE_OF_TIME = 1 / 4;
/** The weight of the latest batch. */
const LATEST = 0.3;

/** @param timeoutMs most milliseconds that one batch may take */
export function createPace(batchSize: number, timeoutMs: number): Pace {
  const msPerRecord = new Map<string, number>();
  return {
    mostOf(lane) {
      const ms = msPerRecord.get(lane);
      const most = ms === undefined ? FIRST_BATCH : Math.floor((timeoutMs * SHARE_OF_TIME) / ms);
      return Math.max(1, Math.min(batchSize, most));
    },
    took(lane, records, ms) {
      const latest = ms / records;
      const before = msPerRecord.get(lane) ?? latest;
      msPerRecord.set(lane, before + LATEST * (latest - before));
    },
  };
}

/** What waits for a dispatch. */
interface Pending {
  readonly records: number;
  /** Of their bodies. */
  readonly bytes: number;
  /** Milliseconds since the first of them came. */
  readonly oldestAgeMs: number;
}

interface GatherLimits {
  /** Records that fill a batch, at least 1. */
  readonly batchSize: number;
  /** Bytes of bodies that fill a batch. */
  readonly batchBytes: number;
  /** Longest wait of a record for others. 0: it waits for none. */
  readonly windowMs: number;
}

/** Dispatch, and why; or wait, and for how long if nothing else comes. */
type GatherDecision =
  | { readonly dispatch: true; readonly because: 'full' | 'bytes' | 'window' }
  | { readonly dispatch: false; readonly waitMs: number };

/**
 * Whether what is pending makes a batch: size or window, whichever comes first. A lone record is never kept for longer
 * than the window, and with a window of 0 not at all. Nothing pending waits for ever.
 */
export function gather({ records, bytes, oldestAgeMs }: Pending, limits: GatherLimits): GatherDecision {
  const { batchSize, batchBytes, windowMs } = limits;
  if (records === 0) return { dispatch: false, waitMs: Number.POSITIVE_INFINITY };
  if (records >= batchSize) return { dispatch: true, because: 'full' };
  if (bytes >= batchBytes) return { dispatch: true, because: 'bytes' };
  if (oldestAgeMs >= windowMs) return { dispatch: true, because: 'window' };
  return { dispatch: false, waitMs: windowMs - oldestAgeMs };
}

/** Producers write the name among the first fields; behind a long tensor it is not looked for. */
const HEAD_CHARACTERS = 512;
const MODEL_NAME = /"model_name"\s*:\s*"([^"\\]+)"/;

/**
 * The model that a body seems to name, without decoding it; undefined where none is seen. It may be wrong, as in a
 * packed message for several models: a hint says what is batched together, and decoding says what is scored.
 */
export function modelHint(body: string): string | undefined {
  return MODEL_NAME.exec(body.slice(0, HEAD_CHARACTERS))?.[1];
}
