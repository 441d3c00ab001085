import { MathExpression } from 'aws-cdk-lib/aws-cloudwatch';
import { type IEventBus, Rule } from 'aws-cdk-lib/aws-events';
import { LambdaFunction } from 'aws-cdk-lib/aws-events-targets';
import { Grant, type IGrantable, PolicyStatement } from 'aws-cdk-lib/aws-iam';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import type { DockerImageFunction, IFunction } from 'aws-cdk-lib/aws-lambda';
import { EventType, type IBucket } from 'aws-cdk-lib/aws-s3';
import { LambdaDestination } from 'aws-cdk-lib/aws-s3-notifications';
import type { ITopic } from 'aws-cdk-lib/aws-sns';
import {
  CustomerManagedEncryptionConfiguration,
  DefinitionBody,
  type IStateMachine,
  LogLevel,
  StateMachine,
} from 'aws-cdk-lib/aws-stepfunctions';
import { ArnFormat, Duration, Names, Stack, Tokenization } from 'aws-cdk-lib/core';
import { Construct } from 'constructs';
import { JOB_RANGES, JOB_TIMEOUT_SECONDS } from '../../lambda/core/limits.ts';
import { CONFIG_KEYS, CONFIG_PREFIX, JOB_CONFIG_KEYS, JOB_SCORE_SETTINGS } from '../../lambda/settings.ts';
import { createBucket, createLogGroup, type LogGroupOptions } from '../common/created.ts';
import { combine, grantObjects, grantPut, grantRead, grantTell } from '../common/grants.ts';
import { type AlarmCondition, AT_MOST, type Graph, PERIOD, SUM, scoringMetric } from '../common/metrics.ts';
import { grantModels } from '../common/models.ts';
import { acknowledge, acknowledgeWildcard } from '../common/nag.ts';
import type { ComputeForm } from '../compute/compute.ts';
import { createScoringFunction, type FunctionWiring, functionGraph } from '../compute/scoringFunction.ts';
import { jobDefinition, MAP_LABEL } from './jobDefinition.ts';
import type { JobSettings } from './jobOptions.ts';

export interface Jobs {
  readonly bucket: IBucket;
  readonly stateMachine: StateMachine;
  /** Function that plans and scores. Grant it the other permissions that a model's transform needs. */
  readonly scoreFunction: DockerImageFunction;
  /** Function that starts and ends jobs. */
  readonly controlFunction: DockerImageFunction;
  readonly alarms: readonly AlarmCondition[];
  readonly graphs: readonly Graph[];
  /** Client library's options for jobs, by name. */
  readonly clientOptions: Readonly<Record<string, string>>;
  grantSubmit(grantee: IGrantable): Grant;
}

interface JobWiring extends FunctionWiring {
  /** Compute that scores messages. Jobs have the same image and the same room for models. */
  readonly form: ComputeForm;
  /** Bus or topic that gets an event for each job that ends. */
  readonly events: IEventBus | ITopic | undefined;
  readonly serviceName: string;
}

/**
 * Memory of the control function. Ending a job reads a report of each piece, and a whole vCPU is ten times as fast at
 * that as the minimum memory.
 */
const CONTROL_MEMORY_MB = 1769;

type Places = JobSettings & { readonly bucket: IBucket };

/** Creates two functions of the deployment's image, the state machine that calls them, and their bucket. */
export function createJobs(scope: Construct, settings: JobSettings, wiring: JobWiring): Jobs {
  const { encryptionKey, removalPolicy } = wiring;
  const bucket = settings.bucket ?? createBucket(scope, 'Bucket', { encryptionKey, removalPolicy });
  const places: Places = { ...settings, bucket };
  // A separate service name keeps the rows and errors of jobs out of the alarms on messages.
  const serviceName = `${wiring.serviceName}-jobs`;
  const names = stateMachineNames(scope);
  const score = createScore(new Construct(scope, 'Score'), places, serviceName, wiring);
  const control = createControl(new Construct(scope, 'Control'), places, serviceName, names, wiring);
  const stateMachine = createStateMachine(scope, { ...wiring, ...places, names, score, control });
  if (wiring.events !== undefined) tellOfEnds(scope, stateMachine, names, control, wiring.events);
  notifyOfFiles(bucket, settings.inputPrefix, control);
  const monitored = { stateMachine, parts: partsOf(stateMachine), score, control, serviceName };
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
      jobConcurrency: Tokenization.stringifyNumber(settings.concurrency),
    },
    grantSubmit: (grantee) => grantSubmitJobs(grantee, places, names, encryptionKey),
  };
}

