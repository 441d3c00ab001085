import { z } from 'zod';
import { type Failure, failure, reasonOf } from '../../lambda/core/contract/failure.ts';
import type { ModelRepository } from '../../lambda/core/contract/model.ts';
import type { MessageRecord } from '../../lambda/core/contract/record.ts';
import type { Outcome } from '../../lambda/core/contract/result.ts';
import { encodeError } from '../../lambda/core/encode/encode.ts';
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

/**
 * The core over lines of a file instead of records of a queue: a line's number is its message ID. There is nothing to
 * hand a line back to: where a record would come again, a line has one more try, alone, and then an error result.
 */
export function createOfflineScoring(models: ModelRepository, limits: ScoringLimits): OfflineScoring {
  const summary: OfflineSummary = { lines: 0, scored: 0, errors: {}, microBatches: 0, rows: 0 };
  const results = new Map<string, string>();
  let lastProblem: unknown;
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
      written: () => {},
      runAbandoned: () => {},
      problem: (error: unknown) => {
        lastProblem = error;
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
  const failuresOf = async (line: Line, outcome: Outcome | undefined): Promise<readonly Failure[]> => {
    if (outcome?.status === 'answered') return outcome.failures;
    const [alone] = await scoreRecords([toRecord(line)], deps, NO_DEADLINE);
    if (alone?.status === 'answered') return alone.failures;
    const failed = explained(alone?.failure, lastProblem);
    results.set(String(line.number), encodeError(String(line.number), idIn(line.text), failed));
    return [failed];
  };
  return {
    summary,
    async score(lines) {
      const outcomes = await scoreRecords(lines.map(toRecord), deps, NO_DEADLINE);
      for (const [index, line] of lines.entries()) count(summary, await failuresOf(line, outcomes[index]));
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

/** A bug has no log to be read in: the result says why. */
function explained(failed: Failure | undefined, problem: unknown): Failure {
  if (failed !== undefined && failed.code !== 'INTERNAL') return failed;
  return failure('INTERNAL', `expected the line to be scored; scoring it threw: ${reasonOf(problem)}`);
}

const WITH_ID = z.object({ id: z.string() });

/** The id of a line's request, where it has one. */
function idIn(text: string): string | undefined {
  try {
    return WITH_ID.safeParse(JSON.parse(text)).data?.id;
  } catch {
    return undefined;
  }
}

function count(summary: OfflineSummary, failures: readonly Failure[]): void {
  summary.lines += 1;
  if (failures.length === 0) summary.scored += 1;
  for (const { code } of failures) summary.errors[code] = (summary.errors[code] ?? 0) + 1;
}
