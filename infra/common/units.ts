import { type Duration, type Size, SizeRoundingBehavior } from 'aws-cdk-lib/core';

import { GOT_TOKEN, ValidationError } from './problems.ts';

/*
 * The plain numbers of CDK's types, which checks and arithmetic use. A number may be a fraction: the check of its range
 * refuses it. Each throws a ValidationError when the amount is a token, unless its name says otherwise.
 */

const MS_PER_SECOND = 1000;
const MS_PER_MINUTE = 60_000;
const MS_PER_DAY = 86_400_000;
const MIB = 1024 * 1024;
const GIB = 1024 * MIB;

/** @param name path of the prop */
export function secondsOf(name: string, duration: Duration | undefined): number | undefined {
  return divide(millisecondsOf(name, duration), MS_PER_SECOND);
}

export function minutesOf(name: string, duration: Duration | undefined): number | undefined {
  return divide(millisecondsOf(name, duration), MS_PER_MINUTE);
}

function daysOf(name: string, duration: Duration | undefined): number | undefined {
  return divide(millisecondsOf(name, duration), MS_PER_DAY);
}

export function millisecondsOf(name: string, duration: Duration | undefined): number | undefined {
  refuseToken(name, duration);
  return duration?.toMilliseconds({ integral: false });
}

export function bytesOf(name: string, size: Size | undefined): number | undefined {
  refuseToken(name, size);
  return size?.toBytes({ rounding: SizeRoundingBehavior.NONE });
}

export function mebibytesOf(name: string, size: Size | undefined): number | undefined {
  return divide(bytesOf(name, size), MIB);
}

export function gibibytesOf(name: string, size: Size | undefined): number | undefined {
  return divide(bytesOf(name, size), GIB);
}

/** As `secondsOf`, of an amount that nothing is computed with: a token in seconds is passed on. */
export function secondsOrToken(name: string, duration: Duration | undefined): number | undefined {
  return duration?.isUnresolved() === true ? duration.toSeconds() : secondsOf(name, duration);
}

/** As `daysOf`, of an amount that nothing is computed with: a token in days is passed on. */
export function daysOrToken(name: string, duration: Duration | undefined): number | undefined {
  return duration?.isUnresolved() === true ? duration.toDays() : daysOf(name, duration);
}

/** Exact for multiples, as the CDK's own conversion by fractions is not. */
function divide(amount: number | undefined, unit: number): number | undefined {
  return amount === undefined ? undefined : amount / unit;
}

function refuseToken(name: string, amount: Duration | Size | undefined): void {
  if (amount?.isUnresolved() === true) throw new ValidationError(`${name}: ${GOT_TOKEN}`);
}