const MIB = 1024 * 1024;

/** Variables that the scoring function takes from the host. It has its own service name. */
const OF_SCORING: readonly string[] = Object.values(JOB_SCORE_SETTINGS)
  .map(({ variable }) => variable)
  .filter((variable) => variable !== CONFIG_KEYS.serviceName);

/** Returns the host's variables with these keys, and those that the deployer adds. */
function only(keys: readonly string[], host: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(host).filter(([key]) => keys.includes(key) || !key.startsWith(CONFIG_PREFIX)),
  );
}

function createScore(scope: Construct, places: Places, serviceName: string, wiring: JobWiring): DockerImageFunction {
  const environment = {
    ...only(OF_SCORING, wiring.environment),
    [CONFIG_KEYS.serviceName]: serviceName,
    [JOB_CONFIG_KEYS.jobsPartBytes]: String(places.partMb * MIB),
    [JOB_CONFIG_KEYS.jobsPieceBytes]: String(JOB_RANGES.pieceBytes.default),
  };
  const score = createScoringFunction(
    scope,
    {
      architecture: wiring.form.imageTarget.architecture,
      memoryMb: places.memoryMb,
      ephemeralStorageMb: wiring.form.ephemeralStorageMb,
      timeoutSeconds: JOB_TIMEOUT_SECONDS,
      reservedConcurrency: places.reservedConcurrency,
      network: places,
      command: 'jobScore.handler',
      does: 'plans and scores jobs',
    },
    { ...wiring, environment },
  );
  grantJobs(score, places, wiring.encryptionKey);
  // Resuming a job deletes the files that ended it, but no scored ones.
  const ends = OF_AN_END.map((name) => `${places.outputPrefix}*/${name}`);
  grantObjects(score, places.bucket, ['s3:DeleteObject'], ends);
  grantModels(scope, score, wiring.models);
  return score;
}

function createControl(
  scope: Construct,
  places: Places,
  serviceName: string,
  names: StateMachineNames,
  wiring: JobWiring,
): DockerImageFunction {
  const environment = {
    ...only([CONFIG_KEYS.logLevel, CONFIG_KEYS.eventsArn], wiring.environment),
    [CONFIG_KEYS.serviceName]: serviceName,
    [JOB_CONFIG_KEYS.jobsBucket]: places.bucket.bucketName,
    [JOB_CONFIG_KEYS.jobsInputPrefix]: places.inputPrefix,
    [JOB_CONFIG_KEYS.jobsOutputPrefix]: places.outputPrefix,
    [JOB_CONFIG_KEYS.jobsStateMachine]: names.arn,
    [JOB_CONFIG_KEYS.jobsConcurrency]: Tokenization.stringifyNumber(places.concurrency),
  };
  const control = createScoringFunction(
    scope,
    {
      architecture: wiring.form.imageTarget.architecture,
      memoryMb: CONTROL_MEMORY_MB,
      timeoutSeconds: JOB_TIMEOUT_SECONDS,
      network: places,
      command: 'jobControl.handler',
      does: 'starts and ends jobs',
    },
    { ...wiring, models: {}, environment },
  );
  grantJobs(control, places, wiring.encryptionKey);
  Grant.addToPrincipal({ grantee: control, actions: ['states:StartExecution'], resourceArns: [names.arn] });
  return control;
}

/** ID of the CDK's function that writes bucket notifications. A stack has only one. */
const HANDLER = 'BucketNotificationsHandler050a0587b7544547bf325f094a3db834';

/**
 * Makes S3 notify a function of each file that is put under a prefix. Other notifications of an existing bucket are
 * kept.
 *
 * @see https://docs.aws.amazon.com/AmazonS3/latest/userguide/EventNotifications.html
 */
function notifyOfFiles(bucket: IBucket, prefix: string, target: IFunction): void {
  bucket.addEventNotification(EventType.OBJECT_CREATED, new LambdaDestination(target), { prefix });
  const handler = Stack.of(bucket).node.tryFindChild(HANDLER);
  if (handler === undefined) return;
  for (const rule of ['handlerPolicy', 'handlerBuckets', 'handlerRuntime'] as const) acknowledge(handler, rule);
}

/**
 * Makes EventBridge call the function for each execution that ends, because a cancelled execution cannot run a last
 * state. The function reads the execution itself, because events do not contain data that a customer managed key
 * encrypts.
 *
 * @see https://docs.aws.amazon.com/step-functions/latest/dg/eventbridge-integration.html
 */
