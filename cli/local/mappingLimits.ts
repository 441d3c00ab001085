export interface MappingLimits {
  queueArn: string;
  /** Most records of one event, 1–10,000; FIFO 1–10. Above 10 needs a window of at least 1 s. */
  batchSize: number;
  /** Longest wait for a batch to fill, in seconds, 0–300; FIFO 0. */
  windowSeconds: number;
  /** Invocations that may run at once, 1–1000. (The service's own setting starts at 2.) */
  maximumConcurrency: number;
  /** The function's timeout, in seconds, 1–900. */
  functionTimeoutSeconds: number;
}

/**
 * Refuses the settings that AWS refuses, all of them in one error.
 *
 * @see https://docs.aws.amazon.com/lambda/latest/api/API_CreateEventSourceMapping.html
 */
export function refuseInvalidLimits(limits: MappingLimits): void {
  const problems = [
    outside('batchSize', limits.batchSize, 1, 10_000),
    outside('windowSeconds', limits.windowSeconds, 0, 300),
    outside('maximumConcurrency', limits.maximumConcurrency, 1, 1000),
    outside('functionTimeoutSeconds', limits.functionTimeoutSeconds, 1, 900),
    ...(limits.queueArn.endsWith('.fifo') ? fifoProblems(limits) : standardProblems(limits)),
  ].filter((problem) => problem !== undefined);
  if (problems.length > 0) throw new Error(`event source mapping: ${problems.join('; ')}`);
}

function outside(name: string, value: number, least: number, most: number): string | undefined {
  return Number.isInteger(value) && value >= least && value <= most
    ? undefined
    : `${name}: expected a whole number from ${least} to ${most}, got ${value}`;
}

function standardProblems({ batchSize, windowSeconds }: MappingLimits): (string | undefined)[] {
  return [
    batchSize > 10 && windowSeconds < 1
      ? `windowSeconds: expected at least 1 for a batchSize above 10, got ${windowSeconds} with batchSize ${batchSize}. ` +
        'Give it a window of 1 s, or a batchSize of at most 10'
      : undefined,
  ];
}

function fifoProblems({ batchSize, windowSeconds }: MappingLimits): (string | undefined)[] {
  return [
    batchSize > 10
      ? `batchSize: expected at most 10 on a FIFO queue, got ${batchSize}. Lower it, or use a standard queue`
      : undefined,
    windowSeconds > 0
      ? `windowSeconds: expected 0 on a FIFO queue, which has no batching window, got ${windowSeconds}. ` +
        'Set it to 0, or use a standard queue'
      : undefined,
  ];
}
