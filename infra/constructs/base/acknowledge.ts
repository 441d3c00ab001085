import { Stack, Validations } from 'aws-cdk-lib';
import type { Construct } from 'constructs';

/**
 * Says to cdk-nag, where an app uses it, why a policy names a resource with a wildcard.
 *
 * @param resourceArn as the policy has it
 */
export function acknowledgeWildcard(scope: Construct, resourceArn: string, reason: string): void {
  const id = `AwsSolutions-IAM5[Resource::${flatten(Stack.of(scope).resolve(resourceArn))}]`;
  Validations.of(scope).acknowledge({ id, reason });
}

/** Says to cdk-nag why a policy names actions with a wildcard. */
export function acknowledgeActions(scope: Construct, actions: readonly string[], reason: string): void {
  for (const action of actions) {
    Validations.of(scope).acknowledge({ id: `AwsSolutions-IAM5[Action::${action}]`, reason });
  }
}

/** How cdk-nag writes an ARN: references as `<LogicalId.Attribute>` or `<Parameter>`, all in one text. */
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
