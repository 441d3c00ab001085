import type { MicroBatchReport } from '../contract/observer.ts';
import { elementsIn, elementsPerRowAt, type MicroBatch } from '../plan/microBatch.ts';

export type StageTimes = Pick<MicroBatchReport, 'stackMs' | 'runMs' | 'encodeMs'>;

/** What a run was, for metrics. */
export function reportOf(batch: MicroBatch, times: StageTimes): MicroBatchReport {
  const { model, parts, rows, paddedRows, paddedLength, closedBecause } = batch;
  return {
    model: model.name,
    version: model.version,
    requests: parts.length,
    rows,
    paddedRows,
    maxBatchRows: model.maxBatchRows,
    paddedLength,
    paddingShare: paddingShareOf(batch),
    closedBecause,
    ...times,
  };
}

/** The share of the elements run that nobody sent, from 0 to 1. */
function paddingShareOf(batch: MicroBatch): number {
  const { model, parts, rows, paddedRows } = batch;
  if (model.ragged === undefined) return 1 - rows / paddedRows;
  let sent = 0;
  for (const { request, fromRow, toRow } of parts) {
    sent += (toRow - fromRow) * elementsPerRowAt(request, request.length);
  }
  const run = elementsIn(batch);
  return run === 0 ? 0 : 1 - sent / run;
}
