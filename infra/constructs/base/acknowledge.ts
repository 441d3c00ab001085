import { Stack, Validations } from 'aws-cdk-lib';
import type { Construct } from 'constructs';

/**
 * Tells cdk-nag, in apps that use it, why a policy has a wildcard in a resource.
 *
 * @param resourceArn as it stands in the policy
 */
export function acknowledgeWildcard(scope: Construct, resourceArn: string, reason: string): void {
  const id = `AwsSolutions-IAM5[Resource::${flatten(Stack.of(scope).resolve(resourceArn))}]`;
  Validations.of(scope).acknowledge({ id, reason });
}

/** Tells cdk-nag why a policy has wildcards in its actions. */
export function acknowledgeActions(scope: Construct, actions: readonly string[], reason: string): void {
  for (const action of actions) {
    Validations.of(scope).acknowledge({ id: `AwsSolutions-IAM5[Action::${action}]`, reason });
  }
}

/** An ARN as cdk-nag writes it: one string, with references as `<LogicalId.Attribute>` or `<Parameter>`. */
function flatten(node: unknown): string {
  if (typeof node !== 'object' || node === null) return String(node);
  const [[kind, value] = []] = Object.entries(node);
  switch (kind) {
    case 'Fn::Join':
      return value[1].map(flatten).join(value[0]);
    case 'Fn::GetAtt':
      return `<${value[0]}.${value[1]}>`;
    case 'Ref':
      return `<${value}>`;
    default:
      return JSON.stringify(node);
  }
}
