import { type IAlarm, Stats } from 'aws-cdk-lib/aws-cloudwatch';
import {
  LambdaDeploymentConfig,
  LambdaDeploymentGroup,
  TimeBasedLinearTrafficRouting,
  type TrafficRouting,
} from 'aws-cdk-lib/aws-codedeploy';
import { type ISecurityGroup, type IVpc, Peer, Port, SecurityGroup, type SubnetSelection } from 'aws-cdk-lib/aws-ec2';
import {
  Effect,
  type IGrantable,
  type IRole,
  Policy,
  PolicyStatement,
  Role,
  ServicePrincipal,
} from 'aws-cdk-lib/aws-iam';
import {
  Alias,
  ApplicationLogLevel,
  type Architecture,
  DockerImageCode,
  DockerImageFunction,
  type DockerImageFunctionProps,
  FileSystem,
  type FunctionOptions,
  type IFunction,
  type Function as LambdaFunction,
  LoggingFormat,
  Tracing,
  type VersionOptions,
} from 'aws-cdk-lib/aws-lambda';
import type { ILogGroup } from 'aws-cdk-lib/aws-logs';
import { Duration, Size } from 'aws-cdk-lib/core';
import type { Construct } from 'constructs';
import { createLogGroup } from '../common/created.ts';
import { refuseForeignRole } from '../common/given.ts';
import { type AlarmCondition, type Graph, PERIOD } from '../common/metrics.ts';
import { type EfsModels, MOUNT_PATH } from '../common/models.ts';
import { acknowledgeManagedPolicy, acknowledgeWildcard } from '../common/nag.ts';
import { brokenOf, exceeds, handedOn, known, outside, type Problem, unknownAtSynth } from '../common/problems.ts';
import { minutesOf } from '../common/units.ts';
import type { Wiring } from './compute.ts';
import { type Concurrency, feedFromQueues, grantSwitch } from './eventSource.ts';
import { warnOfIsolation } from './privateNetwork.ts';

/** Your own resources for a function. */
export interface FunctionResources {
  /**
   * Role of the function, which gets all permissions. Lambda must be allowed to assume it. For a role of another stack,
   * give its ARN with `Role.fromRoleArn`, so that its policy is part of this stack.
   * @default a new one with only the permissions for scoring
   */
  readonly role?: IRole | undefined;
  /** Log group of the function, with its own retention, key and removal policy. @default a new one */
  readonly logGroup?: ILogGroup | undefined;
  /** Additional options of the function, such as `functionName`. @default the CDK's own */
  readonly functionProps?: MoreFunctionProps | undefined;
}

/** Function options that no guarantee of the construct depends on. */
export type MoreFunctionProps = Pick<DockerImageFunctionProps, (typeof FREE)[number]>;
const FREE = ['functionName', 'description', 'initialPolicy', 'recursiveLoop', 'systemLogLevelV2'] as const;

interface ScoringFunctionOptions extends FunctionResources {
  readonly architecture: Architecture;
  readonly memoryMb: number;
  readonly timeoutSeconds: number;
  /** MiB of `/tmp`. @default 512, which is Lambda's own */
  readonly ephemeralStorageMb?: number | undefined;
  readonly reservedConcurrency?: number | undefined;
  /** Network that the function is attached to. @default none: the function reaches AWS without one */
  readonly network?: FunctionNetwork | undefined;
  /**
   * Command of the image to run, such as `jobScore.handler`.
   * @default the image's own command, which scores messages
   */
  readonly entry?: { readonly command: string; readonly description: string } | undefined;
}

export type FunctionWiring = Pick<
  Wiring,
  'image' | 'models' | 'environment' | 'encryptionKey' | 'logRetention' | 'logLevel' | 'tracing' | 'removalPolicy'
>;

/**
 * Creates a function of the image, for both kinds of Lambda compute and for jobs. Its role may only write the log. The
 * caller grants the other permissions.
 */
