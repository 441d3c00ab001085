import type { Grant, IGrantable } from 'aws-cdk-lib/aws-iam';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import type { Architecture, DockerImageFunction } from 'aws-cdk-lib/aws-lambda';
import type { IBucket } from 'aws-cdk-lib/aws-s3';
import type { StateMachine } from 'aws-cdk-lib/aws-stepfunctions';
import { Construct } from 'constructs';
import { JOB_TIMEOUT_SECONDS } from '../../../lambda/core/limits.ts';
import { acknowledgeStandards } from '../base/acknowledge.ts';
import { createBucket } from '../base/bucket.ts';
import type { Prices } from '../base/prices.ts';
import type { AlarmCondition, Graph } from '../compute/compute.ts';
import { createScoringFunction, type FunctionWiring } from '../compute/scoringFunction.ts';
import { grantModels } from '../permissions/modelPermissions.ts';
import { controlEnvironment, jobServiceName, scoreEnvironment } from './jobEnvironment.ts';
import { jobAlarms, jobGraphs, type MonitoredJobs, partsOf } from './monitoring.ts';
import { type StateMachineNames, stateMachineNames } from './names.ts';
import { notifyOfFiles } from './notification.ts';
import type { JobSettings } from './options.ts';
import { grantJobs, grantResume, grantStart, grantSubmitJobs, type JobPlaces } from './permissions.ts';
import { createStateMachine } from './stateMachine.ts';

/** What a deployment has for jobs. */
export interface Jobs {
  /** Where files are put, and what is scored is written. */
  readonly bucket: IBucket;
  readonly stateMachine: StateMachine;
  /** Plans and scores; grant it whatever else a model's transform needs. */
  readonly scoreFunction: DockerImageFunction;
  /** Starts and ends jobs. */
  readonly controlFunction: DockerImageFunction;
  readonly alarms: readonly AlarmCondition[];
  readonly graphs: readonly Graph[];
  /** The client library's options for jobs, by name. */
  readonly clientOptions: Readonly<Record<string, string>>;
  grantSubmit(grantee: IGrantable): Grant;
}

interface JobWiring extends FunctionWiring {
  readonly formerEncryptionKey: IKey | undefined;
  readonly serviceName: string;
  readonly architecture: Architecture;
  readonly prices: Prices;
}

/** Ending a job reads a report of every piece: a whole vCPU does so ten times as fast as the least memory. */
const CONTROL_MEMORY_MB = 1769;

/** Two functions of the deployment's image, the state machine that calls them, and the bucket that they work in. */
export function createJobs(scope: Construct, settings: JobSettings, wiring: JobWiring): Jobs {
  const { serviceName, architecture, encryptionKey, removalPolicy, prices } = wiring;
  const bucket = settings.bucket ?? createBucket(scope, 'Bucket', { encryptionKey, removalPolicy });
  const places: JobPlaces = { ...settings, bucket };
  const names = stateMachineNames(scope);
  const score = createScore(new Construct(scope, 'Score'), settings, places, wiring);
  const control = createControl(new Construct(scope, 'Control'), settings, places, names, wiring);
  const stateMachine = createStateMachine(scope, { ...wiring, ...places, names, score, control });
  notifyOfFiles(bucket, settings.inputPrefix, control);
  const monitored: MonitoredJobs = {
    stateMachine,
    parts: partsOf(stateMachine),
    score,
    control,
    priced: { architecture, memoryMb: settings.memoryMb },
    serviceName: jobServiceName(serviceName),
    prices,
  };
  return {
    bucket,
    stateMachine,
    scoreFunction: score,
    controlFunction: control,
    alarms: jobAlarms(monitored),
    graphs: jobGraphs(monitored),
    clientOptions: {
      jobStateMachine: names.arn,
      jobBucket: bucket.bucketName,
      jobInputPrefix: settings.inputPrefix,
      jobOutputPrefix: settings.outputPrefix,
      jobConcurrency: String(settings.concurrency),
    },
    grantSubmit: (grantee) => grantSubmitJobs(grantee, places, names, wiring),
  };
}

function createScore(
  scope: Construct,
  settings: JobSettings,
  places: JobPlaces,
  wiring: JobWiring,
): DockerImageFunction {
  const { environment, serviceName, architecture, models } = wiring;
  const score = createScoringFunction(
    scope,
    {
      architecture,
      memoryMb: settings.memoryMb,
      timeoutSeconds: JOB_TIMEOUT_SECONDS,
      reservedConcurrency: settings.reservedConcurrency,
      network: settings,
      entry: { command: 'jobScore.handler', description: 'plans and scores jobs' },
    },
    { ...wiring, environment: scoreEnvironment(environment, serviceName, settings) },
  );
  grantJobs(scope, score, places, wiring);
  grantResume(scope, score, places);
  grantModels(scope, score, models);
  return score;
}

function createControl(
  scope: Construct,
  settings: JobSettings,
  places: JobPlaces,
  names: StateMachineNames,
  wiring: JobWiring,
): DockerImageFunction {
  const { environment, serviceName, architecture } = wiring;
  const where = { bucketName: places.bucket.bucketName, stateMachineArn: names.arn };
  const control = createScoringFunction(
    scope,
    {
      architecture,
      memoryMb: CONTROL_MEMORY_MB,
      timeoutSeconds: JOB_TIMEOUT_SECONDS,
      network: settings,
      entry: { command: 'jobControl.handler', description: 'starts and ends jobs' },
    },
    { ...wiring, models: {}, environment: controlEnvironment(environment, serviceName, settings, where) },
  );
  grantJobs(scope, control, places, wiring);
  grantStart(control, names);
  acknowledgeStandards(
    scope,
    'LambdaConcurrency',
    'It is called once for a file and once for a job, of which none may wait',
  );
  return control;
}
