import { type Duration, type Size, SizeRoundingBehavior } from 'aws-cdk-lib/core';
import { GOT_TOKEN, ValidationError } from './problems.ts';

/*
 * Converts CDK types to numbers for checks and arithmetic. Numbers may be fractions, which range checks refuse. The
 * functions throw a ValidationError if the amount is a token, because the CDK does not convert the units of tokens.
 */

export const SECONDS_A_DAY = 86_400;
export const MIB_PER_GIB = 1024;

/** Each takes the path of the prop. Division is exact for multiples, unlike the CDK's multiplication by fractions. */
export const millisecondsOf = durationIn(1);
export const secondsOf = durationIn(1000);
export const minutesOf = durationIn(60_000);
export const daysOf = durationIn(1000 * SECONDS_A_DAY);
export const bytesOf = sizeIn(1);
export const mebibytesOf = sizeIn(1024 ** 2);
export const gibibytesOf = sizeIn(1024 ** 3);

function durationIn(milliseconds: number) {
  return (name: string, duration: Duration | undefined): number | undefined => {
    refuseToken(name, duration);
    return duration && duration.toMilliseconds({ integral: false }) / milliseconds;
  };
}

function sizeIn(bytes: number) {
  return (name: string, size: Size | undefined): number | undefined => {
    refuseToken(name, size);
    return size && size.toBytes({ rounding: SizeRoundingBehavior.NONE }) / bytes;
  };
}

function refuseToken(name: string, amount: Duration | Size | undefined): void {
  if (amount?.isUnresolved() === true) throw new ValidationError(`${name}: ${GOT_TOKEN}`);
}
