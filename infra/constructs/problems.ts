import { Annotations } from 'aws-cdk-lib';
import type { Construct } from 'constructs';

/** What is wrong with a setting: what was expected, what came and what to do. Undefined if nothing is. */
export type Problem = string | undefined;

/** @throws Error with every problem, if there is one */
export function refuse(problems: readonly Problem[]): void {
  const found = problems.filter((problem) => problem !== undefined);
  if (found.length > 0) throw new Error(found.join('; '));
}

/** What is wrong with a value that must be one of a closed list. An undefined one is left to its default. */
export function oneOf(name: string, value: unknown, allowed: readonly unknown[]): Problem {
  if (value === undefined || allowed.includes(value)) return undefined;
  return `${name}: expected one of ${allowed.join(', ')}, got ${value}; take one of them`;
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

/** Parts of a network mean nothing without it. */
export function networkProblems({
  vpc,
  subnets,
  securityGroups,
}: {
  readonly vpc?: unknown;
  readonly subnets?: unknown;
  readonly securityGroups?: readonly unknown[] | undefined;
}): Problem[] {
  if (vpc !== undefined) return [securityGroups?.length === 0 ? NO_GROUP : undefined];
  const given = Object.entries({ subnets, securityGroups }).filter(([, value]) => value !== undefined);
  return given.map(
    ([name]) => `${name}: expected only with a vpc, got it without one; give the vpc that it is part of`,
  );
}

const NO_GROUP =
  'securityGroups: expected at least one, got none; leave it out for one that lets the function call HTTPS';
