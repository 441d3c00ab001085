import type { Alarm, Dashboard, MathExpression, Metric, MetricOptions } from 'aws-cdk-lib/aws-cloudwatch';
import type { ITable } from 'aws-cdk-lib/aws-dynamodb';
import type { Connections, IConnectable } from 'aws-cdk-lib/aws-ec2';
import type { Grant, IGrantable, IPrincipal } from 'aws-cdk-lib/aws-iam';
import type { IBucket } from 'aws-cdk-lib/aws-s3';
import type { IQueue } from 'aws-cdk-lib/aws-sqs';
import { CfnOutput, Stack } from 'aws-cdk-lib/core';
import { Construct } from 'constructs';
import type { MetricName } from '../../lambda/core/observer.ts';
import { RUNTIME_TELEMETRY_OFF } from '../../lambda/settings.ts';
import { keepLogsOf } from '../common/created.ts';
import { arnOfEvents, grantTell } from '../common/grants.ts';
import { oldestMessageAge, scoringMetric } from '../common/metrics.ts';
import { grantModels, modelSettings } from '../common/models.ts';
import { acknowledgeKeyActions } from '../common/nag.ts';
import { ValidationError } from '../common/problems.ts';
import { type Compute, type ComputeForm, environmentOf, type FunctionCompute } from '../compute/compute.ts';
import { lambdaCompute } from '../compute/lambdaCompute.ts';
import { type ContainerImage, createImage } from '../image/containerImage.ts';
import { hasGpu } from '../image/stageImage.ts';
import { Jobs } from '../jobs/scoringJobs.ts';
import { createAlarms } from '../monitoring/alarms.ts';
import { createDashboard } from '../monitoring/dashboard.ts';
import { capitalized } from '../stores/queueStore.ts';
import { Channels } from './channels.ts';
import { checkPlan, warnOfPlan } from './checks.ts';
import { type DeploymentPlan, makePlan } from './plan.ts';
import type { BatchScoringProps, ResultStores } from './props.ts';

type Resources = ResultStores & { readonly clientQueues?: Readonly<Record<string, IQueue>> };

/**
 * Scores messages with ONNX models. Creates request queues and a dead-letter queue, compute that takes batches from
 * them, result stores, permissions, alarms and a dashboard.
 *
 * Props that would fail in production fail when the construct is created. The error says what was expected, what was
 * given and what to do.
 *
 * @typeParam Created type of the created compute, taken from the prop `compute`
 */
