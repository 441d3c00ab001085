import { Duration, Stack, Validations } from 'aws-cdk-lib';
import { PolicyStatement } from 'aws-cdk-lib/aws-iam';
import type { IFunction } from 'aws-cdk-lib/aws-lambda';
import type { IBucket } from 'aws-cdk-lib/aws-s3';
import {
  CustomerManagedEncryptionConfiguration,
  DefinitionBody,
  LogLevel,
  StateMachine,
} from 'aws-cdk-lib/aws-stepfunctions';
import type { Construct } from 'constructs';
import { acknowledgeWildcard } from '../base/acknowledge.ts';
import { createLogGroup, type LogGroupOptions } from '../base/logGroup.ts';
import { jobDefinition } from './definition.ts';
import type { StateMachineNames } from './names.ts';
import { grantUnknownKey } from './permissions.ts';

interface StateMachineOptions extends LogGroupOptions {
  readonly names: StateMachineNames;
  readonly score: IFunction;
  readonly control: IFunction;
  readonly bucket: IBucket;
  readonly outputPrefix: string;
  readonly tracing: boolean;
}

/** Keys are read for so long before KMS is asked again: the longest that Step Functions takes. */
const KEY_REUSE = Duration.minutes(15);

const WHY_NOT_ALL_EVENTS =
  'Errors alone are logged: a large job has a hundred thousand children, each of which would log every step';
const WHY_NOT_TRACED = 'Tracing is a setting of the whole deployment, off unless the prop says otherwise';

/** The state machine of jobs, which may do what its definition says and nothing else. */
export function createStateMachine(scope: Construct, options: StateMachineOptions): StateMachine {
  const { names, score, control, encryptionKey, tracing } = options;
  const definition = jobDefinition({
    scoreFunctionArn: score.functionArn,
    controlFunctionArn: control.functionArn,
    partition: Stack.of(scope).partition,
  });
  const stateMachine = new StateMachine(scope, 'StateMachine', {
    stateMachineName: names.name,
    definitionBody: DefinitionBody.fromString(Stack.of(scope).toJsonString(definition)),
    logs: {
      destination: createLogGroup(scope, 'StatesLog', options),
      level: LogLevel.ERROR,
      includeExecutionData: false,
    },
    ...(tracing && { tracingEnabled: true }),
    ...(encryptionKey !== undefined && {
      encryptionConfiguration: new CustomerManagedEncryptionConfiguration(encryptionKey, KEY_REUSE),
    }),
  });
  grantStates(stateMachine, options);
  Validations.of(stateMachine).acknowledge({ id: 'AwsSolutions-SF1', reason: WHY_NOT_ALL_EVENTS });
  if (!tracing) Validations.of(stateMachine).acknowledge({ id: 'AwsSolutions-SF2', reason: WHY_NOT_TRACED });
  return stateMachine;
}

/** @see https://docs.aws.amazon.com/step-functions/latest/dg/iam-policies-eg-dist-map.html */
function grantStates(stateMachine: StateMachine, options: StateMachineOptions): void {
  const { names, score, control, bucket, outputPrefix, encryptionKey } = options;
  const allow = (actions: string[], resources: readonly string[]) =>
    stateMachine.addToRolePolicy(new PolicyStatement({ actions, resources: [...resources] }));
  const plans = ['plan.jsonl', 'resume-*.jsonl'].map((name) => bucket.arnForObjects(`${outputPrefix}*/${name}`));
  const answers = bucket.arnForObjects(`${outputPrefix}*/map/*`);
  allow(['lambda:InvokeFunction'], [score.functionArn, control.functionArn]);
  allow(['s3:GetObject'], plans);
  allow(['s3:PutObject', 's3:GetObject', 's3:ListMultipartUploadParts', 's3:AbortMultipartUpload'], [answers]);
  allow(['states:StartExecution'], [names.arn]);
  allow(['states:DescribeExecution', 'states:StopExecution'], names.executions);
  bucket.encryptionKey?.grant(stateMachine, 'kms:Decrypt', 'kms:GenerateDataKey');
  grantUnknownKey(stateMachine, bucket, encryptionKey);
  const acknowledge = (arn: string, reason: string) => acknowledgeWildcard(stateMachine, arn, reason);
  for (const arn of [...plans, answers]) acknowledge(arn, 'Every job has a folder of its own');
  for (const arn of names.executions) acknowledge(arn, 'Its children are executions with names of their own');
  acknowledge('*', 'The permissions to set up the delivery of logs, and to send traces, know no resources');
}
