import { Logger } from '@aws-lambda-powertools/logger';
import { injectLambdaContext } from '@aws-lambda-powertools/logger/middleware';
import { Metrics } from '@aws-lambda-powertools/metrics';
import { logMetrics } from '@aws-lambda-powertools/metrics/middleware';
import type { LogLevel } from '../core/limits.ts';
import {
  ALL_METRIC_UNITS,
  type CloseReason,
  type GpuReading,
  METRIC_NAMESPACE,
  type MetricName,
  type MicroBatchReport,
} from '../core/observer.ts';
import type { Outcome } from '../core/record.ts';
import type { Telemetry } from './telemetry.ts';
import { retryReasons } from './telemetry.ts';

const CLOSED_METRICS = {
  full: 'ClosedFull',
  budget: 'ClosedBudget',
  padding: 'ClosedPadding',
  dearer: 'ClosedDearer',
  end: 'ClosedEnd',
} as const satisfies Record<CloseReason, MetricName>;

const LEVELS = { debug: 'DEBUG', info: 'INFO', warn: 'WARN', error: 'ERROR' } as const satisfies Record<
  LogLevel,
  string
>;

interface TelemetryOptions {
  /** Dimension `service` of every metric. */
  readonly serviceName: string;
  /** Log level. @default the level of the function's logging configuration, else `info` */
  readonly logLevel?: LogLevel | undefined;
  /** Maximum batch size of SQS. `BatchFill` is not measured if it is missing. */
  readonly batchSize?: number | undefined;
  /** Batching window, logged with the batch size. */
  readonly windowSeconds?: number | undefined;
  /** True to log a line for each batch at level `info`, false for `debug`. @default true */
  readonly logsBatches?: boolean | undefined;
}

const MISMATCH =
  "a request's answer in a micro-batch differed from its answer alone: the model is no longer batched in this process; " +
  'docs/operations.md says what to do';

/** Creates structured logs and CloudWatch metrics (EMF on stdout, namespace `batchscore`). */
export function createPowertoolsTelemetry(options: TelemetryOptions): Telemetry & {
  readonly logger: Logger;
  /** Prints the metrics since the last call. A middleware does so after each invocation. */
  publish(): void;
  gpus(readings: readonly GpuReading[]): void;
} {
  const { serviceName, logLevel, batchSize, windowSeconds, logsBatches = true } = options;
  const logger = new Logger({ serviceName, ...(logLevel !== undefined && { logLevel: LEVELS[logLevel] }) });
  const metrics = new Metrics({ namespace: METRIC_NAMESPACE, serviceName });
  const add = (name: MetricName, value: number): void => {
    metrics.addMetric(name, ALL_METRIC_UNITS[name], value);
  };
  const providers = new Set<string>();
  const devices = new Set<string>();
  return {
    logger,
    assigned(assignment) {
      providers.add(assignment.provider);
      for (const device of assignment.devices) devices.add(device);
    },
    observer: {
      microBatch(report) {
        add('MicroBatches', 1);
        add('Rows', report.rows);
        add('PaddingRows', report.paddedRows - report.rows);
        add('Fill', fillOf(report));
        add('PaddingShare', 100 * report.paddingShare);
        add('StackTime', report.stackMs);
        add('RunTime', report.runMs);
        add('EncodeTime', report.encodeMs);
        add(CLOSED_METRICS[report.closedBecause], 1);
        logger.debug('micro-batch', { ...report, fill: fillOf(report) });
      },
      decoded(decodeMs) {
        add('DecodeTime', decodeMs);
        logger.debug('records decoded', { decodeMs });
      },
      transformed({ transformMs, split, ...details }) {
        add('TransformTime', transformMs);
        logger.debug('transform called', { ...details, transformMs });
        if (split !== undefined)
          logger.warn('a batch hook failed and is called for each request alone', { ...details, split });
      },
      checked(checkMs) {
        add('CheckTime', checkMs);
      },
      batchMismatch({ model, version, messageId, difference: { output } }) {
        add('BatchMismatch', 1);
        logger.error(MISMATCH, { model, version, output, messageId });
      },
      written(writeMs) {
        add('WriteTime', writeMs);
        logger.debug('results written', { writeMs });
      },
      captured({ kept, lost }) {
        if (kept > 0) add('Captured', kept);
        if (lost > 0) add('CaptureLost', lost);
      },
      problem(error) {
        logger.error('records are handed back', error instanceof Error ? error : new Error(String(error)));
      },
    },
    outcomes(outcomes, records) {
      const counts = countOutcomes(outcomes);
      // Properties let CloudWatch Logs Insights separate the metrics of different devices.
      if (providers.size > 0) metrics.addMetadata('provider', [...providers].join(', '));
      if (devices.size > 0) metrics.addMetadata('device', [...devices].join(', '));
      add('BatchSize', outcomes.length);
      if (batchSize !== undefined) {
        add('BatchFill', (100 * outcomes.length) / batchSize);
      }
      add('Answered', counts.answered);
      add('Requests', counts.requests);
      add('Errors', counts.errors);
      add('Retries', counts.retries);
      add('MissingOrDenied', counts.refused);
      logger[logsBatches ? 'info' : 'debug']('records scored', {
        records: outcomes.length,
        batchSize,
        windowSeconds,
        ...counts,
      });
      for (const retried of retryReasons(outcomes, records)) logger.warn('records go back to SQS', { ...retried });
    },
    gpus(readings) {
      for (const { usedPercent, memoryUsedMib, memoryMib } of readings) {
        if (usedPercent !== undefined) add('GpuUtilization', usedPercent);
        if (memoryUsedMib !== undefined && memoryMib) add('GpuMemoryUtilization', (100 * memoryUsedMib) / memoryMib);
      }
      logger.debug('GPUs', { gpus: readings });
    },
    scorerLost(error) {
      add('ScorersLost', 1);
      logger.error(
        'the scorer was lost; another one scores the remaining requests, those that may be to blame alone',
        error,
      );
    },
    publish() {
      if (metrics.hasStoredMetrics()) metrics.publishStoredMetrics();
    },
    middlewares: [injectLambdaContext(logger), logMetrics(metrics)],
  };
}