export function createScoringFunction(
  scope: Construct,
  options: ScoringFunctionOptions,
  wiring: FunctionWiring,
  currentVersionOptions: VersionOptions = {},
): DockerImageFunction {
  const { network = {}, entry } = options;
  const logGroup = options.logGroup ?? createLogGroup(scope, 'Log', wiring);
  refuseForeignRole(scope, options.role);
  const role =
    options.role ??
    new Role(scope, 'Role', {
      assumedBy: new ServicePrincipal('lambda.amazonaws.com'),
      description:
        entry === undefined ? 'Scores records: reads requests, writes results' : `Function that ${entry.description}`,
    });
  logGroup.grantWrite(role);
  if (wiring.tracing) acknowledgeWildcard(role, '*', 'traces');
  const scoringFunction = new DockerImageFunction(scope, 'Function', {
    description: `batchscore: ${entry?.description ?? 'scores records from SQS in batches'}`,
    code: DockerImageCode.fromEcr(wiring.image.repository, {
      tagOrDigest: wiring.image.tagOrDigest,
      ...(entry !== undefined && { cmd: [entry.command] }),
    }),
    architecture: options.architecture,
    memorySize: options.memoryMb,
    timeout: Duration.seconds(options.timeoutSeconds),
    environment: { ...wiring.environment },
    logGroup,
    loggingFormat: LoggingFormat.JSON,
    role,
    currentVersionOptions,
    ...attachTo(scope, role, network),
    ...(wiring.models.efs !== undefined && { filesystem: new ReadOnlyFileSystem(wiring.models.efs) }),
    // Lambda drops log lines below this level. Metrics have no level and count as info, so it must not be higher than
    // info.
    ...(wiring.logLevel === 'debug' && { applicationLogLevelV2: ApplicationLogLevel.DEBUG }),
    ...(wiring.tracing && { tracing: Tracing.ACTIVE }),
    ...(wiring.encryptionKey !== undefined && { environmentEncryption: wiring.encryptionKey }),
    ...(options.ephemeralStorageMb !== undefined && {
      ephemeralStorageSize: Size.mebibytes(options.ephemeralStorageMb),
    }),
    ...(options.reservedConcurrency !== undefined && { reservedConcurrentExecutions: options.reservedConcurrency }),
    ...handedOn('functionProps', options.functionProps, (key) => FREE.some((free) => free === key)),
  });
  if (network.vpc !== undefined) keepCodeFromNetwork(scope, role, scoringFunction);
  return scoringFunction;
}

export interface FunctionNetwork {
  readonly vpc?: IVpc | undefined;
  readonly subnets?: SubnetSelection | undefined;
  readonly securityGroups?: readonly ISecurityGroup[] | undefined;
}

const HTTPS = Port.tcp(443);

/**
 * Actions of Lambda, with the function's role, that attach it to a network. The Describe actions have no resources, and
 * the others none that are known beforehand.
 *
 * @see https://docs.aws.amazon.com/lambda/latest/dg/configuration-vpc.html
 */
const ATTACH = [
  'ec2:CreateNetworkInterface',
  'ec2:DescribeNetworkInterfaces',
  'ec2:DescribeSubnets',
  'ec2:DeleteNetworkInterface',
  'ec2:AssignPrivateIpAddresses',
  'ec2:UnassignPrivateIpAddresses',
];

/** Lets Lambda attach a function with this role to the network. @returns the function's options */
function attachTo(
  scope: Construct,
  role: IRole,
  { vpc, subnets, securityGroups }: FunctionNetwork,
): Pick<FunctionOptions, 'vpc' | 'vpcSubnets' | 'securityGroups'> {
  if (vpc === undefined) return {};
  warnOfIsolation(scope, vpc, subnets);
  role.addToPrincipalPolicy(new PolicyStatement({ actions: ATTACH, resources: ['*'] }));
  acknowledgeWildcard(role, '*', 'interfaces');
  return {
    vpc,
    ...(subnets !== undefined && { vpcSubnets: subnets }),
    securityGroups: [...(securityGroups ?? [createSecurityGroup(scope, vpc)])],
  };
}

