import type { SQSRecord } from 'aws-lambda';
import type { Batchscore } from '../contestants/batchscore.ts';

/** What the worker has in one batch, and how many batches it scores at the same time. */
const BATCH_RECORDS = 512;
const BATCH_BYTES = 32 * 1024 * 1024;
const DEPTH = 2;

/**
 * Scores records as the worker does: in batches, two at a time, so that one is decoded while the other runs.
 *
 * @param rows of a run: batches are whole runs
 */
export async function scoreInPipeline(
  batchscore: Batchscore,
  records: readonly SQSRecord[],
  rows: number,
): Promise<void> {
  const size = rows * Math.max(1, Math.floor(mostRecords(records) / rows));
  let next = 0;
  const lane = async (): Promise<void> => {
    while (next < records.length) {
      const batch = records.slice(next, next + size);
      next += batch.length;
      await batchscore.invoke(batch);
    }
  };
  await Promise.all(Array.from({ length: DEPTH }, lane));
}

function mostRecords([first]: readonly SQSRecord[]): number {
  return Math.min(BATCH_RECORDS, Math.floor(BATCH_BYTES / (first?.body.length ?? 1)));
}
