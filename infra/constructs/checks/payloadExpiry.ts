import type { Problem } from '../base/refuse.ts';
import type { PayloadReferences } from '../storage/payloadReferences.ts';

const SECONDS_A_DAY = 86_400;

/** A payload must not expire before the last message or result that points to it. */
export function payloadExpiryProblem(payloadExpiryDays: number, references: PayloadReferences): Problem {
  const [longest] = reasonsToStay(references).toSorted((a, b) => b.days - a.days);
  if (longest === undefined || payloadExpiryDays >= longest.days) return undefined;
  const { days, reason, cure } = longest;
  return `payloadExpiryDays: expected at least ${Math.ceil(days)}, because ${reason}, got ${payloadExpiryDays}; ${cure}`;
}

interface ReasonToStay {
  readonly days: number;
  readonly reason: string;
  readonly cure: string;
}

function reasonsToStay(references: PayloadReferences): ReasonToStay[] {
  const { resultQueueDays, resultTtlSeconds } = references;
  const ofTable = resultTtlSeconds === undefined ? undefined : resultTtlSeconds / SECONDS_A_DAY;
  return [
    ...requestReasons(references),
    ...reason(resultQueueDays, `the result queue keeps pointers to large results for ${resultQueueDays}`),
    ...reason(
      ofTable,
      `the table keeps pointers to large results for ${resultTtlSeconds} s`,
      'raise it or lower resultTtlSeconds',
    ),
  ];
}

/**
 * On a standard queue the days of a dead letter count from the first send, on a FIFO queue from when it became one.
 *
 * @see https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-dead-letter-queues.html
 */
function requestReasons({ fifo, requestDays, deadLetterDays }: PayloadReferences): ReasonToStay[] {
  const inQueue = `the request queue keeps pointers to large requests for ${requestDays}`;
  if (fifo && requestDays !== undefined && deadLetterDays !== undefined) {
    return reason(requestDays + deadLetterDays, `${inQueue} and the dead letters for ${deadLetterDays} more`);
  }
  return [
    ...reason(requestDays, inQueue),
    ...reason(deadLetterDays, `the dead letters keep pointers to large requests for ${deadLetterDays}`),
  ];
}

function reason(days: number | undefined, why: string, cure = 'raise it'): ReasonToStay[] {
  return days === undefined ? [] : [{ days, reason: why, cure }];
}
