import { MathExpression } from 'aws-cdk-lib/aws-cloudwatch';
import { type IEventBus, Rule } from 'aws-cdk-lib/aws-events';
import { LambdaFunction } from 'aws-cdk-lib/aws-events-targets';
import type { Grant, IGrantable } from 'aws-cdk-lib/aws-iam';
import type { DockerImageFunction, IFunction } from 'aws-cdk-lib/aws-lambda';
import { Bucket, EventType, type IBucket } from 'aws-cdk-lib/aws-s3';
import { LambdaDestination } from 'aws-cdk-lib/aws-s3-notifications';
import type { ITopic } from 'aws-cdk-lib/aws-sns';
import {
  CustomerManagedEncryptionConfiguration,
  DefinitionBody,
  LogLevel,
  StateMachine,
} from 'aws-cdk-lib/aws-stepfunctions';
import { ArnFormat, Duration, Names, Stack, Tokenization } from 'aws-cdk-lib/core';
import { Construct } from 'constructs';
import { JOB_TIMEOUT_SECONDS } from '../../lambda/core/limits.ts';
import { CONFIG_KEYS, CONFIG_PREFIX, JOB_CONFIG_KEYS, JOB_SCORE_SETTINGS } from '../../lambda/settings.ts';
import { createBucket, createLogGroup } from '../common/created.ts';
import { allow, combine, grantObjects, grantPut, grantRead, grantTell } from '../common/grants.ts';
import { type AlarmCondition, AT_MOST, type Graph, PERIOD, SUM, scoringMetric } from '../common/metrics.ts';
import { grantModels } from '../common/models.ts';
import { acknowledge, acknowledgeWildcard } from '../common/nag.ts';
import type { Wiring } from '../compute/compute.ts';
import { createScoringFunction, functionGraph, type ScoringFunctionOptions } from '../compute/scoringFunction.ts';
import { jobDefinition, MAP_LABEL } from './jobDefinition.ts';
import type { JobSettings } from './jobOptions.ts';

/**
 * Memory of the control function. Ending a job reads a report of each piece, and a whole vCPU is ten times as fast at
 * that as the minimum memory.
 */
const CONTROL_MEMORY_MB = 1769;

/** Files of a job that are deleted when it is resumed or restarted: the reasons of its end, and earlier plans. */
const OF_AN_END = ['manifest.json', 'failure.json', 'cancelled', 'failed/*', 'resume-*.jsonl'];

/** Maximum time that Step Functions can reuse a data key before it calls KMS again. */
const KEY_REUSE = Duration.minutes(15);

/** Two functions of the deployment's image that score files, the state machine that calls them, and their bucket. */
export class Jobs extends Construct {
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
  readonly #settings: JobSettings;
  readonly #wiring: Wiring;
  /** The state machine's name comes from the construct's path, so that two deployments in a stack differ. */
  readonly #name: string;
  readonly #arn: string;
  /** ARN patterns of its executions, and of the children of its map. */
  readonly #executions: readonly [own: string, children: string];

  constructor(scope: Construct, id: string, settings: JobSettings, wiring: Wiring) {
    super(scope, id);
    this.#settings = settings;
    // A separate service name keeps the rows and errors of jobs out of the alarms on messages.
    this.#wiring = { ...wiring, serviceName: `${wiring.serviceName}-jobs` };
    // One of the functions must know the state machine before it exists.
    this.#name = Names.uniqueResourceName(this, { separator: '-', maxLength: 80 });
    this.#arn = this.#arnOf('stateMachine', this.#name);
    this.#executions = [
      this.#arnOf('execution', `${this.#name}:*`),
      this.#arnOf('execution', `${this.#name}/${MAP_LABEL}:*`),
    ];
    this.bucket = settings.bucket ?? createBucket(this, 'Bucket', wiring);
    this.scoreFunction = this.#createScore();
    this.controlFunction = this.#createControl();
    this.stateMachine = this.#createStateMachine();
    if (wiring.events !== undefined) this.#tellOfEnds(wiring.events);
    notifyOfFiles(this.bucket, settings.inputPrefix, this.controlFunction);
    this.alarms = jobAlarms(this);
    this.graphs = jobGraphs(this, this.#wiring.serviceName);
    this.clientOptions = {
      jobStateMachine: this.#arn,
      jobBucket: this.bucket.bucketName,
      jobInputPrefix: settings.inputPrefix,
      jobOutputPrefix: settings.outputPrefix,
      jobConcurrency: Tokenization.stringifyNumber(settings.concurrency),
    };
  }

