import { FUNCTION_TIMEOUT_SECONDS, MAXIMUM_CONCURRENCY, mappingProblems, outside } from '../../lambda/core/limits.ts';

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

/** A single invocation at a time, which AWS does not offer, shows what one of them does. */
const LOCAL_CONCURRENCY = { ...MAXIMUM_CONCURRENCY, least: 1 };

/** Refuses the settings that AWS refuses, all of them in one error. */
export function refuseInvalidLimits(limits: MappingLimits): void {
  const problems = [
    ...mappingProblems({ ...limits, fifo: limits.queueArn.endsWith('.fifo') }),
    outside('maximumConcurrency', limits.maximumConcurrency, LOCAL_CONCURRENCY),
    outside('functionTimeoutSeconds', limits.functionTimeoutSeconds, FUNCTION_TIMEOUT_SECONDS),
  ].filter((problem) => problem !== undefined);
  if (problems.length > 0) throw new Error(`event source mapping: ${problems.join('; ')}`);
}
