// Acknowledges findings of cdk-nag that a deployment keeps, with the reasons. It has no effect in apps without cdk-nag.

import { Stack, Validations } from 'aws-cdk-lib/core';
import type { IConstruct } from 'constructs';

/** Rules of AWS Solutions and of aws-cdk-lib's own validator. */
const RULES = {
  bucketLogs: [
    'AwsSolutions-S1',
    'Server access logs would double the requests; CloudTrail data events serve an audit',
  ],
  resultQueue: [
    'AwsSolutions-SQS3',
    'No consumer can fail on a result, so none needs dead letters; a result that nobody collects expires',
  ],
  taskEnvironment: [
    'AwsSolutions-ECS2',
    'The environment holds names and limits, which change with the task, and no secrets',
  ],
  stateMachineEvents: [
    'AwsSolutions-SF1',
    'Errors alone are logged: a large job has a hundred thousand children, each of which would log every step',
  ],
  stateMachineTraces: [
    'AwsSolutions-SF2',
    'Tracing is a prop of the whole deployment, and off unless it says otherwise',
  ],
  handlerPolicy: [
    'AwsSolutions-IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/service-role/AWSLambdaBasicExecutionRole]',
    'The CDK gives its function for notifications the managed policy to write its log',
  ],
  handlerBuckets: [
    'AwsSolutions-IAM5[Resource::*]',
    'The function for notifications reads those of existing buckets, by names that it is told',
  ],
  handlerRuntime: ['AwsSolutions-L1', 'The CDK chooses the runtime of its function for notifications'],
  acceleratorSchema: [
    'CloudFormation-Validate::F3002',
    'AcceleratorConfig is newer than the schema that this version of aws-cdk-lib validates against',
  ],
} as const;

/** Reasons for wildcards in the resources of a policy. */
const WILDCARDS = {
  objects: 'Objects with these keys are many, and their whole keys are not known before',
  traces: 'The permission to send traces knows no resources',
  interfaces: 'Lambda makes the network interfaces, whose names nobody knows before',
  ecrLogin: 'A login at ECR is for all of its repositories; images are pulled from one',
  tasks: 'A task gets its name when it starts; the cluster has no others',
  pollEndpoint: 'The address to poll is asked for before an instance is part of a cluster',
  instances: 'Instances get their names when they register; the cluster has no others',
  executions: 'Executions have names of their own',
  logDelivery: 'The permissions to set up the delivery of logs, and to send traces, know no resources',
} as const;

export function acknowledge(scope: IConstruct, rule: keyof typeof RULES): void {
  const [id, reason] = RULES[rule];
  acknowledgeId(scope, id, reason);
}

/** @param resourceArn as the policy contains it */
export function acknowledgeWildcard(scope: IConstruct, resourceArn: string, reason: keyof typeof WILDCARDS): void {
  const resource = plainText(Stack.of(scope).resolve(resourceArn));
  acknowledgeId(scope, `AwsSolutions-IAM5[Resource::${resource}]`, WILDCARDS[reason]);
}

/**
 * Returns a resolved value as cdk-nag shows it. References look like `<LogicalId.Attribute>` or `<Parameter>`.
 */
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

/** Acknowledges the wildcards in KMS actions of the CDK's own grants. */
export function acknowledgeKeyActions(scope: IConstruct): void {
  for (const action of ['kms:GenerateDataKey*', 'kms:ReEncrypt*']) {
    acknowledgeId(scope, `AwsSolutions-IAM5[Action::${action}]`, 'These are variants of one action, on one key');
  }
}

/** Acknowledges a policy that AWS manages. @param needs reason, such as `ECS needs to manage EC2 instances` */
export function acknowledgeManagedPolicy(role: IConstruct, policy: string, needs: string): void {
  acknowledgeId(
    role,
    `AwsSolutions-IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/${policy}]`,
    `AWS maintains the permissions that ${needs}; they change with the service`,
  );
}

/**
 * Acknowledges an ID. aws-cdk-lib before 2.269 refuses IDs with several `::`, such as those with an ARN. Its own
 * validators do not use such IDs.
 */
function acknowledgeId(scope: IConstruct, id: string, reason: string): void {
  try {
    Validations.of(scope).acknowledge({ id, reason });
  } catch (error) {
    if (!(error instanceof Error && error.name === 'InvalidValidationId')) throw error;
  }
}
