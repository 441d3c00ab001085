import { Stack, Validations } from 'aws-cdk-lib';
import type { PolicyStatement } from 'aws-cdk-lib/aws-iam';
import type { Construct } from 'constructs';

/**
 * Tells cdk-nag, in apps that use it, why a policy has a wildcard in a resource.
 *
 * @param resourceArn as it stands in the policy
 */
export function acknowledgeWildcard(scope: Construct, resourceArn: string, reason: string): void {
  const id = `AwsSolutions-IAM5[Resource::${plainText(Stack.of(scope).resolve(resourceArn))}]`;
  Validations.of(scope).acknowledge({ id, reason });
}

/** Tells cdk-nag why a policy has wildcards in its actions. */
export function acknowledgeActions(scope: Construct, actions: readonly string[], reason: string): void {
  for (const action of actions) {
    Validations.of(scope).acknowledge({ id: `AwsSolutions-IAM5[Action::${action}]`, reason });
  }
}

/** How the packs of cdk-nag name a rule that HIPAA and NIST 800-53 share. */
const OF_STANDARDS = ['HIPAA.Security', 'NIST.800.53.R5'];

/** Tells the packs for HIPAA and NIST 800-53 why one of their rules is not followed anywhere in `scope`. */
export function acknowledgeStandards(scope: Construct, rule: string, reason: string): void {
  for (const pack of OF_STANDARDS) Validations.of(scope).acknowledge({ id: `${pack}-${rule}`, reason });
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
