import { modelHint } from '../core/body.ts';
import { type Clock, SYSTEM_CLOCK } from '../core/concurrency.ts';
import { type MessageRecord, orderingGroup } from '../core/record.ts';

export interface ModelQueuesOptions {
  readonly names: readonly string[];
  readonly queueOf: (record: MessageRecord) => string;
  /** What makes a batch of a queue now. */
  readonly limitsOf: (queue: string) => GatherLimits;
  /** Batches of a queue that are scored at the same time at most. */
  readonly depth: number;
  /** True if records that were received together are dispatched together: on a FIFO queue they may be of one group. */
  readonly keepsTogether: boolean;
  /** Scores a batch. Resolves when its queue has room for another; must not throw. */
  readonly dispatch: (records: readonly MessageRecord[], queue: string) => Promise<void>;
  /** @default the system's */
  readonly clock?: Clock | undefined;
}

/** What is received and not dispatched yet, by model: a slow model does not hold up the batches of others. */
interface ModelQueues {
  /** Takes what one poll returned, and dispatches what that makes due. */
  add(records: readonly MessageRecord[]): void;
  /** From now on no record waits for others: all that is pending is due. */
  endWindow(): void;
  /**
   * Forgets records that others may have received by now, and all of their message groups: none is scored before one
   * that was ahead of it. @returns what it forgot
   */
  drop(lost: ReadonlySet<MessageRecord>): MessageRecord[];
  /** Empties the queues: none of what they held is dispatched. */
  takeAll(): MessageRecord[];
  pending(): { readonly records: number; readonly bytes: number };
  /** Resolves when no batch is being scored. */
  idle(): Promise<void>;
}

interface Entry {
  readonly record: MessageRecord;
  readonly receive: { readonly at: number };
}

interface ModelQueue {
  readonly name: string;
  waiting: Entry[];
  bytes: number;
  underWay: number;
  cancelTimer: () => void;
}

export function createModelQueues(options: ModelQueuesOptions): ModelQueues {
  const { names, queueOf, limitsOf, depth, keepsTogether, dispatch, clock = SYSTEM_CLOCK } = options;
  const modelQueues = new Map(names.map((name): [string, ModelQueue] => [name, emptyQueue(name)]));
  const allIdle = new Set<() => void>();
  let hasWindow = true;
  const underWay = (): number => sum(modelQueues.values(), (queue) => queue.underWay);

  /** Dispatches what is due, as long as there is room in the pipe, and looks again when the next window ends. */
  const consider = (queue: ModelQueue): void => {
    queue.cancelTimer();
    while (queue.underWay < depth) {
      const [oldest] = queue.waiting;
      const pending = {
        records: queue.waiting.length,
        bytes: queue.bytes,
        oldestAgeMs: oldest === undefined ? 0 : clock.now() - oldest.receive.at,
      };
      const limits = limitsOf(queue.name);
      const waitMs = gather(pending, hasWindow ? limits : { ...limits, windowMs: 0 });
      if (waitMs > 0) {
        if (oldest !== undefined) queue.cancelTimer = clock.after(waitMs, () => consider(queue));
        return;
      }
      void start(queue, take(queue, limits));
    }
  };
  const take = (queue: ModelQueue, { batchSize, batchBytes }: GatherLimits): MessageRecord[] => {
    let [count, bytes] = [0, 0];
    for (const { record, receive } of queue.waiting) {
      const isFull = count >= batchSize || bytes >= batchBytes;
      if (isFull && !(keepsTogether && queue.waiting[count - 1]?.receive === receive)) break;
      count += 1;
      bytes += record.body.length;
    }
    queue.bytes -= bytes;
    return queue.waiting.splice(0, count).map(({ record }) => record);
  };
  const start = async (queue: ModelQueue, records: readonly MessageRecord[]): Promise<void> => {
    queue.underWay += 1;
    await dispatch(records, queue.name);
    queue.underWay -= 1;
    look();
    if (underWay() === 0) for (const resolve of allIdle) resolve();
  };
  const look = (): void => {
    for (const queue of modelQueues.values()) consider(queue);
  };
  return {
    add(records) {
      const receive = { at: clock.now() };
      for (const record of records) {
        const queue = modelQueues.get(queueOf(record)) as ModelQueue;
        queue.waiting.push({ record, receive });
        queue.bytes += record.body.length;
      }
      look();
    },
    endWindow() {
      hasWindow = false;
      look();
    },
    drop(lost) {
      const groups = new Set(Array.from(lost, orderingGroup));
      groups.delete(undefined);
      const isLost = ({ record }: Entry): boolean => lost.has(record) || groups.has(orderingGroup(record));
      return [...modelQueues.values()].flatMap((queue) => {
        const forgotten = queue.waiting.filter(isLost);
        queue.waiting = queue.waiting.filter((entry) => !isLost(entry));
        queue.bytes = sum(queue.waiting, ({ record }) => record.body.length);
        return forgotten.map(({ record }) => record);
      });
    },
    takeAll() {
      return [...modelQueues.values()].flatMap((queue) => {
        queue.cancelTimer();
        queue.bytes = 0;
        return queue.waiting.splice(0).map(({ record }) => record);
      });
    },
    pending: () => ({
      records: sum(modelQueues.values(), (queue) => queue.waiting.length),
      bytes: sum(modelQueues.values(), (queue) => queue.bytes),
    }),
    async idle() {
      if (underWay() === 0) return;
      const { promise, resolve } = Promise.withResolvers<void>();
      allIdle.add(resolve);
      await promise;
    },
  };
}