  /**
   * Grants the permissions of a user who submits jobs: put files, start and look up jobs, fetch their output, and cancel
   * them. Cancelling writes a file in the job's folder, which resuming deletes.
   */
  grantSubmit(grantee: IGrantable): Grant {
    const { inputPrefix, outputPrefix } = this.#settings;
    // Input and output of an execution are encrypted with the state machine's key.
    this.#wiring.encryptionKey?.grantDecrypt(grantee);
    return combine([
      grantRead(grantee, this.bucket, inputPrefix),
      grantPut(grantee, this.bucket, inputPrefix),
      grantRead(grantee, this.bucket, outputPrefix),
      grantObjects(grantee, this.bucket, ['s3:PutObject'], [`${outputPrefix}*/cancelled`]),
      allow(grantee, ['states:StartExecution'], [this.#arn]),
      allow(grantee, ['states:DescribeExecution', 'states:StopExecution'], [this.#executions[0]]),
    ]);
  }

  #arnOf(resource: string, resourceName: string): string {
    const arnFormat = ArnFormat.COLON_RESOURCE_NAME;
    return Stack.of(this).formatArn({ service: 'states', resource, resourceName, arnFormat });
  }

  #createScore(): DockerImageFunction {
    const { compute, environment, serviceName, models } = this.#wiring;
    const { memoryMb, reservedConcurrency, outputPrefix } = this.#settings;
    const score = this.#createFunction(
      'Score',
      {
        memoryMb,
        ephemeralStorageMb: compute.ephemeralStorageMb,
        reservedConcurrency,
        command: 'jobScore.handler',
        does: 'plans and scores jobs',
        calls: 'S3',
      },
      { ...only(OF_SCORING, environment), [CONFIG_KEYS.serviceName]: serviceName },
    );
    // Resuming a job deletes the files that ended it, but no scored ones.
    const ends = OF_AN_END.map((name) => `${outputPrefix}*/${name}`);
    grantObjects(score, this.bucket, ['s3:DeleteObject'], ends);
    grantModels(this, score, models);
    return score;
  }

  #createControl(): DockerImageFunction {
    const { environment, serviceName } = this.#wiring;
    const { inputPrefix, outputPrefix, concurrency } = this.#settings;
    const control = this.#createFunction(
      'Control',
      {
        memoryMb: CONTROL_MEMORY_MB,
        command: 'jobControl.handler',
        does: 'starts and ends jobs',
        calls: 'Step Functions',
      },
      {
        ...only([CONFIG_KEYS.logLevel, CONFIG_KEYS.eventsArn], environment),
        [CONFIG_KEYS.serviceName]: serviceName,
        [JOB_CONFIG_KEYS.jobsBucket]: this.bucket.bucketName,
        [JOB_CONFIG_KEYS.jobsInputPrefix]: inputPrefix,
        [JOB_CONFIG_KEYS.jobsOutputPrefix]: outputPrefix,
        [JOB_CONFIG_KEYS.jobsStateMachine]: this.#arn,
        [JOB_CONFIG_KEYS.jobsConcurrency]: Tokenization.stringifyNumber(concurrency),
      },
      {},
    );
    allow(control, ['states:StartExecution'], [this.#arn]);
    return control;
  }

  /** Creates a function that may read files, read and write job output, and use the key of its environment. */
  #createFunction(
    id: string,
    options: Omit<ScoringFunctionOptions, 'architecture' | 'timeoutSeconds' | 'network'>,
    environment: Record<string, string>,
    models = this.#wiring.models,
  ): DockerImageFunction {
    const { inputPrefix, outputPrefix } = this.#settings;
    const { architecture } = this.#wiring.compute.imageTarget;
    const created = createScoringFunction(
      new Construct(this, id),
      { ...options, architecture, timeoutSeconds: JOB_TIMEOUT_SECONDS, network: this.#settings },
      { ...this.#wiring, environment, models },
    );
    grantRead(created, this.bucket, inputPrefix);
    grantRead(created, this.bucket, outputPrefix);
    grantPut(created, this.bucket, outputPrefix);
    this.#wiring.encryptionKey?.grantDecrypt(created);
    return created;
  }

  /**
   * Creates the state machine, with only the permissions that its definition needs.
   *
   * @see https://docs.aws.amazon.com/step-functions/latest/dg/iam-policies-eg-dist-map.html
   */
  #createStateMachine(): StateMachine {
    const { encryptionKey, tracing } = this.#wiring;
    const { outputPrefix } = this.#settings;
    const functions = [this.scoreFunction.functionArn, this.controlFunction.functionArn] as const;
    const definition = jobDefinition({
      scoreFunctionArn: functions[0],
      controlFunctionArn: functions[1],
      partition: Stack.of(this).partition,
    });
    const stateMachine = new StateMachine(this, 'StateMachine', {
      stateMachineName: this.#name,
      definitionBody: DefinitionBody.fromString(Stack.of(this).toJsonString(definition)),
      logs: {
        destination: createLogGroup(this, 'StatesLog', this.#wiring),
        level: LogLevel.ERROR,
        includeExecutionData: false,
      },
      tracingEnabled: tracing || undefined,
      encryptionConfiguration: encryptionKey && new CustomerManagedEncryptionConfiguration(encryptionKey, KEY_REUSE),
    });
    const plans = [`${outputPrefix}*/plan.jsonl`, `${outputPrefix}*/resume-*.jsonl`];
    const ofAnswers = ['s3:PutObject', 's3:GetObject', 's3:ListMultipartUploadParts', 's3:AbortMultipartUpload'];
    allow(stateMachine, ['lambda:InvokeFunction'], functions);
    grantObjects(stateMachine, this.bucket, ['s3:GetObject'], plans);
    grantObjects(stateMachine, this.bucket, ofAnswers, [`${outputPrefix}*/map/*`]);
    allow(stateMachine, ['states:StartExecution'], [this.#arn]);
    allow(stateMachine, ['states:DescribeExecution', 'states:StopExecution'], this.#executions);
    this.bucket.encryptionKey?.grant(stateMachine, 'kms:Decrypt', 'kms:GenerateDataKey');
    for (const arn of this.#executions) acknowledgeWildcard(stateMachine, arn, 'executions');
    acknowledgeWildcard(stateMachine, '*', 'logDelivery');
    acknowledge(stateMachine, 'stateMachineEvents');
    if (!tracing) acknowledge(stateMachine, 'stateMachineTraces');
    return stateMachine;
  }

  /**
   * Makes EventBridge call the function for each execution that ends, because a cancelled execution cannot run a last
   * state. The function reads the execution itself, because events do not contain data that a customer managed key
   * encrypts.
   *
   * @see https://docs.aws.amazon.com/step-functions/latest/dg/eventbridge-integration.html
   */
  #tellOfEnds(events: IEventBus | ITopic): void {
    const { stateMachineArn } = this.stateMachine;
    new Rule(this, 'Ended', {
      eventPattern: {
        source: ['aws.states'],
        detailType: ['Step Functions Execution Status Change'],
        detail: { stateMachineArn: [stateMachineArn], status: ['SUCCEEDED', 'FAILED', 'TIMED_OUT', 'ABORTED'] },
      },
      targets: [new LambdaFunction(this.controlFunction)],
    });
    grantTell(this.controlFunction, events);
    allow(this.controlFunction, ['states:DescribeExecution'], [this.#executions[0]]);
    acknowledgeWildcard(this, this.#executions[0], 'executions');
  }
}

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

/** ID of the CDK's function that writes bucket notifications. A stack has only one. */
const HANDLER = 'BucketNotificationsHandler050a0587b7544547bf325f094a3db834';

/**
 * Makes S3 notify a function of each file that is put under a prefix. Other notifications of an existing bucket are
 * kept.
 *
 * @see https://docs.aws.amazon.com/AmazonS3/latest/userguide/EventNotifications.html
 */
function notifyOfFiles(bucket: IBucket, prefix: string, target: IFunction): void {
  const stack = Stack.of(target);
  // A bucket of another stack cannot name a function of this one, but this one can set the notifications of the bucket.
  const notifying = Stack.of(bucket) === stack ? bucket : Bucket.fromBucketName(target, 'Files', bucket.bucketName);
  notifying.addEventNotification(EventType.OBJECT_CREATED, new LambdaDestination(target), { prefix });
  const handler = stack.node.tryFindChild(HANDLER);
  if (handler === undefined) return;
  for (const rule of ['handlerPolicy', 'handlerBuckets', 'handlerRuntime'] as const) acknowledge(handler, rule);
}

function jobAlarms({ stateMachine, scoreFunction: score, controlFunction: control }: Jobs): AlarmCondition[] {
  return [
    {
      id: 'JobsFailed',
      description: 'A job ended without a manifest. `batchscore job status` says why.',
      metric: stateMachine.metricFailed(SUM),
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
      evaluationPeriods: 12,
    },
    {
      id: 'JobScoreErrors',
      description:
        'A call that scores a part of a job failed, or ran out of time or memory. A piece that fails every time is left ' +
        'out: failedParts of the manifest names it.',
      metric: score.metricErrors(SUM),
    },
    {
      id: 'JobControlErrors',
      description: 'The function that starts and ends jobs failed. Put a file that no job came of again, or submit it.',
      metric: control.metricErrors(SUM),
    },
  ];
}

function jobGraphs({ stateMachine, scoreFunction: score }: Jobs, serviceName: string): Graph[] {
  // The children of the map have metrics of their own, under its label.
  const parts = StateMachine.fromStateMachineArn(
    stateMachine,
    'Children',
    `${stateMachine.stateMachineArn}/${MAP_LABEL}`,
  );
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
