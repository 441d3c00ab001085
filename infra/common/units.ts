import { type Duration, type Size, SizeRoundingBehavior } from 'aws-cdk-lib/core';
import { GOT_TOKEN, ValidationError } from './problems.ts';

/*
 * Converts CDK types to numbers for checks and arithmetic. Numbers may be fractions, which range checks refuse. The
 * functions throw a ValidationError if the amount is a token, because the CDK does not convert the units of tokens.
 */

export const SECONDS_A_DAY = 86_400;
export const MIB_PER_GIB = 1024;

const inMilliseconds = (one: Duration) => one.toMilliseconds({ integral: false });
const inBytes = (one: Size) => one.toBytes({ rounding: SizeRoundingBehavior.NONE });

/** Each takes the path of the prop. Division is exact for multiples, unlike the CDK's multiplication by fractions. */
export const millisecondsOf = amountIn(1, inMilliseconds);
export const secondsOf = amountIn(1000, inMilliseconds);
export const minutesOf = amountIn(60_000, inMilliseconds);
export const daysOf = amountIn(1000 * SECONDS_A_DAY, inMilliseconds);
export const bytesOf = amountIn(1, inBytes);
export const mebibytesOf = amountIn(1024 ** 2, inBytes);
export const gibibytesOf = amountIn(1024 ** 3, inBytes);

function amountIn<T extends Duration | Size>(unit: number, read: (amount: T) => number) {
  return (name: string, amount: T | undefined): number | undefined => {
    if (amount !== undefined && typeof amount !== 'object') {
      throw new ValidationError(
        `${name}: expected an amount with a unit, such as Duration.seconds(5) or Size.mebibytes(512), got ${amount}`,
      );
    }
    if (amount?.isUnresolved() === true) throw new ValidationError(`${name}: ${GOT_TOKEN}`);
    return amount && read(amount) / unit;
  };
}
