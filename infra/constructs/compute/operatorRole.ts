import { Validations } from 'aws-cdk-lib';
import { ManagedPolicy, PolicyStatement, Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import type { ILogGroup } from 'aws-cdk-lib/aws-logs';
import type { Construct } from 'constructs';
import { acknowledgeActions } from '../base/acknowledge.ts';

const MANAGED_POLICY = 'AWSLambdaManagedEC2ResourceOperator';

/** The role with which Lambda starts and terminates the instances. */
export function createOperatorRole(scope: Construct, logGroup: ILogGroup, diskKey: IKey | undefined): Role {
  const role = new Role(scope, 'Operator', {
    assumedBy: new ServicePrincipal('lambda.amazonaws.com'),
    description: 'Lets Lambda manage the GPU instances',
    managedPolicies: [ManagedPolicy.fromAwsManagedPolicyName(MANAGED_POLICY)],
  });
  logGroup.grantWrite(role);
  if (diskKey !== undefined) allowDisks(role, diskKey);
  Validations.of(role).acknowledge({
    id: `AwsSolutions-IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/${MANAGED_POLICY}]`,
    reason: 'AWS maintains the permissions that Lambda needs to manage EC2 instances; they change with the service',
  });
  return role;
}

/**
 * EC2 decrypts the instances' disks with grants that whoever starts the instances gives it.
 *
 * @see https://docs.aws.amazon.com/ebs/latest/userguide/ebs-encryption-requirements.html#ebs-encryption-permissions
 */
function allowDisks(role: Role, key: IKey): void {
  key.grant(role, 'kms:Decrypt', 'kms:DescribeKey', 'kms:GenerateDataKeyWithoutPlaintext', 'kms:ReEncrypt*');
  role.addToPolicy(
    new PolicyStatement({
      actions: ['kms:CreateGrant'],
      resources: [key.keyArn],
      conditions: { Bool: { 'kms:GrantIsForAWSResource': true } },
    }),
  );
  acknowledgeActions(role, ['kms:ReEncrypt*'], 'These are variants of one action, on one key');
}
