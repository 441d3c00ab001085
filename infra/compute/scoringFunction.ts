import { Stats } from 'aws-cdk-lib/aws-cloudwatch';
import { Effect, type IGrantable, type IRole, Policy, PolicyStatement } from 'aws-cdk-lib/aws-iam';
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
import { hostRole } from '../common/given.ts';
import { allow } from '../common/grants.ts';
import { type AlarmCondition, type Graph, PERIOD, SUM } from '../common/metrics.ts';
import { type EfsModels, MOUNT_PATH } from '../common/models.ts';
import { acknowledgeWildcard } from '../common/nag.ts';
import { known, refuse } from '../common/problems.ts';
import type { Wiring } from './compute.ts';
import { type Concurrency, feedFromQueues, grantSwitch } from './eventSource.ts';
import { createHostGroup, type FunctionNetwork, type MainService, warnOfIsolation } from './privateNetwork.ts';

/** Your own resources for a function. */
export interface FunctionResources {
  /**
   * Role of the function, which gets all permissions. Lambda must be allowed to assume it.
   * @default a new one with only the permissions for scoring
   */
  readonly role?: IRole;
  /** Log group of the function, with its own retention, key and removal policy. @default a new one */
  readonly logGroup?: ILogGroup;
  /** Additional options of the function, such as `functionName`. @default the CDK's own */
  readonly functionProps?: MoreFunctionProps;
}

/** Function options that no guarantee of the construct depends on. */
export type MoreFunctionProps = Pick<
  DockerImageFunctionProps,
  'functionName' | 'description' | 'initialPolicy' | 'recursiveLoop' | 'systemLogLevelV2'
>;

export interface ScoringFunctionOptions extends FunctionResources {
  readonly architecture: Architecture;
  readonly memoryMb: number;
  readonly timeoutSeconds: number;
  /** MiB of `/tmp`. @default 512, which is Lambda's own */
  readonly ephemeralStorageMb?: number | undefined;
  readonly reservedConcurrency?: number | undefined;
  /** Network that the function is attached to. @default none: the function reaches AWS without one */
  readonly network?: FunctionNetwork;
  /** Command of the image, such as `jobScore.handler`. @default the image's own, which scores messages */
  readonly command?: string;
  /** @default 'scores records from SQS in batches' */
  readonly does?: string;
  /** Service that it must reach. @default 'SQS' */
  readonly calls?: MainService;
  /** @default the CDK's own */
  readonly currentVersionOptions?: VersionOptions;
}

/**
 * Creates a function of the image, for both kinds of Lambda compute and for jobs. Its role may only write the log. The
 * caller grants the other permissions.
 */
export function createScoringFunction(
  scope: Construct,
  options: ScoringFunctionOptions,
  wiring: Wiring,
): DockerImageFunction {
  const { network = {}, command, does = 'scores records from SQS in batches', ephemeralStorageMb } = options;
  const { efs } = wiring.models;
  const logGroup = options.logGroup ?? createLogGroup(scope, 'Log', wiring);
  const role = hostRole(scope, options.role, 'lambda.amazonaws.com', `Function that ${does}`);
  logGroup.grantWrite(role);
  if (wiring.tracing) acknowledgeWildcard(role, '*', 'traces');
  const scoringFunction = new DockerImageFunction(scope, 'Function', {
    ...options.functionProps,
    description: options.functionProps?.description ?? `batchscore: ${does}`,
    code: DockerImageCode.fromEcr(wiring.image.repository, {
      tagOrDigest: wiring.image.tagOrDigest,
      cmd: command === undefined ? undefined : [command],
    }),
    architecture: options.architecture,
    memorySize: options.memoryMb,
    timeout: Duration.seconds(options.timeoutSeconds),
    environment: fittingEnvironment(wiring.environment),
    environmentEncryption: wiring.encryptionKey,
    ephemeralStorageSize: ephemeralStorageMb === undefined ? undefined : Size.mebibytes(ephemeralStorageMb),
    reservedConcurrentExecutions: options.reservedConcurrency,
    role,
    logGroup,
    loggingFormat: LoggingFormat.JSON,
    // Lambda drops log lines below this level. Metrics have no level and count as info, so it must not be higher than
    // info.
    applicationLogLevelV2: wiring.logLevel === 'debug' ? ApplicationLogLevel.DEBUG : undefined,
    tracing: wiring.tracing ? Tracing.ACTIVE : undefined,
    filesystem: efs && new ReadOnlyFileSystem(efs),
    currentVersionOptions: options.currentVersionOptions,
    ...attachTo(scope, role, network, options.calls),
  });
  if (network.vpc !== undefined) keepCodeFromNetwork(scope, role, scoringFunction);
  return scoringFunction;
}

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
  service: MainService | undefined,
): Pick<FunctionOptions, 'vpc' | 'vpcSubnets' | 'securityGroups'> {
  const network = { vpc, vpcSubnets: subnets, securityGroups: securityGroups && [...securityGroups] };
  if (vpc === undefined) return network;
  warnOfIsolation(scope, vpc, subnets, service);
  allow(role, ATTACH, ['*']);
  acknowledgeWildcard(role, '*', 'interfaces');
  return { ...network, securityGroups: network.securityGroups ?? [createHostGroup(scope, 'SecurityGroup', vpc)] };
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

function functionAlarms(target: IFunction): AlarmCondition[] {
  return [
    {
      id: 'FunctionErrors',
      description: 'An invocation crashed, or ran out of time or memory, and all its records went back to SQS.',
      metric: target.metricErrors(SUM),
      blamesVersion: true,
    },
    {
      id: 'FunctionThrottles',
      description:
        'Invocations have been refused for lack of concurrency for a quarter of an hour. Every refusal counts as a ' +
        'receive of its messages.',
      metric: target.metricThrottles(SUM),
      evaluationPeriods: 3,
    },
  ];
}

export function functionGraph(target: IFunction, timeoutSeconds: number): Graph {
  return {
    title: `Invocations, and how long they take of ${timeoutSeconds} s`,
    left: [
      target.metricInvocations({ ...SUM, label: 'invocations' }),
      target.metricErrors({ ...SUM, label: 'crashed' }),
      target.metricThrottles({ ...SUM, label: 'throttled' }),
    ],
    right: [
      target.metricDuration({ statistic: Stats.p(50), period: PERIOD, label: 'ms, p50' }),
      target.metricDuration({ statistic: Stats.p(99), period: PERIOD, label: 'ms, p99' }),
    ],
  };
}

/** @see https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html */
const MAX_ENVIRONMENT_BYTES = 4096;

/** Returns the variables. @throws ValidationError if they are too large for Lambda, even without what tokens stand for */
function fittingEnvironment(environment: Readonly<Record<string, string>>): Record<string, string> {
  const texts = Object.entries(environment).flatMap(([name, value]) => [name, known(value) ?? '']);
  const bytes = Buffer.byteLength(texts.join(''));
  refuse([
    bytes > MAX_ENVIRONMENT_BYTES &&
      `environment: expected names and values of at most ${MAX_ENVIRONMENT_BYTES} bytes, with those that the construct sets, got ` +
        `${bytes}; put long values into a parameter or an object`,
  ]);
  return { ...environment };
}

/** Creates the alias of the published version, with warm environments if requested. */
export function createLiveAlias(
  scope: Construct,
  scoringFunction: LambdaFunction,
  provisionedConcurrentExecutions?: number,
): Alias {
  const version = scoringFunction.currentVersion;
  return new Alias(scope, 'Live', { aliasName: 'live', version, provisionedConcurrentExecutions });
}
