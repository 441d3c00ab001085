import {
  type AdjustmentTier,
  AdjustmentType,
  CfnScalingPolicy,
  MetricAggregationType,
  ScalableTarget,
  Schedule,
  StepScalingAction,
} from 'aws-cdk-lib/aws-applicationautoscaling';
import {
  Alarm,
  ComparisonOperator,
  type IMetric,
  MathExpression,
  Metric,
  type MetricOptions,
  Stats,
  TreatMissingData,
} from 'aws-cdk-lib/aws-cloudwatch';
import { ApplicationScalingAction } from 'aws-cdk-lib/aws-cloudwatch-actions';
import type { IVpc } from 'aws-cdk-lib/aws-ec2';
import {
  AvailabilityZoneRebalancing,
  AwsLogDriverMode,
  type BaseService,
  Cluster,
  Compatibility,
  ContainerImage,
  ContainerInsights,
  CpuArchitecture,
  FargateService,
  LogDriver,
  NetworkMode,
  OperatingSystemFamily,
  PropagatedTagSource,
  TaskDefinition,
} from 'aws-cdk-lib/aws-ecs';
import type { IRole } from 'aws-cdk-lib/aws-iam';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import type { IQueue } from 'aws-cdk-lib/aws-sqs';
import { Duration, Names, Size, Stack } from 'aws-cdk-lib/core';
import type { Construct } from 'constructs';
import { createLogGroup, type Queues, warnOfKeyPolicy } from '../common/created.ts';
import { hostRole } from '../common/given.ts';
import { allow } from '../common/grants.ts';
import { type AlarmCondition, AT_MOST, type Graph, PERIOD, scoringMetric, together } from '../common/metrics.ts';
import { acknowledge, acknowledgeWildcard } from '../common/nag.ts';
import { MIB_PER_GIB } from '../common/units.ts';
import { type Batching, type Compute, environmentOf, type Wiring } from './compute.ts';
import { createPrivateNetwork, type ENDPOINTS_OF_TASKS, type Network } from './privateNetwork.ts';
import { minWorkerVisibility, type ServiceSettings } from './serviceOptions.ts';

export interface ServiceCompute extends Compute {
  readonly cluster: Cluster;
  readonly service: FargateService;
  readonly taskDefinition: TaskDefinition;
}

/** Options of a task, as plain numbers with defaults. */
interface Settings extends ServiceSettings {
  readonly architecture: { readonly name: string };
  readonly vcpus: number;
  readonly memoryMb: number;
  readonly ephemeralStorageMb?: number | undefined;
  /** GPUs of a task. @default none */
  readonly gpuCount?: number;
  /** Seconds from a request for a task until the task scores. */
  readonly startSeconds: number;
}

/** Launch type of a service's tasks. */
interface Launch {
  readonly compatibility: Compatibility;
  /** Endpoints of a new network. */
  readonly endpoints: typeof ENDPOINTS_OF_TASKS;
  /** Returns the name of the capacity provider, which it may create. */
  capacityOf(scope: Construct, cluster: Cluster, network: Network): string;
}

/** Default backlog of a task, in batches. */
const BATCHES_PER_TASK = 10;

/** Returns the parts that all services of workers share. */
export function workerForm(settings: Settings, launch: Launch) {
  const { timeoutSeconds, minimumTasks, startSeconds } = settings;
  return {
    feed: 'worker' as const,
    timeoutSeconds,
    wakeSeconds: minimumTasks > 0 ? 0 : QUEUE_WAKES_SECONDS + startSeconds,
    minVisibility: (batching: Batching) => minWorkerVisibility(timeoutSeconds, batching),
    create: (scope: Construct, wiring: Wiring) => createService(scope, settings, launch, wiring),
  };
}

