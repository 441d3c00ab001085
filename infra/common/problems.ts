import type { PolicyStatement } from 'aws-cdk-lib/aws-iam';
import { Annotations, Stack, Token } from 'aws-cdk-lib/core';
import type { Construct, IConstruct } from 'constructs';
import { outside as outsideRange, type Range } from '../../lambda/core/limits.ts';

/** What is wrong with a prop: what was expected, what came and what to do. Undefined if nothing is. */
export type Problem = string | undefined;

/** Wrong props of a construct: its path, then what is wrong with each prop. Nothing else throws it. */
export class ValidationError extends Error {
  override readonly name = 'ValidationError';

  /** @param scope left out where only the construct above knows its path, which it adds */
  constructor(problems: string, scope?: IConstruct) {
    super(scope === undefined ? problems : `${scope.node.path}: ${problems}`);
  }
}

/** @throws ValidationError with every problem, if there is one */
export function refuse(problems: readonly Problem[]): void {
  const found = problems.filter((problem) => problem !== undefined);
  if (found.length > 0) throw new ValidationError(found.join('; '));
}

/**
 * Runs code that the commands share, which refuses with plain errors.
 *
 * @throws ValidationError with their messages. Errors of the system, such as a full disk, pass as they are
 */
export function refusing<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (!(error instanceof Error) || error.name !== 'Error' || 'errno' in error) throw error;
    throw new ValidationError(error.message);
  }
}

/** Some props break a rule together, and the sentence that says so. A rule reads tokens through `known`, or not at all. */
export type Rule = readonly [isBroken: boolean, sentence: string];

/** Returns the sentences of the rules that are broken. */
export function brokenOf(rules: readonly Rule[]): Problem[] {
  return rules.flatMap(([isBroken, sentence]) => (isBroken ? [sentence] : []));
}

/** Returns a value that synth knows; undefined for a token, whose value only the deployment knows. */
export function known<T>(value: T): T | undefined {
  return Token.isUnresolved(value) ? undefined : value;
}

/** Returns a value as sentences show it. */
export function shown(value: unknown, unit = ''): string {
  return Token.isUnresolved(value) ? 'a token' : `${value}${unit}`;
}

/** Returns true if both are known, and the first is the larger. */
export function exceeds(value: number | undefined, limit: number | undefined): boolean {
  const [amount, most] = [known(value), known(limit)];
  return amount !== undefined && most !== undefined && amount > most;
}

/** Returns what is wrong with a number that must be whole and in a range. Tokens and undefined pass. */
export function outside(name: string, value: number | undefined, range: Range, unit?: string): Problem {
  return outsideRange(name, known(value), range, unit);
}

/** Returns what is wrong with a value that must be one of a closed list. Tokens and undefined pass. */
export function oneOf(name: string, value: unknown, allowed: readonly unknown[]): Problem {
  if (known(value) === undefined || allowed.includes(value)) return undefined;
  return `${name}: expected one of ${allowed.join(', ')}, got ${value}; take one of them`;
}

/** Returns what is wrong with values that others are computed from, if one is a token. */
export function unknownAtSynth(name: string, ...values: readonly unknown[]): Problem {
  return values.some((value) => Token.isUnresolved(value)) ? `${name}: ${GOT_TOKEN}` : undefined;
}
export const GOT_TOKEN =
  'expected a value that is known at synth, because others are computed from it, got a token; write it out';

/**
 * Returns props that are handed on to the CDK, without those that are undefined, which would undo what stands before them.
 *
 * @param name of the prop that holds them
 * @throws ValidationError naming one that is not theirs to give: a type with more members lets it pass
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

/** Parts of a network mean nothing without it. */
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
 * Says at synth what works but may fail later. `Annotations.of(scoring).acknowledgeWarning('batchscore:<id>')` silences it.
 *
 * @param id without the prefix `batchscore:`
 * @param context by which `Validations.of(scoring).acknowledge({ id, reason, where })` silences some of an ID alone
 */
export function warn(scope: Construct, id: string, message: string, context?: Readonly<Record<string, string>>): void {
  Annotations.of(scope).addWarningV2(`batchscore:${id}`, message, context && { context });
}

/** Returns a statement as JSON on one line, to be copied into a policy. */
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

/** Returns a resolved value as a person reads it: references as `<LogicalId.Attribute>` or `<Parameter>`, as cdk-nag has them. */
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