/** Creates a group that allows only HTTPS out, because a function calls only AWS services. */
function createSecurityGroup(scope: Construct, vpc: IVpc): SecurityGroup {
  const securityGroup = new SecurityGroup(scope, 'SecurityGroup', {
    vpc,
    description: 'Scoring function: it calls AWS services, nothing calls it',
    allowAllOutbound: false,
  });
  securityGroup.addEgressRule(Peer.anyIpv4(), HTTPS, 'AWS services');
  return securityGroup;
}

/**
 * Denies the function's own code the permissions that Lambda needs. The condition does not match Lambda's own calls.
 * This policy is created after the function, because it contains the function's name.
 *
 * @see https://docs.aws.amazon.com/lambda/latest/dg/permissions-source-function-arn.html
 */
function keepCodeFromNetwork(scope: Construct, role: IRole, { functionArn }: IFunction): void {
  const policy = new Policy(scope, 'CodeKeepsOffNetwork', {
    statements: [
      new PolicyStatement({
        effect: Effect.DENY,
        actions: ATTACH,
        resources: ['*'],
        conditions: { ArnEquals: { 'lambda:SourceFunctionArn': functionArn } },
      }),
    ],
  });
  role.attachInlinePolicy(policy);
}

/** File system that a function mounts read-only. The CDK's own `fromEfsAccessPoint` grants write access. */
class ReadOnlyFileSystem extends FileSystem {
  constructor({ accessPoint }: EfsModels) {
    const { accessPointArn, fileSystem } = accessPoint;
    super({
      localMountPath: MOUNT_PATH,
      arn: accessPointArn,
      dependency: [fileSystem.mountTargetsAvailable],
      connections: fileSystem.connections,
      policies: [
        new PolicyStatement({
          actions: ['elasticfilesystem:ClientMount'],
          resources: [fileSystem.fileSystemArn],
          conditions: { StringEquals: { 'elasticfilesystem:AccessPointArn': accessPointArn } },
        }),
      ],
    });
  }
}

/**
 * Returns the parts that functions on CPUs and on GPUs share.
 * @param target function or alias that the mappings invoke
 */
export function functionParts(
  scoringFunction: DockerImageFunction,
  target: IFunction,
  settings: Concurrency & { readonly timeoutSeconds: number },
  wiring: Wiring,
) {
  const { eventSourceMappings, graph } = feedFromQueues(target, wiring, settings);
  return {
    function: scoringFunction,
    eventSourceMappings,
    grantPrincipal: target.grantPrincipal,
    grantSwitch: (grantee: IGrantable) => grantSwitch(grantee, scoringFunction, eventSourceMappings),
    alarms: functionAlarms(target),
    graphs: [functionGraph(target, settings.timeoutSeconds), graph],
  };
}

/**
 * Periods of an alarm on throttles. SQS retries after a burst, so only lasting throttles use up the receives of
 * messages.
 */
const THROTTLED_PERIODS = 3;

function functionAlarms(target: IFunction): AlarmCondition[] {
  return [
    {
      id: 'FunctionErrors',
      description:
        'An invocation crashed, or ran out of time or memory, and all its records went back to SQS. Read the log for ' +
        'the reason: after a timeout lower the batch size, out of memory raise the memory.',
      metric: target.metricErrors({ statistic: Stats.SUM, period: PERIOD }),
      threshold: 0,
      periods: 1,
      blamesVersion: true,
    },
    {
      id: 'FunctionThrottles',
      description:
        'Invocations have been refused for lack of concurrency for a quarter of an hour. Every refusal counts as a ' +
        'receive of its messages. Raise the reserved concurrency or the account quota, or lower the maximum concurrency.',
      metric: target.metricThrottles({ statistic: Stats.SUM, period: PERIOD }),
      threshold: 0,
      periods: THROTTLED_PERIODS,
    },
  ];
}

export function functionGraph(target: IFunction, timeoutSeconds: number): Graph {
  const sum = { statistic: Stats.SUM, period: PERIOD };
  return {
    title: `Invocations, and how long they take of ${timeoutSeconds} s`,
    left: [
      target.metricInvocations({ ...sum, label: 'invocations' }),
      target.metricErrors({ ...sum, label: 'crashed' }),
      target.metricThrottles({ ...sum, label: 'throttled' }),
    ],
    right: [
      target.metricDuration({ statistic: Stats.p(50), period: PERIOD, label: 'ms, p50' }),
      target.metricDuration({ statistic: Stats.p(99), period: PERIOD, label: 'ms, p99' }),
    ],
  };
}

