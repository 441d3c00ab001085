import { modelHint } from '../core/body.ts';
import { type Clock, SYSTEM_CLOCK } from '../core/concurrency.ts';
import { type MessageRecord, orderingGroup } from '../core/record.ts';

export interface ModelQueuesOptions {
  readonly names: readonly string[];
  readonly queueOf: (record: MessageRecord) => string;
  readonly limitsOf: (queue: string) => GatherLimits;
  readonly depth: number;
  /** True to dispatch records together that were received together: on a FIFO queue they may be of one group. */
  readonly keepsTogether: boolean;
  /** Scores a batch. Resolves when its queue has room for another one. It must not throw. */
  readonly dispatch: (records: readonly MessageRecord[], queue: string) => Promise<void>;
  /** @default the system's clock */
  readonly clock?: Clock | undefined;
}

/** Received records that are not dispatched yet, by model, so that a slow model does not delay batches of others. */
interface ModelQueues {
  /** Adds the records of one poll, and dispatches full batches. */
  add(records: readonly MessageRecord[]): void;
  /** Ends all windows: from now on every pending record is due. */
  endWindow(): void;
  /**
   * Removes records that others may have received, and the rest of their message groups, to keep the order.
   * @returns removed records
   */
  drop(lost: ReadonlySet<MessageRecord>): MessageRecord[];
  /** Empties the queues. @returns removed records */
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

  /** Dispatches due batches as long as there is room, and sets a timer for the next window's end. */
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

/** Returns the names of the queues: one for all if there is one model, or if the order of records matters. */
export function queueNames(models: readonly { readonly name: string }[], isFifo: boolean): string[] {
  const names = new Set(models.map(({ name }) => name));
  return isFifo || names.size === 1 ? [OTHER] : [OTHER, ...names];
}

/** Queue of records that name no known model. */
const OTHER = '';
export function queueOf({ body }: MessageRecord, names: readonly string[]): string {
  const hint = names.length === 1 ? undefined : modelHint(body);
  return hint !== undefined && names.includes(hint) ? hint : OTHER;
}

/** Limit for the records of a batch, so that it ends well within its time. */
interface AdaptiveLimit {
  /** Returns a number of records from 1 to the batch size. */
  limitOf(queue: string): number;
  record(queue: string, records: number, ms: number): void;
}

/** Size of the first batch, before its speed is known. */
const FIRST_BATCH = 32;
/** Share of the time for one batch. The rest is for other batches of the model, and for retries. */
const SHARE_OF_TIME = 1 / 4;
/** Weight of the latest batch. */
const LATEST = 0.3;

/** @param timeoutMs maximum duration of one batch */
export function createAdaptiveLimit(batchSize: number, timeoutMs: number): AdaptiveLimit {
  const msPerRecord = new Map<string, number>();
  return {
    limitOf(queue) {
      const ms = msPerRecord.get(queue);
      const max = ms === undefined ? FIRST_BATCH : Math.floor((timeoutMs * SHARE_OF_TIME) / ms);
      return Math.max(1, Math.min(batchSize, max));
    },
    record(queue, records, ms) {
      const latest = ms / records;
      const before = msPerRecord.get(queue) ?? latest;
      msPerRecord.set(queue, before + LATEST * (latest - before));
    },
  };
}

interface Pending {
  readonly records: number;
  readonly bytes: number;
  /** Milliseconds since the first of them arrived. */
  readonly oldestAgeMs: number;
}

interface GatherLimits {
  readonly batchSize: number;
  readonly batchBytes: number;
  /** Maximum wait of a record for others. 0 means no wait. */
  readonly windowMs: number;
}

/**
 * Decides when pending records become a batch: by size or window, whichever comes first. No record waits longer than
 * the window.
 *
 * @returns milliseconds to wait if no other record arrives, or 0 for a batch
 */
export function gather({ records, bytes, oldestAgeMs }: Pending, limits: GatherLimits): number {
  const { batchSize, batchBytes, windowMs } = limits;
  if (records === 0) return Number.POSITIVE_INFINITY;
  return records >= batchSize || bytes >= batchBytes ? 0 : Math.max(0, windowMs - oldestAgeMs);
}
