import type { PolicyStatement } from 'aws-cdk-lib/aws-iam';
import { Annotations, Stack, Token } from 'aws-cdk-lib/core';
import type { Construct, IConstruct } from 'constructs';
import { outside as outsideRange, type Range } from '../../lambda/core/limits.ts';

/** Problem with a prop: expected value, given value and remedy. Undefined if there is none. */
export type Problem = string | undefined;

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
  const found = problems.filter((problem) => problem !== undefined);
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

/** Rule for some props, and the sentence to show if it is broken. A rule reads tokens only through `known`. */
export type Rule = readonly [isBroken: boolean, sentence: string];

export function brokenOf(rules: readonly Rule[]): Problem[] {
  return rules.flatMap(([isBroken, sentence]) => (isBroken ? [sentence] : []));
}

/** Returns the value if it is known at synth. Undefined for a token. */
export function known<T>(value: T): T | undefined {
  return Token.isUnresolved(value) ? undefined : value;
}

export function shown(value: unknown, unit = ''): string {
  return Token.isUnresolved(value) ? 'a token' : `${value}${unit}`;
}

/** Returns true if both values are known and the first is larger. */
export function exceeds(value: number | undefined, limit: number | undefined): boolean {
  const [amount, most] = [known(value), known(limit)];
  return amount !== undefined && most !== undefined && amount > most;
}

/** Returns a problem if a number is not whole or not in the range. Tokens and undefined pass. */
export function outside(name: string, value: number | undefined, range: Range, unit?: string): Problem {
  return outsideRange(name, known(value), range, unit);
}

/** Returns a problem if a value is not in a list. Tokens and undefined pass. */
export function oneOf(name: string, value: unknown, allowed: readonly unknown[]): Problem {
  if (known(value) === undefined || allowed.includes(value)) return undefined;
  return `${name}: expected one of ${allowed.join(', ')}, got ${value}; take one of them`;
}

/** Returns a problem if a value that others are computed from is a token. */
export function unknownAtSynth(name: string, ...values: readonly unknown[]): Problem {
  return values.some((value) => Token.isUnresolved(value)) ? `${name}: ${GOT_TOKEN}` : undefined;
}
export const GOT_TOKEN =
  'expected a value that is known at synth, because others are computed from it, got a token; write it out';

/**
 * Returns props to pass to the CDK, without undefined ones, which would override values before them.
 *
 * @param name of the prop that contains them
 * @throws ValidationError naming a prop that is not allowed, because a wider type may contain it
 */
export function handedOn<T extends object>(
  name: string,
  props: T | undefined,
  isFree: (key: string) => boolean,
): Partial<T> {
  const given = Object.entries(props ?? {}).filter(([, value]) => value !== undefined);
  refuse(
    given.map(([key]) =>
      isFree(key)
        ? undefined
        : `${name}.${key}: expected none, because a guarantee depends on it, got one; leave it out`,
    ),
  );
  return Object.fromEntries(given) as Partial<T>;
}

interface GivenNetwork {
  readonly vpc?: unknown;
  readonly subnets?: unknown;
  readonly securityGroups?: readonly unknown[] | undefined;
}

/** Returns problems with parts of a network that are given without the network. */
export function networkProblems({ vpc, subnets, securityGroups }: GivenNetwork): Problem[] {
  const without = Object.entries({ subnets, securityGroups }).map(
    ([name, part]): Rule => [
      vpc === undefined && part !== undefined,
      `${name}: expected only with a vpc, got it without one; give the vpc that it is part of`,
    ],
  );
  return brokenOf([
    ...without,
    [
      vpc !== undefined && securityGroups?.length === 0,
      'securityGroups: expected at least one, got none; leave it out for one that lets the function call HTTPS',
    ],
  ]);
}

/**
 * Adds a warning at synth. `Annotations.of(scoring).acknowledgeWarning('batchscore:<id>')` silences it.
 *
 * @param id without the prefix `batchscore:`
 * @param context to silence only some warnings of an ID, with
 * `Validations.of(scoring).acknowledge({ id, reason, where })`
 */
export function warn(scope: Construct, id: string, message: string, context?: Readonly<Record<string, string>>): void {
  Annotations.of(scope).addWarningV2(`batchscore:${id}`, message, context && { context });
}

/** Returns a statement as JSON on one line, to copy into a policy. */
export function statementText(scope: Construct, statement: PolicyStatement): string {
  return JSON.stringify(Stack.of(scope).resolve(statement.toStatementJson()), (_, value) =>
    isReference(value) ? plainText(value) : value,
  );
}

function isReference(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  const keys = Object.keys(value);
  return keys.length === 1 && /^(Ref|Fn::.+)$/.test(keys[0] ?? '');
}

/**
 * Returns a resolved value as readable text. References look as in cdk-nag: `<LogicalId.Attribute>` or `<Parameter>`.
 */
export function plainText(resolved: unknown): string {
  if (typeof resolved !== 'object' || resolved === null) return String(resolved);
  const [[kind, value] = []] = Object.entries(resolved);
  switch (kind) {
    case 'Fn::Join':
      return value[1].map(plainText).join(value[0]);
    case 'Fn::GetAtt':
      return `<${value[0]}.${value[1]}>`;
    case 'Ref':
      return `<${value}>`;
    default:
      return JSON.stringify(resolved);
  }
}
