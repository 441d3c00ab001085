/** How many records a batch may hold, so that it ends well within its time. */
export interface Pace {
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
