/** What tells the time, and lets it pass. */
export interface Clock {
  /** Milliseconds that only go forward. */
  now(): number;
  /** Calls back once `ms` milliseconds have passed. @returns what keeps it from doing so */
  after(ms: number, callback: () => void): () => void;
}

export const SYSTEM_CLOCK: Clock = {
  now: () => performance.now(),
  after: (ms, callback) => {
    const timer = setTimeout(callback, ms);
    return () => clearTimeout(timer);
  },
};