/** Creates a service, with scaling unless it is switched off. */
function createService(scope: Construct, settings: Settings, launch: Launch, wiring: Wiring): ServiceCompute {
  const { startSeconds, maximumTasks } = settings;
  const { requestQueues, batching, eventSourceEnabled } = wiring;
  const network = createPrivateNetwork(scope, settings, wiring, launch.endpoints);
  const cluster = createCluster(scope, network.vpc, wiring.encryptionKey, launch.compatibility);
  const { definition, role } = createTask(scope, cluster, launch.compatibility, settings, wiring);
  // Managed Instances take the same kind of service as Fargate.
  const service = new FargateService(scope, 'Service', {
    cluster,
    taskDefinition: definition,
    vpcSubnets: { subnets: network.subnets },
    securityGroups: [network.securityGroup],
    assignPublicIp: settings.isPublic,
    capacityProviderStrategies: [{ capacityProvider: launch.capacityOf(scope, cluster, network), weight: 1 }],
    // New tasks are ready before old ones end. If they are never ready, the old ones stay.
    minHealthyPercent: 100,
    maxHealthyPercent: 200,
    circuitBreaker: { enable: true, rollback: true },
    // Workers receive no traffic by zone, so rebalancing would only end busy tasks and start others.
    availabilityZoneRebalancing: AvailabilityZoneRebalancing.DISABLED,
    // Tasks are billed, and have no tags of their own.
    propagateTags: PropagatedTagSource.SERVICE,
    // Each deployment would reset the number of tasks.
    desiredCount: eventSourceEnabled ? undefined : 0,
  });
  // The capacity provider must be part of the cluster before the service exists, and until the service is deleted. A
  // new service starts a task immediately, which fetches its image through the endpoints.
  service.node.addDependency(cluster, ...network.endpoints);
  const { backlogPerTask = BATCHES_PER_TASK * batching.batchSize } = settings;
  if (eventSourceEnabled) scaleByBacklog(scope, service, requestQueues, { ...settings, backlogPerTask });
  return {
    cluster,
    service,
    taskDefinition: definition,
    vpc: network.vpc,
    connections: network.securityGroup.connections,
    grantPrincipal: role,
    alarms: serviceAlarms(service, requestQueues, startSeconds),
    graphs: [
      ...serviceGraphs(service, maximumTasks),
      ...(settings.gpuCount === undefined ? [] : [gpuGraph(wiring.serviceName)]),
    ],
  };
}

const CPU_UNITS = 1024;
const HEALTH_PORT = 8080;

/** Creates a task with one worker. `BatchScoring` grants its role the other permissions. */
function createTask(
  scope: Construct,
  cluster: Cluster,
  compatibility: Compatibility,
  settings: Settings,
  wiring: Wiring,
) {
  const { architecture, vcpus, memoryMb, ephemeralStorageMb, gpuCount } = settings;
  const logGroup = settings.logGroup ?? createLogGroup(scope, 'Log', wiring);
  const description = 'Scores records: reads requests, writes results';
  const role = hostRole(scope, settings.role, 'ecs-tasks.amazonaws.com', description);
  allowProtection(role, cluster);
  const definition = new TaskDefinition(scope, 'Task', {
    compatibility,
    networkMode: NetworkMode.AWS_VPC,
    cpu: String(CPU_UNITS * vcpus),
    memoryMiB: String(memoryMb),
    taskRole: role,
    runtimePlatform: {
      cpuArchitecture: architecture.name === 'arm64' ? CpuArchitecture.ARM64 : CpuArchitecture.X86_64,
      operatingSystemFamily: OperatingSystemFamily.LINUX,
    },
    ephemeralStorageGiB: ephemeralStorageMb && ephemeralStorageMb / MIB_PER_GIB,
  });
  const { repository, tagOrDigest } = wiring.image;
  const container = definition.addContainer('Worker', {
    containerName: 'worker',
    image: ContainerImage.fromEcrRepository(repository, tagOrDigest),
    environment: {
      // Only Fargate sets the region itself.
      AWS_REGION: Stack.of(scope).region,
      ...wiring.environment,
      ...environmentOf({
        timeoutSeconds: settings.timeoutSeconds,
        visibilitySeconds: wiring.visibilityTimeoutSeconds,
        stopSeconds: settings.stopTimeoutSeconds,
        healthPort: HEALTH_PORT,
        maxPolls: settings.maxPolls,
        pipelineDepth: settings.pipelineDepth,
      }),
    },
    healthCheck: HEALTH_CHECK,
    stopTimeout: Duration.seconds(settings.stopTimeoutSeconds),
    // Scoring must not wait for a log that cannot be written.
    logging: LogDriver.awsLogs({
      logGroup,
      streamPrefix: 'worker',
      mode: AwsLogDriverMode.NON_BLOCKING,
      maxBufferSize: Size.mebibytes(25),
    }),
    gpuCount,
    readonlyRootFilesystem: true,
  });
  definition.addVolume({ name: 'tmp' });
  container.addMountPoints({ sourceVolume: 'tmp', containerPath: '/tmp', readOnly: false });
  acknowledge(definition, 'taskEnvironment');
  acknowledgeWildcard(definition, '*', 'ecrLogin');
  return { definition, role };
}