const MANAGED_POLICY = 'service-role/AWSCodeDeployRoleForLambdaLimited';

/** Creates the alias of the published version, with warm environments if requested. */
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
 * Makes CodeDeploy shift the alias to a new version in steps, and back if one of the alarms goes off.
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
  acknowledgeManagedPolicy(role, MANAGED_POLICY, 'CodeDeploy needs to shift the traffic of a function');
}

/** Options for a published version: warm environments, and the shift from the version before. */
export interface Rollout {
  readonly provisionedConcurrency?: number | undefined;
  readonly trafficRouting?: TrafficRouting | undefined;
}

/** Two periods of the alarms that roll a deployment back. */
const MIN_MINUTES = 10;
/** @see https://docs.aws.amazon.com/codedeploy/latest/userguide/limits.html */
const MAX_MINUTES = 2880;

/**
 * Returns problems with options that the services refuse, that are billed but never used, or whose steps are too short
 * for alarms.
 *
 * @see https://docs.aws.amazon.com/lambda/latest/dg/provisioned-concurrency.html
 */
export function rolloutProblems(
  { provisionedConcurrency: provisioned, trafficRouting }: Rollout,
  { reservedConcurrency, maximumConcurrency }: Concurrency,
): Problem[] {
  const steps = trafficRouting && isInSteps(trafficRouting) ? trafficRouting : undefined;
  const interval = minutesOf('trafficRouting.interval', steps?.interval);
  const minutes = steps && interval && known(steps.percentage) && interval * stepsOf(steps);
  return [
    outside('provisionedConcurrency', provisioned, { min: 1, max: 100_000 }),
    unknownAtSynth('trafficRouting.percentage', steps?.percentage),
    outside('trafficRouting.percentage', steps?.percentage, { min: 1, max: 99 }),
    ...brokenOf([
      [
        exceeds(provisioned, reservedConcurrency),
        `provisionedConcurrency: expected at most reservedConcurrency, ${reservedConcurrency}, of which it is a part, ` +
          `got ${provisioned}; lower it or raise reservedConcurrency`,
      ],
      [
        exceeds(provisioned, maximumConcurrency),
        `provisionedConcurrency: expected at most maximumConcurrency, ${maximumConcurrency}, because SQS starts no more ` +
          `invocations at a time, got ${provisioned}; lower it or raise maximumConcurrency`,
      ],
      [
        trafficRouting !== undefined && steps === undefined,
        'trafficRouting: expected a canary or linear steps, got all at once, which no alarm can undo; leave it out or ' +
          'take TrafficRouting.timeBasedCanary',
      ],
    ]),
    exceeds(MIN_MINUTES, minutes)
      ? `trafficRouting.interval: expected at least ${MIN_MINUTES} minutes from the first step to the last, two periods of the alarms ` +
        `that undo a deployment, got ${minutes}; raise it`
      : outside('trafficRouting.interval', minutes, { min: MIN_MINUTES, max: MAX_MINUTES }, 'minutes'),
  ];
}

/** Returns the percent of the invocations that a new version gets first. 100 if it takes over immediately. */
export function firstStepPercent({ trafficRouting }: Rollout): number {
  return (trafficRouting && isInSteps(trafficRouting) && known(trafficRouting.percentage)) || 100;
}

type InSteps = TrafficRouting & Pick<TimeBasedLinearTrafficRouting, 'interval' | 'percentage'>;

function isInSteps(trafficRouting: TrafficRouting): trafficRouting is InSteps {
  return 'interval' in trafficRouting && 'percentage' in trafficRouting;
}

/** Returns the number of steps after the first: one for a canary, one for each further share of a linear shift. */
function stepsOf(steps: InSteps): number {
  return steps instanceof TimeBasedLinearTrafficRouting ? Math.max(1, Math.ceil(100 / steps.percentage) - 1) : 1;
}
