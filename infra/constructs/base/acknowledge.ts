import { Stack, Validations } from 'aws-cdk-lib';
import type { Construct } from 'constructs';
import { plainText } from './plainText.ts';

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