/** Health check that passes when the models are warm. Loading them may take seven minutes. */
const HEALTH_CHECK = {
  command: ['CMD', 'node', 'healthCheck.js'],
  interval: Duration.seconds(30),
  timeout: Duration.seconds(10),
  startPeriod: Duration.seconds(300),
  retries: 5,
};

/** Lets tasks set their own scale-in protection. The cluster contains no other tasks. */
function allowProtection(role: IRole, cluster: Cluster): void {
  const tasks = cluster.arnForTasks('*');
  allow(role, ['ecs:GetTaskProtection', 'ecs:UpdateTaskProtection'], [tasks]);
  acknowledgeWildcard(role, tasks, 'tasks');
}

/** Creates a cluster for one service, with task counts for its scaling and its alarms. */
function createCluster(scope: Construct, vpc: IVpc, key: IKey | undefined, compatibility: Compatibility): Cluster {
  const onFargate = compatibility === Compatibility.FARGATE;
  const diskKey = onFargate ? key : undefined;
  // The CDK adds the statement only to the policy of its own keys.
  if (diskKey !== undefined) {
    warnOfKeyPolicy(
      scope,
      diskKey,
      'diskKeyPolicy',
      'Fargate may encrypt disks with',
      'https://docs.aws.amazon.com/AmazonECS/latest/developerguide/fargate-create-storage-key.html',
    );
  }
  return new Cluster(scope, 'Cluster', {
    vpc,
    containerInsightsV2: ContainerInsights.ENABLED,
    enableFargateCapacityProviders: onFargate,
    managedStorageConfiguration: diskKey && { fargateEphemeralStorageKmsKey: diskKey },
  });
}

/** Maximum delay, in seconds, of CloudWatch metrics for a queue that was idle for six hours. */
const QUEUE_WAKES_SECONDS = 900;

/** Period of the metrics of SQS and of tasks. */
const MINUTE = Duration.minutes(1);
/** Idle minutes before tasks end. Target tracking also waits 15 minutes before it removes tasks. */
const IDLE_MINUTES = 15;
const SCALE_IN_COOLDOWN_SECONDS = 300;
const FLOOR_INTERVAL = Duration.minutes(5);

/**
 * Scales the service by three rules. Only one applies at a time. If there are messages and no task, one task
 * starts. If there are tasks and a backlog, the backlog determines their number. If there are no messages for a while,
 * all tasks end.
 */
function scaleByBacklog(
  scope: Construct,
  service: BaseService,
  requestQueues: Queues,
  settings: Settings & { readonly backlogPerTask: number },
): void {
  const { minimumTasks, maximumTasks } = settings;
  const scaling = service.autoScaleTaskCount({ minCapacity: minimumTasks, maxCapacity: maximumTasks });
  const target = scaling.node.findChild('Target');
  if (!(target instanceof ScalableTarget)) throw new Error('expected scaling to have its target as a child');
  const metrics = { ...messages(requestQueues), tasks: taskCount(service, 'DesiredTaskCount', { period: MINUTE }) };
  const backlog = sumOf(messages(requestQueues));
  wake(scope, target, backlog, metrics);
  track(scope, target, backlog, metrics, settings);
  if (minimumTasks === 0) sleep(scope, target, traffic(requestQueues));
  // Scaling alone would raise the number to the minimum only when it adds tasks for another reason.
  else scaling.scaleOnSchedule('Floor', { schedule: Schedule.rate(FLOOR_INTERVAL), minCapacity: minimumTasks });
}

type Metrics = Readonly<Record<string, Metric>>;

const AT_A_MOMENT = { period: MINUTE, statistic: Stats.MAXIMUM };

