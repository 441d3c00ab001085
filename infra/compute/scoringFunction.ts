import { Duration, Size } from 'aws-cdk-lib';
import { type ISecurityGroup, type IVpc, Peer, Port, SecurityGroup, type SubnetSelection } from 'aws-cdk-lib/aws-ec2';
import { Effect, type IRole, Policy, PolicyStatement, Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import {
  ApplicationLogLevel,
  type Architecture,
  DockerImageCode,
  DockerImageFunction,
  FileSystem,
  type FunctionOptions,
  type IFunction,
  LoggingFormat,
  Tracing,
  type VersionOptions,
} from 'aws-cdk-lib/aws-lambda';
import type { ILogGroup } from 'aws-cdk-lib/aws-logs';
import type { Construct } from 'constructs';
import { acknowledgeWildcard } from '../constructs/acknowledge.ts';
import { createLogGroup } from '../constructs/created.ts';
import { refuseForeignRole } from '../constructs/existingThings.ts';
import { type EfsModels, MOUNT_PATH } from '../constructs/modelPlace.ts';
import type { Wiring } from './compute.ts';

/** What a function is given of its own; undefined is left to the default. */
export interface FunctionResources {
  /**
   * The role that the function runs with, which everything is granted to. Lambda must be allowed to assume it. One of
   * another stack is given by its ARN, `Role.fromRoleArn`: its policy is then part of this stack.
   * @default a new one, which may do what scoring needs and nothing else
   */
  readonly role?: IRole | undefined;
  /**
   * Where the function logs. Retention, key and removal policy are its own.
   * @default a new one
   */
  readonly logGroup?: ILogGroup | undefined;
}

export interface ScoringFunctionOptions extends FunctionResources {
  readonly architecture: Architecture;
  readonly memoryMb: number;
  readonly timeoutSeconds: number;
  /** Of `/tmp`, in MiB. @default 512, which is Lambda's own */
  readonly ephemeralStorageMb?: number | undefined;
  readonly reservedConcurrency?: number | undefined;
  /** What the function is attached to. @default no network: it reaches AWS as it is */
  readonly network?: FunctionNetwork | undefined;
  /** What of the image is run, such as `jobScore.handler`. @default the image's own command, the scoring of messages */
  readonly entry?: FunctionEntry | undefined;
}

/** Another entry of the image, with what it is for. */
interface FunctionEntry {
  readonly command: string;
  readonly description: string;
}

/** What such a function is connected to. */
export type FunctionWiring = Pick<
  Wiring,
  'image' | 'models' | 'environment' | 'encryptionKey' | 'logRetention' | 'logLevel' | 'tracing' | 'removalPolicy'
>;

const SCORING = {
  description: 'batchscore: scores records from SQS in batches',
  role: 'Scores records: reads requests, writes results',
};

/**
 * A function of the image: that of both kinds of Lambda compute, or one of jobs. Its role may only write the log; who
 * creates it grants everything else.
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
  const role = options.role ?? createRole(scope, entry);
  logGroup.grantWrite(role);
  if (wiring.tracing) acknowledgeWildcard(role, '*', 'The permission to send traces knows no resources');
  const scoringFunction = new DockerImageFunction(scope, 'Function', {
    description: entry === undefined ? SCORING.description : `batchscore: ${entry.description}`,
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
    // Lambda drops what is below its own level, and counts metrics, which have none, as info: it must not be above that.
    ...(wiring.logLevel === 'debug' && { applicationLogLevelV2: ApplicationLogLevel.DEBUG }),
    ...(wiring.tracing && { tracing: Tracing.ACTIVE }),
    ...(wiring.encryptionKey !== undefined && { environmentEncryption: wiring.encryptionKey }),
    ...(options.ephemeralStorageMb !== undefined && {
      ephemeralStorageSize: Size.mebibytes(options.ephemeralStorageMb),
    }),
    ...(options.reservedConcurrency !== undefined && { reservedConcurrentExecutions: options.reservedConcurrency }),
  });
  if (network.vpc !== undefined) keepCodeFromNetwork(scope, role, scoringFunction);
  return scoringFunction;
}

function createRole(scope: Construct, entry: FunctionEntry | undefined): Role {
  return new Role(scope, 'Role', {
    assumedBy: new ServicePrincipal('lambda.amazonaws.com'),
    description: entry === undefined ? SCORING.role : `Function that ${entry.description}`,
  });
}

/** The network that a function is attached to, if any. */
export interface FunctionNetwork {
  readonly vpc?: IVpc | undefined;
  readonly subnets?: SubnetSelection | undefined;
  readonly securityGroups?: readonly ISecurityGroup[] | undefined;
}

const HTTPS = Port.tcp(443);

/**
 * What Lambda does with the function's role to attach it to a network. The descriptions know no resources, and the
 * others none that exist before.
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
  role.addToPrincipalPolicy(new PolicyStatement({ actions: ATTACH, resources: ['*'] }));
  acknowledgeWildcard(role, '*', 'Lambda makes the network interfaces, whose names nobody knows before');
  return {
    vpc,
    ...(subnets !== undefined && { vpcSubnets: subnets }),
    securityGroups: [...(securityGroups ?? [createSecurityGroup(scope, vpc)])],
  };
}

/** Everything that a function calls is an AWS service. */
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
 * Denies a function's own code what Lambda may do with its role. Lambda makes these calls from outside, which the
 * condition does not match. The policy is not one of those that the function is created after, as it names the function.
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

/** A file system that a function mounts and may not write to: the CDK's own `fromEfsAccessPoint` lets it. */
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
