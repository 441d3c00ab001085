import { deferred } from '../core/base/deferred.ts';
import type { TransientCode } from '../core/contract/failure.ts';
import type { MessageRecord } from '../core/contract/record.ts';
import type { Outcome } from '../core/contract/result.ts';
import type { ScoringDependencies } from '../core/scoreRecords.ts';
import { outageIn } from '../core/settle/outageWatch.ts';
import { scoreOrHandBack } from './scoreOrHandBack.ts';

/** Something that is done to records at SQS. Never throws. */
export type OnRecords = (records: readonly MessageRecord[]) => Promise<unknown>;

export interface DispatcherOptions {
  readonly scoring: ScoringDependencies;
  /** Most milliseconds that a batch may take. */
  readonly timeoutMs: number;
  /** Deletes what was answered. */
  readonly acknowledge: OnRecords;
  /** Has records come back after a backoff. */
  readonly delayRetries: OnRecords;
  /** Has records of a batch that met an outage come back after a longer one. */
  readonly sitOut: OnRecords;
  /** Has records come back at once. */
  readonly handBack: OnRecords;
  /** Told the outcome of every record of a batch, once it is scored. */
  readonly onScored: (outcomes: readonly Outcome[], records: readonly MessageRecord[]) => void;
  /** Told of records that SQS was told about, as well as it could be. */
  readonly onSettled: (records: readonly MessageRecord[]) => void;
}

/** Scores batches, and tells SQS what became of their records. */
export interface Dispatcher {
  /** Scores a batch. Resolves when its results are written; its deletes go on. Never throws. */
  dispatch(records: readonly MessageRecord[]): Promise<void>;
  /**
   * From now on what does not end within so many milliseconds is handed back. Resolves when what runs is cut short:
   * there is no time for another batch.
   */
  endWithin(ms: number): Promise<void>;
  /** Resolves when SQS was told of all that was scored. */
  settled(): Promise<void>;
}

/** There was no time for the record, or for one before it in its message group: nothing failed, so nothing waits. */
const UNSCORED: ReadonlySet<TransientCode> = new Set(['DEADLINE', 'BEHIND_RETRY']);

export function createDispatcher(options: DispatcherOptions): Dispatcher {
  const { scoring, timeoutMs, acknowledge, delayRetries, sitOut, handBack, onScored, onSettled } = options;
  const writingMs = scoring.limits.deadlineMarginMs / 2;
  const settling = new Set<Promise<void>>();
  const running = new Set<AbortController>();
  let stopAt = Number.POSITIVE_INFINITY;

  const settle = async (records: readonly MessageRecord[], outcomes: readonly Outcome[]): Promise<void> => {
    const isStopping = Number.isFinite(stopAt);
    const isOut = outageIn(outcomes) !== undefined;
    const actOn = (outcome: Outcome | undefined): OnRecords => {
      if (outcome?.status === 'answered') return acknowledge;
      // Who comes next would meet the outage too: what is handed back at once would spend its receives on it.
      if (isOut) return sitOut;
      return isStopping && outcome !== undefined && UNSCORED.has(outcome.failure.code) ? handBack : delayRetries;
    };
    const byAct = Map.groupBy(records.keys(), (index) => actOn(outcomes[index]));
    await Promise.all(
      Array.from(byAct, async ([act, indexes]) => {
        const those = indexes.map((index) => records[index] as MessageRecord);
        await act(those);
        onSettled(those);
      }),
    );
  };
  return {
    async dispatch(records) {
      const endsAt = scoring.now() + timeoutMs;
      const outOfTime = new AbortController();
      const timer = setTimeout(() => outOfTime.abort(), Math.max(0, timeoutMs - writingMs));
      running.add(outOfTime);
      const time = { remainingMs: () => Math.min(endsAt, stopAt) - scoring.now(), signal: outOfTime.signal };
      const outcomes = await scoreOrHandBack(records, scoring, time);
      clearTimeout(timer);
      running.delete(outOfTime);
      onScored(outcomes, records);
      const settled = settle(records, outcomes).finally(() => settling.delete(settled));
      settling.add(settled);
    },
    endWithin(ms) {
      stopAt = scoring.now() + ms;
      const cutShort = deferred();
      const endAll = (): void => {
        for (const outOfTime of running) outOfTime.abort();
        cutShort.resolve();
      };
      setTimeout(endAll, Math.max(0, ms - writingMs)).unref();
      return cutShort.promise;
    },
    async settled() {
      while (settling.size > 0) await Promise.all(settling);
    },
  };
}