/** Returns message counts. An empty queue may have no data. */
function messages(queues: Queues): Metrics {
  return ofEach(queues, (queue) => ({
    visible: queue.metricApproximateNumberOfMessagesVisible(AT_A_MOMENT),
    inFlight: queue.metricApproximateNumberOfMessagesNotVisible(AT_A_MOMENT),
  }));
}

/**
 * Returns traffic metrics. Receives are included, because the counts of a queue, taken once a minute, miss messages
 * that are answered in milliseconds.
 */
function traffic(queues: Queues): Metrics {
  return ofEach(queues, (queue) => ({
    visible: queue.metricApproximateNumberOfMessagesVisible(AT_A_MOMENT),
    received: queue.metricNumberOfMessagesReceived({ period: MINUTE, statistic: Stats.SUM }),
  }));
}

/** Returns the metrics of each queue, by names that end in the queue's number. */
function ofEach(queues: Queues, metricsOf: (queue: IQueue) => Metrics): Metrics {
  return Object.fromEntries(
    queues.flatMap((queue, shard) => Object.entries(metricsOf(queue)).map(([id, metric]) => [`${id}${shard}`, metric])),
  );
}

function sumOf(metrics: Metrics): string {
  return `SUM([${Object.keys(metrics).join(', ')}])`;
}

function wake(scope: Construct, target: ScalableTarget, backlog: string, metrics: Metrics): void {
  const alarm = new Alarm(scope, 'Asleep', {
    alarmDescription: 'There are requests and no task is asked for: this asks for one.',
    metric: whereNone('tasks', backlog, metrics, MINUTE),
    threshold: 1,
    comparisonOperator: ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
    evaluationPeriods: 1,
    treatMissingData: TreatMissingData.NOT_BREACHING,
  });
  setOff(scope, 'WakeUp', alarm, target, { lowerBound: 0, adjustment: 1 });
}

function sleep(scope: Construct, target: ScalableTarget, usingMetrics: Metrics): void {
  const alarm = new Alarm(scope, 'Idle', {
    alarmDescription: `There has been no request for ${IDLE_MINUTES} minutes: this ends the tasks.`,
    metric: new MathExpression({ label: 'messages', expression: sumOf(usingMetrics), usingMetrics, period: MINUTE }),
    threshold: 0,
    comparisonOperator: ComparisonOperator.LESS_THAN_OR_EQUAL_TO_THRESHOLD,
    evaluationPeriods: IDLE_MINUTES,
    // A queue without data is not necessarily idle.
    treatMissingData: TreatMissingData.NOT_BREACHING,
  });
  setOff(scope, 'GoToSleep', alarm, target, { upperBound: 0, adjustment: 0 });
}

function setOff(scope: Construct, id: string, alarm: Alarm, scalingTarget: ScalableTarget, tier: AdjustmentTier): void {
  const action = new StepScalingAction(scope, id, {
    scalingTarget,
    adjustmentType: AdjustmentType.EXACT_CAPACITY,
    metricAggregationType: MetricAggregationType.MAXIMUM,
  });
  action.addAdjustment(tier);
  alarm.addAlarmAction(new ApplicationScalingAction(action));
}

/**
 * Adds target tracking with an expression, which the CDK's own does not support.
 *
 * @see https://docs.aws.amazon.com/autoscaling/application/userguide/application-auto-scaling-target-tracking-metric-math.html
 */
function track(
  scope: Construct,
  { scalableTargetId }: ScalableTarget,
  backlog: string,
  metrics: Metrics,
  { backlogPerTask, startSeconds }: { readonly backlogPerTask: number; readonly startSeconds: number },
): void {
  // A backlog of 0 would end the last task, even if it answered messages in the meantime.
  const perTask = `IF(${backlog} < 1, 1, ${backlog}) / tasks`;
  const queries = Object.entries(metrics).map(([id, { namespace, metricName, dimensions = {}, statistic: stat }]) => ({
    id,
    returnData: false,
    metricStat: {
      stat,
      metric: {
        namespace,
        metricName,
        dimensions: Object.entries(dimensions).map(([name, value]) => ({ name, value })),
      },
    },
  }));
  new CfnScalingPolicy(scope, 'Backlog', {
    policyName: Names.uniqueResourceName(scope, { separator: '-', maxLength: 200 }),
    policyType: 'TargetTrackingScaling',
    scalingTargetId: scalableTargetId,
    targetTrackingScalingPolicyConfiguration: {
      targetValue: backlogPerTask,
      scaleOutCooldown: startSeconds,
      scaleInCooldown: SCALE_IN_COOLDOWN_SECONDS,
      customizedMetricSpecification: {
        metrics: [
          { id: 'backlogPerTask', label: 'messages for each task', expression: perTask, returnData: true },
          ...queries,
        ],
      },
    },
  });
}

