import type { Failure } from '../../lambda/core/failure.ts';
import { RANGES } from '../../lambda/core/limits.ts';
import type { ModelRepository } from '../../lambda/core/model.ts';
import type { BatchMismatch } from '../../lambda/core/observer.ts';
import type { ScoringLimits } from '../../lambda/core/scoreRecords.ts';
import { type Answer, createRowScoring, errorRow } from '../../lambda/jobs/scoreRows.ts';
import type { PieceRow } from '../../lambda/jobs/textRows.ts';

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
  /** The result of each row, in order, one JSON document each. @throws Error when a row has none */
  score(rows: readonly PieceRow[]): Promise<string[]>;
  readonly summary: Readonly<OfflineSummary>;
}

/**
 * Scores the rows of a file and counts: a row's id is its message ID.
 *
 * @param warn told once of a model whose rows were found to depend on each other
 */
export function createOfflineScoring(
  models: ModelRepository,
  limits: ScoringLimits,
  warn: (message: string) => void,
): OfflineScoring {
  const summary: OfflineSummary = { lines: 0, scored: 0, errors: {}, microBatches: 0, rows: 0 };
  const scoring = createRowScoring({
    models,
    limits,
    checkPercent: RANGES.checkPercent.default,
    observer: {
      batchMismatch: (mismatch) => warn(describe(mismatch)),
      microBatch: ({ rows }) => {
        summary.microBatches += 1;
        summary.rows += rows;
      },
    },
  });
  return {
    summary,
    async score(rows) {
      const isGood = rows.every(({ failed }) => failed === undefined);
      const good = isGood ? rows : rows.filter(({ failed }) => failed === undefined);
      const { answers } = await scoring.score(good);
      let next = 0;
      return rows.map((row) => {
        const answer = row.failed === undefined ? answers[next++] : refused(row, row.failed);
        if (answer === undefined) throw new Error(`line ${row.id}: expected an answer, got none`);
        const { text, failures } = answer;
        summary.lines += 1;
        if (failures.length === 0) summary.scored += 1;
        for (const { code } of failures) summary.errors[code] = (summary.errors[code] ?? 0) + 1;
        return withKept(text, row.kept);
      });
    },
  };
}

/** What cannot be a request is answered as one that was refused. */
function refused(row: PieceRow, failed: Failure): Answer {
  return { text: errorRow(row, failed), failures: [failed] };
}

function withKept(text: string, kept: string | undefined): string {
  return kept === undefined ? text : `${text.slice(0, -1)},"kept":${kept}}`;
}

function describe({ model, version, messageId, difference: { output }, wasBatched, maxRows }: BatchMismatch): string {
  const found = `model '${model}/${version}': '${output}' of line ${messageId} is another when the request is run alone`;
  if (!wasBatched) return `${found}; all requests are run alone`;
  if (maxRows > 1) return `${found}, as the number of rows changes it; from here on runs have ${maxRows} rows at most`;
  return `${found}; from here on all requests are. To be sure of the lines before, score again with --max-rows 1`;
}
