import { Validations } from 'aws-cdk-lib';
import type { IAlarm } from 'aws-cdk-lib/aws-cloudwatch';
import { LambdaDeploymentConfig, LambdaDeploymentGroup, type TrafficRouting } from 'aws-cdk-lib/aws-codedeploy';
import { Alias, type Function as LambdaFunction } from 'aws-cdk-lib/aws-lambda';
import type { Construct } from 'constructs';
import type { Rollout } from '../checks/rollout.ts';

const MANAGED_POLICY = 'service-role/AWSCodeDeployRoleForLambdaLimited';

/** The alias that leads to the published version; its environments are kept warm where that is asked for. */
export function createLiveAlias(
  scope: Construct,
  scoringFunction: LambdaFunction,
  { provisionedConcurrency }: Pick<Rollout, 'provisionedConcurrency'> = {},
): Alias {
  return new Alias(scope, 'Live', {
    aliasName: 'live',
    version: scoringFunction.currentVersion,
    ...(provisionedConcurrency !== undefined && { provisionedConcurrentExecutions: provisionedConcurrency }),
  });
}

/**
 * Has CodeDeploy lead the alias from one version to the next in steps, and back as soon as one of the alarms goes off.
 *
 * @see https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/aws-attribute-updatepolicy.html
 */
export function shiftInSteps(
  scope: Construct,
  alias: Alias,
  trafficRouting: TrafficRouting,
  alarms: readonly IAlarm[],
): void {
  const { role } = new LambdaDeploymentGroup(scope, 'Deployment', {
    alias,
    deploymentConfig: new LambdaDeploymentConfig(scope, 'Steps', { trafficRouting }),
    alarms: [...alarms],
  });
  Validations.of(role).acknowledge({
    id: `AwsSolutions-IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/${MANAGED_POLICY}]`,
    reason: 'AWS maintains the permissions that CodeDeploy needs to shift the traffic of a function',
  });
}
