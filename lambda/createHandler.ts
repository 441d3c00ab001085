import middy from '@middy/core';
import type { Context, SQSBatchResponse, SQSEvent } from 'aws-lambda';
import type { DelayRetries } from './adapters/sqs/retryDelay.ts';
import type { Telemetry } from './adapters/telemetry/telemetry.ts';
import { failure } from './core/contract/failure.ts';
import type { MessageRecord } from './core/contract/record.ts';
import type { Outcome } from './core/contract/result.ts';
import type { TimeLimit } from './core/contract/timeLimit.ts';
import { type ScoringDependencies, scoreRecords } from './core/scoreRecords.ts';

export interface HandlerDependencies {
  readonly scoring: ScoringDependencies;
  readonly delayRetries: DelayRetries;
  readonly telemetry: Telemetry;
}

export type ScoringHandler = (event: SQSEvent, context: Context) => Promise<SQSBatchResponse>;

/**
 * The Lambda handler behind an SQS event source mapping with `ReportBatchItemFailures`.
 *
 * @see https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html
 */
export function createHandler({ scoring, delayRetries, telemetry }: HandlerDependencies): ScoringHandler {
  return middy<SQSEvent, SQSBatchResponse>({ timeoutEarlyInMillis: 0 })
    .use([...telemetry.middlewares])
    .handler(async ({ Records }, context): Promise<SQSBatchResponse> => {
      const outcomes = await scoreOrHandBack(Records, scoring, timeLimitOf(context, scoring.limits.deadlineMarginMs));
      telemetry.outcomes(outcomes, Records);
      const retried = Records.filter((_, index) => outcomes[index]?.status !== 'answered');
      await delayRetries(retried, timeLimitOf(context, scoring.limits.deadlineMarginMs / 2).signal);
      return { batchItemFailures: retried.map(({ messageId }) => ({ itemIdentifier: messageId })) };
    });
}

/** A throw would redeliver every record and slow the polling down: a bug hands back what it met instead. */
async function scoreOrHandBack(
  records: readonly MessageRecord[],
  scoring: ScoringDependencies,
  time: TimeLimit,
): Promise<Outcome[]> {
  try {
    return await scoreRecords(records, scoring, time);
  } catch (error) {
    scoring.observer.problem(error);
    return records.map(() => ({ status: 'retry', failure: failure('INTERNAL', 'scoring the records threw') }));
  }
}

/** The signal aborts when half of the margin is left, so that the answer to Lambda still gets out. */
function timeLimitOf(context: Context, deadlineMarginMs: number): TimeLimit {
  const writingMs = Math.floor(Math.max(0, context.getRemainingTimeInMillis() - deadlineMarginMs / 2));
  return { remainingMs: () => context.getRemainingTimeInMillis(), signal: AbortSignal.timeout(writingMs) };
}