function fillOf({ rows, maxBatchRows }: MicroBatchReport): number {
  return (100 * rows) / maxBatchRows;
}

interface OutcomeCounts {
  readonly answered: number;
  readonly requests: number;
  /** Number of requests answered with an error result. */
  readonly errors: number;
  readonly retries: number;
  /** Number of retries because a store, the payload bucket or a model is missing or denied. */
  readonly refused: number;
  /** Number of occurrences of each error code, answered or retried. */
  readonly codes: Readonly<Record<string, number>>;
}

function countOutcomes(outcomes: readonly Outcome[]): OutcomeCounts {
  const codes: Record<string, number> = {};
  let answered = 0;
  let requests = 0;
  let errors = 0;
  let refused = 0;
  for (const outcome of outcomes) {
    const failures = outcome.status === 'answered' ? outcome.failures : [outcome.failure];
    for (const { code } of failures) codes[code] = (codes[code] ?? 0) + 1;
    if (outcome.status === 'answered') {
      answered += 1;
      requests += outcome.requests;
      errors += failures.length;
    } else if (outcome.failure.outage?.kind === 'refused') refused += 1;
  }
  return { answered, requests, errors, retries: outcomes.length - answered, refused, codes };
}

/**
 * Logs the reason why a host cannot start or continue, as one line of JSON like the rest of its log. The Lambda runtime
 * logs it again in the function's log format.
 *
 * @param what for example `the function cannot start`
 * @param serviceName name in the environment, because the configuration itself may be wrong
 */
export function logFatal(what: string, error: unknown, serviceName = 'batchscore'): void {
  const cause = error instanceof Error ? error : new Error(String(error));
  new Logger({ serviceName }).critical(what, cause);
}

export function logWarnings(logger: Logger): void {
  process.removeAllListeners('warning');
  process.on('warning', ({ name, message }) => logger.warn('a warning of Node', { name, reason: message }));
}