function tellOfEnds(
  scope: Construct,
  { stateMachineArn }: IStateMachine,
  { executions }: StateMachineNames,
  control: IFunction,
  events: IEventBus | ITopic,
): void {
  new Rule(scope, 'Ended', {
    eventPattern: {
      source: ['aws.states'],
      detailType: ['Step Functions Execution Status Change'],
      detail: { stateMachineArn: [stateMachineArn], status: ['SUCCEEDED', 'FAILED', 'TIMED_OUT', 'ABORTED'] },
    },
    targets: [new LambdaFunction(control)],
  });
  grantTell(control, events);
  const [own] = executions;
  Grant.addToPrincipal({ grantee: control, actions: ['states:DescribeExecution'], resourceArns: [own] });
  acknowledgeWildcard(scope, own, 'executions');
}

interface StateMachineOptions extends LogGroupOptions {
  readonly names: StateMachineNames;
  readonly score: IFunction;
  readonly control: IFunction;
  readonly bucket: IBucket;
  readonly outputPrefix: string;
  readonly tracing: boolean;
}

/** Maximum time that Step Functions can reuse a data key before it calls KMS again. */
const KEY_REUSE = Duration.minutes(15);

/** Creates the state machine of jobs, with only the permissions that its definition needs. */
function createStateMachine(scope: Construct, options: StateMachineOptions): StateMachine {
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
    tracingEnabled: tracing || undefined,
    encryptionConfiguration: encryptionKey && new CustomerManagedEncryptionConfiguration(encryptionKey, KEY_REUSE),
  });
  grantStates(stateMachine, options);
  acknowledge(stateMachine, 'stateMachineEvents');
  if (!tracing) acknowledge(stateMachine, 'stateMachineTraces');
  return stateMachine;
}

/** @see https://docs.aws.amazon.com/step-functions/latest/dg/iam-policies-eg-dist-map.html */
function grantStates(stateMachine: StateMachine, options: StateMachineOptions): void {
  const { names, score, control, bucket, outputPrefix } = options;
  const allow = (actions: string[], resources: readonly string[]) =>
    stateMachine.addToRolePolicy(new PolicyStatement({ actions, resources: [...resources] }));
  const ofAnswers = ['s3:PutObject', 's3:GetObject', 's3:ListMultipartUploadParts', 's3:AbortMultipartUpload'];
  allow(['lambda:InvokeFunction'], [score.functionArn, control.functionArn]);
  grantObjects(
    stateMachine,
    bucket,
    ['s3:GetObject'],
    [`${outputPrefix}*/plan.jsonl`, `${outputPrefix}*/resume-*.jsonl`],
  );
  grantObjects(stateMachine, bucket, ofAnswers, [`${outputPrefix}*/map/*`]);
  allow(['states:StartExecution'], [names.arn]);
  allow(['states:DescribeExecution', 'states:StopExecution'], names.executions);
  bucket.encryptionKey?.grant(stateMachine, 'kms:Decrypt', 'kms:GenerateDataKey');
  for (const arn of names.executions) acknowledgeWildcard(stateMachine, arn, 'executions');
  acknowledgeWildcard(stateMachine, '*', 'logDelivery');
}

/** Names of a state machine before it exists, because one of its functions must know them. */
interface StateMachineNames {
  readonly name: string;
  readonly arn: string;
  /** ARN patterns of its executions, and of the children of its map. */
  readonly executions: readonly [own: string, children: string];
}

/** Returns names from the construct's path, so that two deployments in a stack differ. */
function stateMachineNames(scope: Construct): StateMachineNames {
  const name = Names.uniqueResourceName(scope, { separator: '-', maxLength: 80 });
  const arn = (resource: string, resourceName: string): string =>
    Stack.of(scope).formatArn({
      service: 'states',
      resource,
      resourceName,
      arnFormat: ArnFormat.COLON_RESOURCE_NAME,
    });
  return {
    name,
    arn: arn('stateMachine', name),
    executions: [arn('execution', `${name}:*`), arn('execution', `${name}/${MAP_LABEL}:*`)],
  };
}

/**
 * Grants the permissions of both functions: read files, read and write job output, and use the key of their
 * environment.
 */
function grantJobs(grantee: IGrantable, { bucket, inputPrefix, outputPrefix }: Places, key: IKey | undefined): void {
  grantRead(grantee, bucket, inputPrefix);
  grantRead(grantee, bucket, outputPrefix);
  grantPut(grantee, bucket, outputPrefix);
  key?.grantDecrypt(grantee);
}