export class BatchScoring<Created extends Compute = FunctionCompute>
  extends Construct
  implements IGrantable, IConnectable
{
  /** Queue that producers send to. With several shards, it is the first one. */
  readonly requestQueue: IQueue;
  /** Queues that producers spread their messages over, one for each shard. */
  readonly requestQueues: readonly IQueue[];
  /** Queue for urgent requests. Undefined without the prop `urgent`. */
  readonly urgentQueue: IQueue | undefined;
  /** Queue for messages that are received too often. Undefined if an existing queue is given without one. */
  readonly deadLetterQueue: IQueue | undefined;
  readonly resultQueue: IQueue | undefined;
  /** Result queues of clients, by the names in `clientQueues`. */
  readonly clientQueues: Readonly<Record<string, IQueue>>;
  readonly resultTable: ITable | undefined;
  readonly resultBucket: IBucket | undefined;
  /** Bucket for bodies and results that are too large for SQS or the table. */
  readonly payloadBucket: IBucket;
  /** Bucket for message samples. Undefined if none are kept. */
  readonly captureBucket: IBucket | undefined;
  readonly image: ContainerImage;
  /** Function with its alias and event source mappings, or service with its cluster. */
  readonly compute: Created;
  /** Resources that score files. Undefined without the prop `jobs`. */
  readonly jobs: Jobs | undefined;
  /** Principal that scores. Grant it the other permissions that a model's transform needs. */
  readonly grantPrincipal: IPrincipal;
  /** Value of the dimension `service` of each metric. */
  readonly serviceName: string;
  /** Alarms by name, such as `DeadLetters`. */
  readonly alarms: Readonly<Record<string, Alarm>>;
  /** Dashboard. Undefined with `dashboard: false`. */
  readonly dashboard: Dashboard | undefined;
  /** Client library's options for this deployment, by name. The values are tokens until the deployment. */
  readonly clientOptions: Readonly<Record<string, string>>;
  readonly #channels: Channels;

  /** @throws ValidationError if the props cannot work together, or the folder is not a model repository */
  constructor(scope: Construct, id: string, props: BatchScoringProps<Created>) {
    super(scope, id);
    const { children: before } = Stack.of(this).node;
    try {
      const form = props.compute ?? (lambdaCompute() as ComputeForm<Compute> as ComputeForm<Created>);
      const plan = makePlan(this, props, form);
      checkPlan(this, plan);
      const channels = new Channels(this, plan);
      const { allQueues: requestQueues } = channels;
      const environment = { ...props.environment, ...hostEnvironment(plan, channels.settings) };
      this.image = createImage(this, plan);
      // Each kind has its own scope, so a stack that changes kinds gets a new function instead of a changed one.
      const computeScope = new Construct(this, `Compute-${form.kind}`);
      const wiring = { ...plan, image: this.image, environment, requestQueues };
      const compute = form.create(computeScope, wiring);
      this.compute = compute;
      this.grantPrincipal = compute.grantPrincipal;
      channels.grantScoring(compute);
      props.encryptionKey?.grantDecrypt(compute);
      acknowledgeKeyActions(computeScope);
      // A role that the deployer gives has its policy elsewhere.
      if (Construct.isConstruct(compute.grantPrincipal)) acknowledgeKeyActions(compute.grantPrincipal);
      grantModels(computeScope, compute, plan.models);
      if (props.jobEvents !== undefined) grantTell(compute, props.jobEvents);
      this.jobs = plan.jobs && new Jobs(this, 'Jobs', plan.jobs, wiring);

      const subject = { ...plan, ...channels, compute, jobs: this.jobs };
      const alarms = createAlarms(new Construct(this, 'Alarms'), subject);
      this.alarms = alarms.byName;
      compute.shiftInSteps?.(alarms.ofVersions);
      // The CDK adds one function of each kind to a stack. Functions that were there before belong to the app.
      const added = Stack.of(this).node.children.filter((child) => !before.includes(child));
      keepLogsOf(new Construct(this, 'CustomResourceLogs'), added, plan);
      this.dashboard =
        props.dashboard === false ? undefined : createDashboard(this, subject, Object.values(alarms.byName));
      warnOfPlan(this, plan, channels);

      const stores: Resources = Object.assign({}, ...channels.stores.map(({ resources }) => resources));
      this.resultQueue = stores.resultQueue;
      this.clientQueues = stores.clientQueues ?? {};
      this.resultTable = stores.resultTable;
      this.resultBucket = stores.resultBucket;
      [this.requestQueue] = channels.requestQueues;
      this.requestQueues = channels.requestQueues;
      this.urgentQueue = channels.urgentQueue;
      this.deadLetterQueue = channels.deadLetterQueue;
      this.payloadBucket = channels.payloadBucket;
      this.captureBucket = channels.captureBucket;
      this.serviceName = plan.serviceName;
      this.clientOptions = { ...channels.clientOptions, ...this.jobs?.clientOptions };
      this.#channels = channels;
    } catch (error) {
      if (!(error instanceof ValidationError)) throw error;
      const refusal = new ValidationError(error.message, this);
      // The stack trace starts at the line that creates the construct.
      Error.captureStackTrace(refusal, new.target);
      throw refusal;
    }
  }

  /**
   * Network connections of the compute, for calls such as `scoring.connections.allowTo(database, port)`.
   * @throws ValidationError if the compute is in no network
   */
  get connections(): Connections {
    const { connections } = this.compute;
    if (connections !== undefined) return connections;
    const problem = 'connections: expected a compute in a network, got one that is in none; give lambdaCompute a vpc';
    throw new ValidationError(problem, this);
  }

  /** Lets a producer send requests, and upload those that are too large to send. */
  grantSubmit(grantee: IGrantable): Grant {
    return this.#channels.grantSubmit(grantee);
  }

  /** Lets a consumer take results from all stores of this deployment. */
  grantCollect(grantee: IGrantable): Grant {
    return this.#channels.grantCollect(grantee);
  }

  /**
   * Lets a user put files, submit, look up and cancel jobs, and fetch their output.
   * @throws ValidationError without the prop `jobs`
   */
  grantSubmitJobs(grantee: IGrantable): Grant {
    if (this.jobs === undefined) {
      throw new ValidationError('grantSubmitJobs: expected the prop jobs, got none; set it', this);
    }
    return this.jobs.grantSubmit(grantee);
  }

  /**
   * Lets an operator read and send back dead letters, empty the request and dead-letter queues, and switch the event
   * source mapping off and on.
   */
  grantOperate(grantee: IGrantable): Grant {
    const repair = this.#channels.grantRepair(grantee);
    const switched = this.compute.grantSwitch?.(grantee);
    return switched === undefined ? repair : repair.combine(switched);
  }

  /** Returns a metric over five minutes: the sum of counts, the average of shares, the median of times. */
  metric(metricName: MetricName, options?: MetricOptions): Metric {
    return scoringMetric(this.serviceName, metricName, options);
  }

  /** Returns the metric of seconds that the oldest request of all shards has waited. Maximum over five minutes. */
  metricOldestMessageAge(options?: MetricOptions): Metric | MathExpression {
    return oldestMessageAge(this.#channels.requestQueues, options);
  }

  /**
   * Adds a stack output for each of the `clientOptions`, under the same name. The commands take the file that
   * `cdk deploy --outputs-file` writes as `--stack`.
   *
   * @param scope of the outputs. For a second deployment in a stack, give a construct of your own. Its outputs have
   * longer names, which `--stack` does not find
   * @throws ValidationError if the scope has the outputs of another deployment
   */
  addClientOutputs(scope: Construct = Stack.of(this)): void {
    if (scope.node.tryFindChild('requestQueueUrl') !== undefined) {
      const problem = 'addClientOutputs: expected a scope without outputs of another deployment, got one that has them';
      throw new ValidationError(`${problem}; give a construct of your own, or a stack for each deployment`, this);
    }
    for (const [name, value] of Object.entries(this.clientOptions)) new CfnOutput(scope, name, { value });
    for (const [name, { queueUrl: value }] of Object.entries(this.clientQueues)) {
      new CfnOutput(scope, `resultQueueUrl${capitalized(name)}`, { value });
    }
  }
}

/** Elements of a run on a GPU: 445 pictures of 224 × 224. A GPU gains from larger runs than a processor. */
const GPU_BATCH_ELEMENTS = 67_108_864;

/** Returns the host's environment variables. For a setting that is left out, the runtime's default applies. */
function hostEnvironment(
  { props, batching, tuning, models, compute, logLevel, serviceName, events }: DeploymentPlan,
  ofChannels: Readonly<Record<string, unknown>>,
) {
  const onGpu = hasGpu(compute.imageTarget.stage);
  return {
    // A worker thread cannot set this variable, and Managed Instances run the handler in one.
    [RUNTIME_TELEMETRY_OFF]: '1',
    ...environmentOf({
      ...tuning,
      ...batching,
      ...modelSettings(models),
      ...ofChannels,
      defaultModel: props.defaultModel,
      // The runtime's own defaults are for a processor.
      providers: tuning.providers ?? (onGpu ? 'cuda' : undefined),
      maxBatchElements:
        tuning.maxBatchElements ?? (onGpu && tuning.providers !== 'cpu' ? GPU_BATCH_ELEMENTS : undefined),
      serviceName,
      logLevel,
      eventsArn: events && arnOfEvents(events),
    }),
  };
}
