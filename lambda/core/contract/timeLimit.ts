/** The time one invocation has. */
export interface TimeLimit {
  readonly remainingMs: () => number;
  /** Aborted when writes must stop being retried. */
  readonly signal: AbortSignal;
}
