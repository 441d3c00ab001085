import type { MessageRecord } from '../core/contract/record.ts';
import type { Outcome } from '../core/contract/result.ts';
import type { ScoringDependencies } from '../core/scoreRecords.ts';
import { outageIn } from '../core/settle/outageWatch.ts';
import { scoreOrHandBack } from '../scoreOrHandBack.ts';

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
  /** From now on what does not end within so many milliseconds is handed back. */
  endWithin(ms: number): void;
  /** Resolves when SQS was told of all that was scored. */
  settled(): Promise<void>;
}

export function createDispatcher(options: DispatcherOptions): Dispatcher {
  const { scoring, timeoutMs, acknowledge, delayRetries, sitOut, handBack, onScored, onSettled } = options;
  const writingMs = scoring.limits.deadlineMarginMs / 2;
  const settling = new Set<Promise<void>>();
  const running = new Set<AbortController>();
  let stopAt = Number.POSITIVE_INFINITY;

  const settle = async (records: readonly MessageRecord[], outcomes: readonly Outcome[]): Promise<void> => {
    const answered = records.filter((_, index) => outcomes[index]?.status === 'answered');
    const retried = records.filter((_, index) => outcomes[index]?.status !== 'answered');
    // Who comes next would meet the outage too: what is handed back at once would spend its receives on it.
    const giveBack = outageIn(outcomes) !== undefined ? sitOut : Number.isFinite(stopAt) ? handBack : delayRetries;
    await Promise.all([answered.length > 0 && acknowledge(answered), retried.length > 0 && giveBack(retried)]);
    onSettled(records);
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
      const endAll = (): void => {
        for (const outOfTime of running) outOfTime.abort();
      };
      setTimeout(endAll, Math.max(0, ms - writingMs)).unref();
    },
    async settled() {
      while (settling.size > 0) await Promise.all(settling);
    },
  };
}
