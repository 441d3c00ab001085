import { SnsAction } from 'aws-cdk-lib/aws-cloudwatch-actions';
import { TrafficRouting } from 'aws-cdk-lib/aws-codedeploy';
import { EventBus } from 'aws-cdk-lib/aws-events';
import { Key } from 'aws-cdk-lib/aws-kms';
import { Architecture } from 'aws-cdk-lib/aws-lambda';
import { RetentionDays } from 'aws-cdk-lib/aws-logs';
import { Bucket } from 'aws-cdk-lib/aws-s3';
import { Topic } from 'aws-cdk-lib/aws-sns';
import { type App, Duration, RemovalPolicy, Size, Stack } from 'aws-cdk-lib/core';
import type { Construct } from 'constructs';
import type { Compute, ComputeForm } from './compute/compute.ts';
import { ecsCompute, ecsGpuCompute } from './compute/ecsCompute.ts';
import { lambdaCompute, lambdaGpuCompute } from './compute/lambdaCompute.ts';
import { BatchScoring } from './constructs/batchScoring.ts';
import type { BatchScoringProps } from './constructs/props.ts';
import type { Settings } from './context.ts';
import type { JobOptions } from './jobs/jobOptions.ts';
import { readPrices } from './priceList.ts';

/** Two periods of the alarms, and what their metrics are late by. */
const DEFAULT_CANARY_MINUTES = 15;

const ARCHITECTURES = { arm64: Architecture.ARM_64, x86_64: Architecture.X86_64 };

/** The stack that the settings describe. A key that is also a prop of the construct means the same there. */
export function createStack(app: App, settings: Settings): Stack {
  const stack = new Stack(app, settings.stackName, { description: 'batchscore: batch scoring of ONNX models' });
  new BatchScoring(stack, 'Scoring', propsOf(stack, settings)).addClientOutputs();
  return stack;
}

/** The construct's props. @param scope of what is made for them: a key, and what exists already */
export function propsOf(scope: Construct, settings: Settings): BatchScoringProps<Compute> {
  const { prices, logRetentionDays, maxBatchRows, checkPercent, encryption, formerKeyArn, alarmTopicArn } = settings;
  return {
    ...settings,
    compute: computeOf(settings),
    window: mapDefined(settings.windowSeconds, Duration.seconds),
    latencyTarget: mapDefined(settings.latencyTargetSeconds, Duration.seconds),
    largestMessage: mapDefined(settings.largestMessageBytes, Size.bytes),
    resultMessageSize: mapDefined(settings.resultMessageBytes, Size.bytes),
    resultTtl: mapDefined(settings.resultTtlSeconds, Duration.seconds),
    resultExpiry: mapDefined(settings.resultExpiryDays, Duration.days),
    payloadExpiry: mapDefined(settings.payloadExpiryDays, Duration.days),
    capture: mapDefined(settings.capturePercent, (percent) => ({
      percent,
      expiry: mapDefined(settings.captureExpiryDays, Duration.days),
    })),
    removalPolicy: settings.retainData === false ? RemovalPolicy.DESTROY : RemovalPolicy.RETAIN,
    logRetention: retentionOf(logRetentionDays),
    encryptionKey: encryption === 'kms' ? createKey(scope) : undefined,
    formerEncryptionKey: mapDefined(formerKeyArn, (arn) => Key.fromKeyArn(scope, 'FormerKey', arn)),
    jobEvents: mapDefined(settings.eventsArn, (arn) =>
      arn.includes(':sns:') ? Topic.fromTopicArn(scope, 'Events', arn) : EventBus.fromEventBusArn(scope, 'Events', arn),
    ),
    alarmActions: alarmTopicArn === undefined ? [] : [notify(scope, alarmTopicArn)],
    alarmThresholds: settings,
    prices: prices === undefined ? {} : readPrices(prices),
    tuning: { maxBatchRows, checkPercent },
    imageBuild: settings,
    jobs: settings.jobs === true ? jobsOf(scope, settings) : undefined,
  };
}

function computeOf(settings: Settings): ComputeForm {
  const options = {
    ...settings,
    architecture: settings.architecture && ARCHITECTURES[settings.architecture],
    memorySize: mapDefined(settings.memoryMb, Size.mebibytes),
    timeout: mapDefined(settings.timeoutSeconds, Duration.seconds),
    stopTimeout: mapDefined(settings.stopTimeoutSeconds, Duration.seconds),
    ephemeralStorageSize: mapDefined(settings.ephemeralStorageMb, Size.mebibytes),
    gpuMemory: mapDefined(settings.gpuMemoryGiB, Size.gibibytes),
    trafficRouting: mapDefined(settings.canaryPercent, (percentage) => canary(percentage, settings.canaryMinutes)),
  };
  switch (settings.compute) {
    case 'lambda':
      return lambdaCompute(options);
    case 'lambda-gpu':
      return lambdaGpuCompute(options);
    case 'ecs':
      return ecsCompute(options);
    case 'ecs-gpu':
      return ecsGpuCompute(options);
  }
}

function jobsOf(scope: Construct, settings: Settings): JobOptions {
  return {
    bucket: mapDefined(settings.jobsBucket, (name) => Bucket.fromBucketName(scope, 'JobsBucket', name)),
    inputPrefix: settings.jobsInputPrefix,
    outputPrefix: settings.jobsOutputPrefix,
    concurrency: settings.jobsConcurrency,
    reservedConcurrency: settings.jobsReservedConcurrency,
    memorySize: mapDefined(settings.jobsMemoryMb, Size.mebibytes),
    partSize: mapDefined(settings.jobsPartMb, Size.mebibytes),
  };
}

function canary(percentage: number, minutes = DEFAULT_CANARY_MINUTES): TrafficRouting {
  return TrafficRouting.timeBasedCanary({ percentage, interval: Duration.minutes(minutes) });
}

/** What the CDK makes of a value, if one was given. */
function mapDefined<A, T>(value: A | undefined, toType: (value: A) => T): T | undefined {
  return value === undefined ? undefined : toType(value);
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
