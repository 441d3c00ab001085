/** When alarms go off. */
export interface AlarmThresholds {
  /**
   * Most percent of the records that go back to SQS, 0 to 99, in two of three periods of five minutes. Deployments and
   * throttles of a store retry a few; more costs runs twice, and receives that lead to the dead letters. @default 5, or half
   * of what a new version gets first
   */
  readonly retriedPercent: number;
  /**
   * Most percent of the requests that are answered with an error, 0 to 99, in two of three periods. A producer's bad
   * request is its own affair; when half of them are bad, a contract has changed. @default 50, or
   * half of what a new version gets first
   */
  readonly errorPercent: number;
  /**
   * Most percent of the messages that a queue may hand out, 1 to 99. Above the quota receives get nothing, without an
   * error; a fifth is the time to do something about it. @default 80
   */
  readonly inFlightPercent: number;
}

const DEFAULTS: AlarmThresholds = { retriedPercent: 5, errorPercent: 50, inFlightPercent: 80 };

/**
 * The thresholds that were given, and the defaults of the others: low enough for a new version to set an alarm off that
 * fails half of the invocations that it gets first.
 */
export function thresholdsOf(given: Partial<AlarmThresholds>, firstStepPercent: number): AlarmThresholds {
  const noticed = Math.floor(firstStepPercent / 2);
  return {
    retriedPercent: given.retriedPercent ?? Math.min(DEFAULTS.retriedPercent, noticed),
    errorPercent: given.errorPercent ?? Math.min(DEFAULTS.errorPercent, noticed),
    inFlightPercent: given.inFlightPercent ?? DEFAULTS.inFlightPercent,
  };
}