/** Returns an alarm on requests that wait longer than a task needs to start. */
function serviceAlarms(service: BaseService, queues: Queues, startSeconds: number): AlarmCondition[] {
  const periods = Math.ceil(startSeconds / PERIOD.toSeconds()) + 1;
  const options = { statistic: Stats.MINIMUM, period: PERIOD };
  const waitingIn = (queue: IQueue) => queue.metricApproximateNumberOfMessagesVisible(options);
  return [
    {
      id: 'BacklogWithoutTask',
      description:
        `Requests have waited for ${periods * PERIOD.toMinutes()} minutes without a task that runs through. The events of ` +
        'the service say why none starts, and the log why one ends.',
      metric: whereNone(
        'running',
        'waiting',
        {
          running: taskCount(service, 'RunningTaskCount', options),
          waiting: together('SUM', queues, waitingIn),
        },
        PERIOD,
      ),
      evaluationPeriods: periods,
    },
  ];
}

function serviceGraphs(service: BaseService, maximumTasks: number): Graph[] {
  return [
    {
      title: `Tasks, of at most ${maximumTasks}`,
      left: [
        taskCount(service, 'DesiredTaskCount', { ...AT_MOST, label: 'asked for' }),
        taskCount(service, 'RunningTaskCount', { ...AT_MOST, label: 'running' }),
        taskCount(service, 'PendingTaskCount', { ...AT_MOST, label: 'starting' }),
      ],
    },
    {
      title: 'CPU and memory of the tasks: %',
      left: [
        service.metricCpuUtilization({ period: PERIOD, label: 'CPU' }),
        service.metricMemoryUtilization({ period: PERIOD, label: 'memory' }),
        service.metricMemoryUtilization({ ...AT_MOST, label: 'memory, at most' }),
      ],
    },
  ];
}

function gpuGraph(serviceName: string): Graph {
  return {
    title: 'GPUs: %',
    left: [
      scoringMetric(serviceName, 'GpuUtilization', { label: 'time in use' }),
      scoringMetric(serviceName, 'GpuMemoryUtilization', { label: 'memory' }),
      scoringMetric(serviceName, 'GpuMemoryUtilization', { label: 'memory, at most', statistic: Stats.MAXIMUM }),
    ],
    leftYAxis: { min: 0, max: 100 },
  };
}

type TaskCount = 'DesiredTaskCount' | 'RunningTaskCount' | 'PendingTaskCount';

/** @see https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/Container-Insights-metrics-ECS.html */
function taskCount(service: BaseService, metricName: TaskCount, options: MetricOptions): Metric {
  const { clusterName } = service.cluster;
  return new Metric({
    namespace: 'ECS/ContainerInsights',
    metricName,
    dimensionsMap: { ClusterName: clusterName, ServiceName: service.serviceName },
    ...options,
  });
}

/**
 * Returns an expression for the number of messages if there is no task, else 0. A missing task count means no task,
 * because an idle service must start even if its tasks are not counted. `SUM` ignores missing values, while `FILL`
 * returns nothing if a metric has no value at all.
 *
 * @param tasks ID of the task count in the metrics
 * @param messages expression of the other metrics
 */
function whereNone(
  tasks: string,
  messages: string,
  usingMetrics: Readonly<Record<string, IMetric>>,
  period: Duration,
): MathExpression {
  const { [tasks]: _, ...others } = usingMetrics;
  const none = new MathExpression({ expression: `0 * ${messages}`, usingMetrics: others, period });
  return new MathExpression({
    label: 'messages without a task',
    expression: `IF(SUM([${tasks}, none]) < 1, ${messages}, 0)`,
    usingMetrics: { ...usingMetrics, none },
    period,
  });
}
