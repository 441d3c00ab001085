import type { ModelRepository } from '../../lambda/core/contract/model.ts';
import type { MessageRecord } from '../../lambda/core/contract/record.ts';
import type { Outcome } from '../../lambda/core/contract/result.ts';
import { plan } from '../../lambda/core/plan/plan.ts';
import { createLatencyEstimator } from '../../lambda/core/run/latencyEstimator.ts';
import { createMemoryCeiling } from '../../lambda/core/run/memoryCeiling.ts';
import { type ScoringLimits, scoreRecords } from '../../lambda/core/scoreRecords.ts';
import type { Line } from '../lineBatches.ts';

export interface OfflineSummary {
  lines: number;
  /** Lines all of whose requests were scored. */
  scored: number;
  /** Error results by code. */
  errors: Record<string, number>;
  microBatches: number;
  rows: number;
}

export interface OfflineScoring {
  /** The result of each line, in order, one JSON document each. */
  score(lines: readonly Line[]): Promise<string[]>;
  readonly summary: Readonly<OfflineSummary>;
}

const NO_DEADLINE = { remainingMs: () => Number.POSITIVE_INFINITY, signal: new AbortController().signal };

/** The core over lines of a file instead of records of a queue: a line's number is its message ID. */
export function createOfflineScoring(models: ModelRepository, limits: ScoringLimits): OfflineScoring {
  const summary: OfflineSummary = { lines: 0, scored: 0, errors: {}, microBatches: 0, rows: 0 };
  const results = new Map<string, string>();
  const deps = {
    models,
    limits,
    plan,
    latency: createLatencyEstimator(),
    memory: createMemoryCeiling(),
    acknowledge: async () => {},
    observer: {
      microBatch: ({ rows }: { readonly rows: number }) => {
        summary.microBatches += 1;
        summary.rows += rows;
      },
      decoded: () => {},
      runAbandoned: () => {},
      problem: (error: unknown) => {
        throw error;
      },
    },
    now: () => performance.now(),
    writer: {
      write: async (written: readonly { readonly messageId: string; readonly body: string }[]) => {
        for (const { messageId, body } of written) results.set(messageId, body);
        return written.map(() => ({ written: true as const }));
      },
    },
  };
  return {
    summary,
    async score(lines) {
      const outcomes = await scoreRecords(lines.map(toRecord), deps, NO_DEADLINE);
      for (const [index, outcome] of outcomes.entries()) count(summary, outcome, lines[index]);
      const inOrder = lines.map(({ number }) => results.get(String(number)) ?? '');
      results.clear();
      return inOrder;
    },
  };
}

function toRecord({ number, text }: Line): MessageRecord {
  return {
    messageId: String(number),
    receiptHandle: '',
    body: text,
    attributes: { ApproximateReceiveCount: '1', SentTimestamp: '0' },
    messageAttributes: {},
    eventSourceARN: '',
  };
}

/** @throws Error for a line that no queue would redeliver: there is none here */
function count(summary: OfflineSummary, outcome: Outcome, line: Line | undefined): void {
  if (outcome.status === 'retry') {
    throw new Error(`line ${line?.number}: ${outcome.failure.code}: ${outcome.failure.message}`);
  }
  summary.lines += 1;
  if (outcome.failures.length === 0) summary.scored += 1;
  for (const { code } of outcome.failures) summary.errors[code] = (summary.errors[code] ?? 0) + 1;
}
