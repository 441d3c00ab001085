import { Validations } from 'aws-cdk-lib';
import { ManagedPolicy, Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import type { ILogGroup } from 'aws-cdk-lib/aws-logs';
import type { Construct } from 'constructs';

const MANAGED_POLICY = 'AWSLambdaManagedEC2ResourceOperator';

/** The role with which Lambda starts and terminates the instances. */
export function createOperatorRole(scope: Construct, logGroup: ILogGroup): Role {
  const role = new Role(scope, 'Operator', {
    assumedBy: new ServicePrincipal('lambda.amazonaws.com'),
    description: 'Lets Lambda manage the GPU instances',
    managedPolicies: [ManagedPolicy.fromAwsManagedPolicyName(MANAGED_POLICY)],
  });
  logGroup.grantWrite(role);
  Validations.of(role).acknowledge({
    id: `AwsSolutions-IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/${MANAGED_POLICY}]`,
    reason: 'AWS maintains the permissions that Lambda needs to manage EC2 instances; they change with the service',
  });
  return role;
}
