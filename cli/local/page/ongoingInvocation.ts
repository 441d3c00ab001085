import type { MicroBatchReport } from '../../../lambda/core/observer.ts';
import type { MessageRecord, Outcome } from '../../../lambda/core/record.ts';
import type { Batch } from '../gather.ts';
import { type Purpose, purposeOf } from './ownMessages.ts';
import type { AnswerSeen, InvocationSeen, MicroBatchSeen, ResultSeen } from './wire.ts';

/** An invocation while it goes on. */
export interface OngoingInvocation {
  readonly number: number;
  /** Undefined for messages that the page did not send. */
  purposeOf(messageId: string): Purpose | undefined;
  /** When a message was sent, in milliseconds since 1970. */
  sentAt(messageId: string): number;
  microBatch(report: MicroBatchReport, records: () => readonly number[]): void;
  decoded(ms: number): void;
  written(ms: number): void;
  outcomes(outcomes: readonly Outcome[]): void;
  answered(result: ResultSeen): void;
  /** @returns what it was, and what became of the messages somebody asked by */
  end(): { readonly seen: InvocationSeen; readonly answers: readonly AnswerSeen[] };
}

/** Micro-batches of an invocation that are kept one by one. */
export const MOST_MICRO_BATCHES = 32;

interface Asked {
  microBatch?: number;
  result?: ResultSeen;
}

/** @param now milliseconds since 1970 */
export function createOngoingInvocation(
  number: number,
  { records, closedBecause }: Batch,
  batchSize: number,
  now: () => number,
): OngoingInvocation {
  const at = now();
  const own = new Map<string, Purpose>();
  const sentAt = new Map<string, number>();
  const asked = new Map<string, Asked>();
  for (const record of records) {
    const purpose = purposeOf(record);
    if (purpose !== undefined) own.set(record.messageId, purpose);
    if (purpose === 'ask') asked.set(record.messageId, {});
    sentAt.set(record.messageId, Number(record.attributes.SentTimestamp));
  }
  const microBatches: MicroBatchSeen[] = [];
  const counts = { decodeMs: 0, writeMs: 0, answered: 0, errors: 0, retried: 0, runs: 0, rows: 0, paddedRows: 0 };
  const sentAtOf = (messageId: string): number => sentAt.get(messageId) ?? at;

  return {
    number,
    purposeOf: (messageId) => own.get(messageId),
    sentAt: sentAtOf,
    microBatch(report, indices) {
      counts.runs += 1;
      counts.rows += report.rows;
      counts.paddedRows += report.paddedRows;
      if (microBatches.length === MOST_MICRO_BATCHES) return;
      microBatches.push(report);
      if (asked.size === 0) return;
      for (const index of indices()) {
        const one = asked.get(records[index]?.messageId ?? '');
        if (one !== undefined) one.microBatch ??= microBatches.length - 1;
      }
    },
    decoded: (ms) => {
      counts.decodeMs += ms;
    },
    written: (ms) => {
      counts.writeMs += ms;
    },
    outcomes(outcomes) {
      for (const outcome of outcomes) {
        if (outcome.status === 'retry') counts.retried += 1;
        else {
          counts.answered += 1;
          counts.errors += outcome.failures.length;
        }
      }
    },
    answered(result) {
      const one = asked.get(result.messageId);
      if (one !== undefined) one.result = result;
    },
    end() {
      const oldest = records.reduce((least, { messageId }) => Math.min(least, sentAtOf(messageId)), at);
      const seen: InvocationSeen = {
        number,
        at,
        records: records.length,
        batchSize,
        closedBecause,
        waitedMs: at - oldest,
        durationMs: now() - at,
        cameBefore: records.filter(cameBefore).length,
        ...counts,
        microBatches,
      };
      const answers = [...asked].map(([messageId, { result, microBatch }]) => ({
        messageId,
        result,
        waitedMs: at - sentAtOf(messageId),
        answeredMs: result === undefined ? undefined : result.at - sentAtOf(messageId),
        invocation: seen,
        microBatch,
      }));
      return { seen, answers };
    },
  };
}

function cameBefore({ attributes }: MessageRecord): boolean {
  return Number(attributes.ApproximateReceiveCount) > 1;
}
