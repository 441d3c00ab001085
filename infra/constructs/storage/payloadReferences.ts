import { retentionDaysOf } from './known.ts';
import { DEAD_LETTER_RETENTION_DAYS, type ExistingQueue, RETENTION_DAYS, useRequestQueue } from './requestQueue.ts';
import { RESULT_RETENTION_DAYS, type ResultStore, type ResultStores } from './resultStores.ts';

/** How long what points into the payload bucket stays; undefined where nothing does, or the CDK does not know. */
export interface PayloadReferences {
  readonly fifo: boolean;
  readonly requestDays: number | undefined;
  readonly deadLetterDays: number | undefined;
  readonly resultQueueDays: number | undefined;
  /** Of results in the table. */
  readonly resultTtlSeconds: number | undefined;
}

interface Settings {
  readonly fifo: boolean;
  readonly results: readonly ResultStore[];
  readonly resultTtlSeconds: number;
}

/** Results in the bucket are whole: they point to nothing. */
export function payloadReferences(
  existing: ExistingQueue | undefined,
  { resultQueue }: ResultStores,
  { fifo, results, resultTtlSeconds }: Settings,
): PayloadReferences {
  const given = existing && useRequestQueue(existing);
  const ofResults = resultQueue === undefined ? RESULT_RETENTION_DAYS : retentionDaysOf(resultQueue);
  return {
    fifo,
    requestDays: existing === undefined ? RETENTION_DAYS : retentionDaysOf(existing.queue),
    deadLetterDays: given === undefined ? DEAD_LETTER_RETENTION_DAYS : retentionDaysOf(given.deadLetterQueue),
    resultQueueDays: results.includes('queue') ? ofResults : undefined,
    resultTtlSeconds: results.includes('table') ? resultTtlSeconds : undefined,
  };
}
