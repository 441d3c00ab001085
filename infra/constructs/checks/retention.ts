import { outside, type Problem } from '../base/refuse.ts';

const SECONDS_A_DAY = 86_400;

export interface Retention {
  /** Seconds that the table keeps a result; undefined: there is no table. */
  readonly resultTtlSeconds: number | undefined;
  readonly payloadExpiryDays: number;
}

/** A result in the table may point into the payload bucket: the payload must not be gone before it. */
export function retentionProblems({ resultTtlSeconds, payloadExpiryDays }: Retention): Problem[] {
  return [
    outside('payloadExpiryDays', payloadExpiryDays, 1, 3650),
    outside('resultTtlSeconds', resultTtlSeconds, 1, 315_360_000),
    goneTooSoon(resultTtlSeconds, payloadExpiryDays),
  ];
}

function goneTooSoon(resultTtlSeconds: number | undefined, payloadExpiryDays: number): Problem {
  if (resultTtlSeconds === undefined || payloadExpiryDays * SECONDS_A_DAY >= resultTtlSeconds) return undefined;
  const days = Math.ceil(resultTtlSeconds / SECONDS_A_DAY);
  return (
    `payloadExpiryDays: expected at least ${days}, because large results of the table lie in the payload bucket and ` +
    `resultTtlSeconds is ${resultTtlSeconds}, got ${payloadExpiryDays}, raise it`
  );
}
