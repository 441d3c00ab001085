import type { PolicyStatement } from 'aws-cdk-lib/aws-iam';
import { Annotations, type CfnResource, Stack, Token, Validations } from 'aws-cdk-lib/core';
import type { Construct, IConstruct } from 'constructs';

/** What is wrong with a setting: what was expected, what came and what to do. Undefined if nothing is. */
export type Problem = string | undefined;

/** So a number that is known at deployment alone, what is computed from one, and a list stand in a text. */
const TOKEN = /-\d[.\d]*e\+2[89]\d|#\{Token\[/;

/** @throws Error with every problem, if there is one. Of a value that is known at deployment alone nothing is said */
export function refuse(problems: readonly Problem[]): void {
  const found = problems.filter(
    (problem) => problem !== undefined && !Token.isUnresolved(problem) && !TOKEN.test(problem),
  );
  if (found.length > 0) throw new Error(found.join('; '));
}

/** What is wrong with a value that others are computed from, if it is a token: the deployment alone knows it. */
export function unknownAtSynth(name: string, ...values: readonly unknown[]): Problem {
  return values.some((value) => Token.isUnresolved(value)) ? `${name}: ${GOT_TOKEN}` : undefined;
}
export const GOT_TOKEN =
  'expected a value that is known at synth, because others are computed from it, got a token; write it out';

/** Wrong props of a construct: its path, then what is wrong with each prop. */
export class ValidationError extends Error {
  override readonly name = 'ValidationError';

  constructor(scope: IConstruct, problems: string) {
    super(`${scope.node.path}: ${problems}`);
  }
}

/**
 * Props that are handed on to the CDK, without those that are undefined, which would undo what stands before them.
 *
 * @param name of the prop that holds them
 * @throws Error naming one that is not theirs to give: a type with more members lets it pass
 */
export function handedOn<T extends object>(
  name: string,
  props: T | undefined,
  isFree: (key: string) => boolean,
): Partial<T> {
  const given = Object.entries(props ?? {}).filter(([, value]) => value !== undefined);
  const held = given.find(([key]) => !isFree(key));
  if (held !== undefined) {
    throw new Error(`${name}.${held[0]}: expected none, because a guarantee depends on it, got one; leave it out`);
  }
  return Object.fromEntries(given) as Partial<T>;
}

/** What some settings break together, and the sentence that says so. */
export type Rule = readonly [isBroken: boolean, sentence: string];

/** The sentences of the rules that are broken. */
export function brokenOf(rules: readonly Rule[]): Problem[] {
  return rules.flatMap(([isBroken, sentence]) => (isBroken ? [sentence] : []));
}

/** Returns true if both are given, and the first is the larger. */
export function exceeds(value: number | undefined, limit: number | undefined): boolean {
  return value !== undefined && limit !== undefined && value > limit;
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
  const isEmpty = vpc !== undefined && securityGroups?.length === 0;
  return brokenOf([
    ...without,
    [
      isEmpty,
      'securityGroups: expected at least one, got none; leave it out for one that lets the function call HTTPS',
    ],
  ]);
}

/**
 * Tells a validator, in apps that use one, why a rule of its is not followed.
 *
 * aws-cdk-lib before 2.269 refuses IDs with several `::`, as those with an ARN have; its own validators know none of them.
 */
export function acknowledge(scope: IConstruct, id: string, reason: string): void {
  try {
    Validations.of(scope).acknowledge({ id, reason });
  } catch (error) {
    if (!(error instanceof Error && error.name === 'InvalidValidationId')) throw error;
  }
}

/**
 * Tells cdk-nag, in apps that use it, why a policy has a wildcard in a resource.
 *
 * @param resourceArn as it stands in the policy
 */
export function acknowledgeWildcard(scope: Construct, resourceArn: string, reason: string): void {
  acknowledge(scope, `AwsSolutions-IAM5[Resource::${plainText(Stack.of(scope).resolve(resourceArn))}]`, reason);
}

/** Tells cdk-nag why a policy has wildcards in its actions. */
export function acknowledgeActions(scope: Construct, actions: readonly string[], reason: string): void {
  for (const action of actions) acknowledge(scope, `AwsSolutions-IAM5[Action::${action}]`, reason);
}

/** Tells cdk-nag why a role has a policy that AWS manages. @param needs such as `ECS needs to manage EC2 instances` */
export function acknowledgeManagedPolicy(role: IConstruct, policy: string, needs: string): void {
  acknowledge(
    role,
    `AwsSolutions-IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/${policy}]`,
    `AWS maintains the permissions that ${needs}; they change with the service`,
  );
}

/** How the packs of cdk-nag name a rule that HIPAA and NIST 800-53 share. */
const OF_STANDARDS = ['HIPAA.Security', 'NIST.800.53.R5'];

/** Tells the packs for HIPAA and NIST 800-53 why one of their rules is not followed anywhere in `scope`. */
export function acknowledgeStandards(scope: Construct, rule: string, reason: string): void {
  for (const pack of OF_STANDARDS) acknowledge(scope, `${pack}-${rule}`, reason);
}

/** A statement as JSON on one line, to be copied into a policy. */
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

/** A resolved value as a person reads it: references as `<LogicalId.Attribute>` or `<Parameter>`, as cdk-nag has them. */
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

/** The resource of a construct, to set what the construct has no option for. */
export function resourceOf<T extends CfnResource>(of: IConstruct, type: new (...args: never[]) => T): T {
  const resource = of.node.defaultChild;
  if (resource instanceof type) return resource;
  throw new Error(`${of.node.path}: expected a ${type.name} as its child, got ${resource?.node.path ?? 'none'}`);
}
