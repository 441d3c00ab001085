import { Logger } from '@aws-lambda-powertools/logger';
import { injectLambdaContext } from '@aws-lambda-powertools/logger/middleware';
import { Metrics, MetricUnit } from '@aws-lambda-powertools/metrics';
import { logMetrics } from '@aws-lambda-powertools/metrics/middleware';
import type { Outcome } from '../../core/result.ts';
import type { Telemetry } from './telemetry.ts';

const CLOSED_METRICS = {
  full: 'ClosedFull',
  budget: 'ClosedBudget',
  padding: 'ClosedPadding',
  end: 'ClosedEnd',
  window: 'ClosedWindow',
  deadline: 'ClosedDeadline',
} as const;

export interface TelemetryOptions {
  /** The dimension `service` of every metric. */
  readonly serviceName: string;
  /** What SQS hands over at most; without it no `BatchFill` is measured. */
  readonly batchSize?: number | undefined;
  /** Seconds that SQS gathers records for; logged beside the batch size. */
  readonly windowSeconds?: number | undefined;
}

/** Structured logs and CloudWatch metrics (EMF on stdout, namespace `batchscore`). */
export function createPowertoolsTelemetry({ serviceName, batchSize, windowSeconds }: TelemetryOptions): Telemetry & {
  readonly logger: Logger;
} {
  const logger = new Logger({ serviceName });
  const metrics = new Metrics({ namespace: 'batchscore', serviceName });
  return {
    logger,
    observer: {
      microBatch(report) {
        metrics.addMetric('MicroBatches', MetricUnit.Count, 1);
        metrics.addMetric('Rows', MetricUnit.Count, report.rows);
        metrics.addMetric('PaddingRows', MetricUnit.Count, report.paddedRows - report.rows);
        metrics.addMetric('Fill', MetricUnit.Percent, (100 * report.rows) / report.maxBatchRows);
        metrics.addMetric('PaddingShare', MetricUnit.Percent, 100 * report.paddingShare);
        metrics.addMetric('StackTime', MetricUnit.Milliseconds, report.stackMs);
        metrics.addMetric('RunTime', MetricUnit.Milliseconds, report.runMs);
        metrics.addMetric('EncodeTime', MetricUnit.Milliseconds, report.encodeMs);
        metrics.addMetric('WriteTime', MetricUnit.Milliseconds, report.writeMs);
        metrics.addMetric(CLOSED_METRICS[report.closedBecause], MetricUnit.Count, 1);
        logger.debug('micro-batch', { ...report });
      },
      decoded(_records, decodeMs) {
        metrics.addMetric('DecodeTime', MetricUnit.Milliseconds, decodeMs);
      },
      problem(error) {
        logger.error('records are handed back', error instanceof Error ? error : new Error(String(error)));
      },
    },
    outcomes(outcomes) {
      const counts = countOutcomes(outcomes);
      metrics.addMetric('BatchSize', MetricUnit.Count, outcomes.length);
      if (batchSize !== undefined) {
        metrics.addMetric('BatchFill', MetricUnit.Percent, (100 * outcomes.length) / batchSize);
      }
      metrics.addMetric('Answered', MetricUnit.Count, counts.answered);
      metrics.addMetric('Errors', MetricUnit.Count, counts.errors);
      metrics.addMetric('Retries', MetricUnit.Count, counts.retries);
      logger.info('records scored', { records: outcomes.length, batchSize, windowSeconds, ...counts });
    },
    middlewares: [injectLambdaContext(logger), logMetrics(metrics)],
  };
}

interface OutcomeCounts {
  readonly answered: number;
  /** Requests answered with an error result. */
  readonly errors: number;
  readonly retries: number;
  /** How often each error code occurred, answered or retried. */
  readonly codes: Readonly<Record<string, number>>;
}

function countOutcomes(outcomes: readonly Outcome[]): OutcomeCounts {
  const codes: Record<string, number> = {};
  let answered = 0;
  let errors = 0;
  for (const outcome of outcomes) {
    const failures = outcome.status === 'answered' ? outcome.failures : [outcome.failure];
    for (const { code } of failures) codes[code] = (codes[code] ?? 0) + 1;
    if (outcome.status === 'answered') {
      answered += 1;
      errors += failures.length;
    }
  }
  return { answered, errors, retries: outcomes.length - answered, codes };
}
