import { type Duration, type Size, SizeRoundingBehavior } from 'aws-cdk-lib/core';

import { GOT_TOKEN, ValidationError } from './problems.ts';

/*
 * Converts CDK types to numbers for checks and arithmetic. Numbers may be fractions, which range checks refuse. Unless
 * its name says otherwise, a function throws a ValidationError if the amount is a token.
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

/**
 * Returns seconds like `secondsOf`, but passes a token in seconds on. Use it only if nothing is computed from the
 * amount.
 */
export function secondsOrToken(name: string, duration: Duration | undefined): number | undefined {
  return duration?.isUnresolved() === true ? duration.toSeconds() : secondsOf(name, duration);
}

/** Returns days like `daysOf`, but passes a token in days on. Use it only if nothing is computed from the amount. */
export function daysOrToken(name: string, duration: Duration | undefined): number | undefined {
  return duration?.isUnresolved() === true ? duration.toDays() : daysOf(name, duration);
}

/** Divides exactly for multiples. The CDK's own conversion multiplies by fractions, which is inexact. */
function divide(amount: number | undefined, unit: number): number | undefined {
  return amount === undefined ? undefined : amount / unit;
}

function refuseToken(name: string, amount: Duration | Size | undefined): void {
  if (amount?.isUnresolved() === true) throw new ValidationError(`${name}: ${GOT_TOKEN}`);
}
