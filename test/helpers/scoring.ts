import type { Failure } from '../../lambda/core/failure.ts';
import { createLatencyEstimator, createMemoryCeiling } from '../../lambda/core/latency.ts';
import type { BatchMismatch, MicroBatchReport } from '../../lambda/core/observer.ts';
import { plan } from '../../lambda/core/plan.ts';
import type { Result, ResultWriter, TimeLimit, WriteVerdict } from '../../lambda/core/record.ts';
import type { ScoringLimits } from '../../lambda/core/score.ts';
import { createBatchingWatch } from '../../lambda/core/verify.ts';
import type { ScoringDependencies } from '../../lambda/hosts/records.ts';
import { lineModel, repositoryOf } from './models.ts';

export interface MemoryWriterOptions {
  /** How many results of a message group are written as one. @default the writer does not say */
  readonly asOne?: number;
  /** Why a result is not taken; undefined takes it. */
  readonly refuse?: (result: Result) => Failure | undefined;
  /** Sees each write before anything is taken: throws to make the writer throw, waits to hold it open. */
  readonly before?: (results: readonly Result[], signal: AbortSignal) => void | Promise<void>;
}

/** Remembers what was written, in the order it was taken. */
export interface MemoryWriter extends ResultWriter {
  readonly written: readonly Result[];
  /** The documents written under a message ID, parsed. */
  documentsOf(messageId: string): unknown[];
}

export function memoryWriter({ asOne, refuse, before }: MemoryWriterOptions = {}): MemoryWriter {
  const written: Result[] = [];
  return {
    ...(asOne === undefined ? {} : { writtenAsOne: () => asOne }),
    written,
    documentsOf: (messageId) =>
      written.filter((result) => result.messageId === messageId).map(({ body }): unknown => JSON.parse(body)),
    async write(results, signal) {
      await before?.(results, signal);
      return results.map((result): WriteVerdict => {
        const refused = refuse?.(result);
        if (refused !== undefined) return refused;
        written.push(result);
        return { written: true };
      });
    },
  };
}

/** How payloads are read where neither memory nor time is short. */
export const UNHINDERED = { admit: async (): Promise<void> => {}, signal: new AbortController().signal };

export interface ScoringOptions extends Partial<Omit<ScoringDependencies, 'limits' | 'writer'>> {
  readonly limits?: Partial<ScoringLimits>;
}

/** Everything that `scoreRecords` is given, and what its observer was told. */
export interface ObservedDependencies<W extends ResultWriter> extends ScoringDependencies {
  readonly writer: W;
  readonly reports: readonly MicroBatchReport[];
  readonly problems: readonly unknown[];
  readonly mismatches: readonly BatchMismatch[];
  /** What checks took, one number for each time that something was checked. */
  readonly checksMs: readonly number[];
}

/**
 * Real planner, estimator and ceiling, the line model, a memory writer, and limits that no test meets by accident.
 *
 * ```ts
 * const deps = scoringDependencies({ models: repositoryOf(sumModel()) });
 * const outcomes = await scoreRecords(standardRecords([lineRequest([1, 2])]), deps, enoughTime());
 * expect(deps.writer.documentsOf(messageIdOf(0))).toMatchObject([{ outputs: [{}] }]);
 * ```
 */
export function scoringDependencies(options?: ScoringOptions): ObservedDependencies<MemoryWriter>;
export function scoringDependencies<W extends ResultWriter>(
  options: ScoringOptions & { readonly writer: W },
): ObservedDependencies<W>;
export function scoringDependencies(
  options: ScoringOptions & { readonly writer?: ResultWriter } = {},
): ObservedDependencies<ResultWriter> {
  const reports: MicroBatchReport[] = [];
  const problems: unknown[] = [];
  const mismatches: BatchMismatch[] = [];
  const checksMs: number[] = [];
  return {
    models: repositoryOf(lineModel()),
    writer: memoryWriter(),
    plan,
    latency: createLatencyEstimator(),
    acknowledge: async () => {},
    memory: createMemoryCeiling(),
    batching: createBatchingWatch(0.01),
    observer: {
      microBatch: (report) => void reports.push(report),
      decoded: () => {},
      checked: (checkMs) => void checksMs.push(checkMs),
      batchMismatch: (mismatch) => void mismatches.push(mismatch),
      written: () => {},
      runAbandoned: () => {},
      problem: (error) => void problems.push(error),
    },
    now: () => performance.now(),
    reports,
    problems,
    mismatches,
    checksMs,
    ...options,
    limits: {
      maxRequestRows: 10_000,
      maxRequestsPerMessage: 10_000,
      maxAnswerCharacters: 16 * 1024 * 1024,
      maxBatchElements: 1_000_000,
      deadlineMarginMs: 1_000,
      ...options.limits,
    },
  };
}

/** The time of a call that is far from its deadline. */
export function enoughTime(): TimeLimit {
  return { remainingMs: () => 300_000, signal: new AbortController().signal };
}
