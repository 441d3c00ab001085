import { outside, type Problem } from '../base/refuse.ts';

const LEAST_RECEIVES = 3;

/** A throttled or timed-out call counts as a receive, so one or two send good messages to the dead letters. */
export function redriveProblem(maxReceiveCount: number): Problem {
  if (Number.isInteger(maxReceiveCount) && maxReceiveCount < LEAST_RECEIVES) {
    return (
      `maxReceiveCount: expected at least ${LEAST_RECEIVES}, because throttles and timeouts count as receives, ` +
      `got ${maxReceiveCount}, raise it to 5`
    );
  }
  return outside('maxReceiveCount', maxReceiveCount, LEAST_RECEIVES, 1000);
}
