import { type App, Stack } from 'aws-cdk-lib';
import { SnsAction } from 'aws-cdk-lib/aws-cloudwatch-actions';
import { Key } from 'aws-cdk-lib/aws-kms';
import { RetentionDays } from 'aws-cdk-lib/aws-logs';
import { Topic } from 'aws-cdk-lib/aws-sns';
import type { Construct } from 'constructs';
import { BatchScoring } from '../constructs/batchScoring.ts';
import type { ComputeForm } from '../constructs/compute/compute.ts';
import { lambdaCompute } from '../constructs/compute/lambda.ts';
import { lambdaGpuCompute } from '../constructs/compute/lambdaGpu.ts';
import type { Settings } from './contextKeys.ts';
import { readPrices } from './readPrices.ts';

/** The stack that the settings describe. A key that is also a prop of the construct means the same there. */
export function createStack(app: App, settings: Settings): Stack {
  const { stackName, prices, logRetentionDays, maxBatchRows, checkPercent, encryption, alarmTopicArn } = settings;
  const stack = new Stack(app, stackName, { description: 'batchscore: batch scoring of ONNX models' });
  const scoring = new BatchScoring(stack, 'Scoring', {
    ...settings,
    compute: computeOf(settings),
    logRetention: retentionOf(logRetentionDays),
    encryptionKey: encryption === 'kms' ? createKey(stack) : undefined,
    alarmActions: alarmTopicArn === undefined ? [] : [notify(stack, alarmTopicArn)],
    prices: prices === undefined ? {} : readPrices(prices),
    tuning: { maxBatchRows, checkPercent },
  });
  scoring.addClientOutputs();
  return stack;
}

function computeOf(settings: Settings): ComputeForm {
  switch (settings.compute) {
    case 'lambda':
      return lambdaCompute(settings);
    case 'lambda-gpu':
      return lambdaGpuCompute(settings);
  }
}

function createKey(scope: Construct): Key {
  return new Key(scope, 'Key', { enableKeyRotation: true, description: 'batchscore: queues, stores and logs' });
}

function notify(scope: Construct, topicArn: string): SnsAction {
  return new SnsAction(Topic.fromTopicArn(scope, 'AlarmTopic', topicArn));
}

function retentionOf(days: number | undefined): RetentionDays | undefined {
  if (days === undefined) return undefined;
  const allowed = Object.values(RetentionDays).filter((value) => typeof value === 'number');
  const found = allowed.find((value) => value === days);
  if (found !== undefined) return found;
  throw new Error(`logRetentionDays: expected one of ${allowed.join(', ')}, got ${days}; take one of them`);
}
