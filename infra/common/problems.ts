import { Annotations, Token } from 'aws-cdk-lib/core';
import type { Construct, IConstruct } from 'constructs';
import { outside as outsideRange, type Range } from '../../lambda/core/limits.ts';

/**
 * Problem with a prop: expected value, given value and remedy. False or undefined if there is none. Rules read tokens
 * only through `known`.
 */
export type Problem = string | false | undefined;

/** Invalid props of a construct. The message contains its path, then the problem with each prop. */
export class ValidationError extends Error {
  override readonly name = 'ValidationError';

  /** @param scope construct whose path begins the message. Left out if only a caller knows it, which then adds it */
  constructor(problems: string, scope?: IConstruct) {
    super(scope === undefined ? problems : `${scope.node.path}: ${problems}`);
  }
}

/** Throws if there are problems. @throws ValidationError with all of them */
export function refuse(problems: readonly Problem[]): void {
  const found = problems.filter((problem) => typeof problem === 'string');
  if (found.length > 0) throw new ValidationError(found.join('; '));
}

/**
 * Runs code that is shared with the commands and that throws plain errors.
 *
 * @throws ValidationError with their messages. System errors, such as a full disk, are rethrown unchanged
 */
export function refusing<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (!(error instanceof Error) || error.name !== 'Error' || 'errno' in error) throw error;
    throw new ValidationError(error.message);
  }
}

/** Returns the value if it is known at synth. Undefined for a token. */
export function known<T>(value: T): T | undefined {
  return Token.isUnresolved(value) ? undefined : value;
}

/** Returns true if both values are known and the first is larger. */
export function exceeds(value: number | undefined, limit: number | undefined): boolean {
  const [amount, most] = [known(value), known(limit)];
  return amount !== undefined && most !== undefined && amount > most;
}

/** Returns true if both values are known and not the same. */
export function differ(one: string | number | undefined, other: string | number | undefined): boolean {
  return known(one) !== undefined && known(other) !== undefined && one !== other;
}

/** Returns a problem if a number is not whole or not in the range. Tokens and undefined pass. */
export function outside(name: string, value: number | undefined, range: Range, unit?: string): Problem {
  return outsideRange(name, known(value), range, unit);
}

/** Returns a problem if a value is not in a list. Tokens and undefined pass. */
export function oneOf(name: string, value: unknown, allowed: readonly unknown[]): Problem {
  return (
    known(value) !== undefined &&
    !allowed.includes(value) &&
    `${name}: expected one of ${allowed.join(', ')}, got ${value}; take one of them`
  );
}

/** Returns a problem if an option of a new resource is given, but that resource exists already or is not needed. */
export function onlyWithNew(name: string, value: unknown, resource: string, isNew: boolean): Problem {
  return (
    value !== undefined && !isNew && `${name}: expected only with a new ${resource}, got it without one; leave it out`
  );
}

/** Returns a problem if a value that must be known at synth, because others are computed from it, is a token. */
export function unknownAtSynth(name: string, ...values: readonly unknown[]): Problem {
  return values.some((value) => Token.isUnresolved(value)) && `${name}: ${GOT_TOKEN}`;
}
export const GOT_TOKEN = 'expected a value that is known at synth, got a token; write it out';

/**
 * Adds a warning at synth if there is a problem. `Annotations.of(scoring).acknowledgeWarning('batchscore:<id>')` silences it.
 *
 * @param id without the prefix `batchscore:`
 * @param context to silence only some warnings of an ID, with
 * `Validations.of(scoring).acknowledge({ id, reason, where })`
 */
export function warn(scope: Construct, id: string, problem: Problem, context?: Readonly<Record<string, string>>): void {
  if (problem) Annotations.of(scope).addWarningV2(`batchscore:${id}`, problem, context && { context });
}