function emptyQueue(name: string): ModelQueue {
  return { name, waiting: [], bytes: 0, underWay: 0, cancelTimer: () => {} };
}

function sum<T>(items: Iterable<T>, value: (item: T) => number): number {
  let total = 0;
  for (const item of items) total += value(item);
  return total;
}

/** One queue for all where it would be of no use, or where the order of records matters. */
export function queueNames(models: readonly { readonly name: string }[], isFifo: boolean): string[] {
  const names = new Set(models.map(({ name }) => name));
  return isFifo || names.size === 1 ? [OTHER] : [OTHER, ...names];
}

/** The queue of records that name no model that there is. */
const OTHER = '';
export function queueOf({ body }: MessageRecord, names: readonly string[]): string {
  const hint = names.length === 1 ? undefined : modelHint(body);
  return hint !== undefined && names.includes(hint) ? hint : OTHER;
}

/** How many records a batch may hold, so that it ends well within its time. */
interface AdaptiveLimit {
  /** Records, from 1 to the batch size. */
  limitOf(queue: string): number;
  took(queue: string, records: number, ms: number): void;
}

/** What is not known yet is found out with few. */
const FIRST_BATCH = 32;
/** A batch has to share its model with those before it, and its time with retries. */
const SHARE_OF_TIME = 1 / 4;
/** The weight of the latest batch. */
const LATEST = 0.3;

/** @param timeoutMs most milliseconds that one batch may take */
export function createAdaptiveLimit(batchSize: number, timeoutMs: number): AdaptiveLimit {
  const msPerRecord = new Map<string, number>();
  return {
    limitOf(queue) {
      const ms = msPerRecord.get(queue);
      const max = ms === undefined ? FIRST_BATCH : Math.floor((timeoutMs * SHARE_OF_TIME) / ms);
      return Math.max(1, Math.min(batchSize, max));
    },
    took(queue, records, ms) {
      const latest = ms / records;
      const before = msPerRecord.get(queue) ?? latest;
      msPerRecord.set(queue, before + LATEST * (latest - before));
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

/**
 * Returns true if what is pending makes a batch: size or window, whichever comes first. A lone record is never kept for
 * longer than the window, and with a window of 0 not at all. Nothing pending waits for ever.
 *
 * @returns milliseconds to wait if nothing else comes; 0: it is a batch
 */
export function gather({ records, bytes, oldestAgeMs }: Pending, limits: GatherLimits): number {
  const { batchSize, batchBytes, windowMs } = limits;
  if (records === 0) return Number.POSITIVE_INFINITY;
  return records >= batchSize || bytes >= batchBytes ? 0 : Math.max(0, windowMs - oldestAgeMs);
}