/** Files of a job that are deleted when it is resumed or restarted: the reasons of its end, and earlier plans. */
const OF_AN_END = ['manifest.json', 'failure.json', 'cancelled', 'failed/*', 'suspects/*', 'resume-*.jsonl'];

/**
 * Grants the permissions of a user who submits jobs: put files, start and look up jobs, fetch their output, and cancel
 * them. Cancelling writes a file in the job's folder, which resuming deletes.
 */
function grantSubmitJobs(
  grantee: IGrantable,
  { bucket, inputPrefix, outputPrefix }: Places,
  { arn, executions }: StateMachineNames,
  key: IKey | undefined,
): Grant {
  // Input and output of an execution are encrypted with the state machine's key.
  key?.grantDecrypt(grantee);
  const on = (actions: string[], resourceArns: string[]) => Grant.addToPrincipal({ grantee, actions, resourceArns });
  return combine([
    grantRead(grantee, bucket, inputPrefix),
    grantPut(grantee, bucket, inputPrefix),
    grantRead(grantee, bucket, outputPrefix),
    grantObjects(grantee, bucket, ['s3:PutObject'], [`${outputPrefix}*/cancelled`]),
    on(['states:StartExecution'], [arn]),
    on(['states:DescribeExecution', 'states:StopExecution'], [executions[0]]),
  ]);
}

interface MonitoredJobs {
  readonly stateMachine: IStateMachine;
  readonly parts: IStateMachine;
  readonly score: IFunction;
  readonly control: IFunction;
  readonly serviceName: string;
}

function jobAlarms({ stateMachine, score, control }: MonitoredJobs): AlarmCondition[] {
  const once = { threshold: 0, periods: 1 };
  return [
    {
      id: 'JobsFailed',
      description: 'A job ended without a manifest. `batchscore job status` says why.',
      metric: stateMachine.metricFailed(SUM),
      ...once,
    },
    {
      id: 'JobThrottles',
      description:
        'Calls that score jobs have been refused for lack of concurrency for an hour: jobs wait for each other.',
      metric: new MathExpression({
        label: 'throttled',
        period: PERIOD,
        expression: 'FILL(calls, 0) + FILL(executions, 0)',
        usingMetrics: { calls: score.metricThrottles(SUM), executions: stateMachine.metricThrottled(SUM) },
      }),
      threshold: 0,
      periods: 12,
    },
    {
      id: 'JobScoreErrors',
      description:
        'A call that scores a part of a job failed, or ran out of time or memory. A piece that fails every time is left ' +
        'out: failedParts of the manifest names it.',
      metric: score.metricErrors(SUM),
      ...once,
    },
    {
      id: 'JobControlErrors',
      description: 'The function that starts and ends jobs failed. Put a file that no job came of again, or submit it.',
      metric: control.metricErrors(SUM),
      ...once,
    },
  ];
}

function jobGraphs({ stateMachine, parts, score, serviceName }: MonitoredJobs): Graph[] {
  return [
    {
      title: 'Jobs, and how long they take',
      left: [
        stateMachine.metricStarted({ ...SUM, label: 'started' }),
        stateMachine.metricSucceeded({ ...SUM, label: 'succeeded' }),
        stateMachine.metricFailed({ ...SUM, label: 'failed' }),
        stateMachine.metricAborted({ ...SUM, label: 'cancelled' }),
      ],
      right: [stateMachine.metricTime({ ...AT_MOST, label: 'ms, longest' })],
    },
    {
      title: 'Parts of jobs',
      left: [
        parts.metricStarted({ ...SUM, label: 'started' }),
        parts.metricSucceeded({ ...SUM, label: 'succeeded' }),
        parts.metricFailed({ ...SUM, label: 'failed' }),
      ],
    },
    {
      ...functionGraph(score, JOB_TIMEOUT_SECONDS),
      title: `Calls that score jobs, and how long they take of ${JOB_TIMEOUT_SECONDS} s`,
    },
    {
      title: 'Rows of jobs per second',
      left: [
        new MathExpression({
          label: 'rows per second',
          period: PERIOD,
          expression: 'jobRows / PERIOD(jobRows)',
          usingMetrics: { jobRows: scoringMetric(serviceName, 'Rows') },
        }),
      ],
    },
  ];
}

/**
 * Returns the children of the map, whose metrics have the label of the map.
 *
 * @see https://docs.aws.amazon.com/step-functions/latest/dg/concepts-examine-map-run.html
 */
function partsOf(stateMachine: IStateMachine): IStateMachine {
  return StateMachine.fromStateMachineArn(stateMachine, 'Children', `${stateMachine.stateMachineArn}/${MAP_LABEL}`);
}
