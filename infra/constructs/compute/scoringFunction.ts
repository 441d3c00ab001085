import { Duration, Size } from 'aws-cdk-lib';
import { type IRole, Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import {
  ApplicationLogLevel,
  type Architecture,
  DockerImageCode,
  DockerImageFunction,
  LoggingFormat,
  Tracing,
  type VersionOptions,
} from 'aws-cdk-lib/aws-lambda';
import type { ILogGroup } from 'aws-cdk-lib/aws-logs';
import type { Construct } from 'constructs';
import { acknowledgeWildcard } from '../base/acknowledge.ts';
import { createLogGroup } from '../base/logGroup.ts';
import { refuseForeignRole } from '../checks/elsewhere.ts';
import type { Wiring } from './compute.ts';
import { ReadOnlyFileSystem } from './fileSystem.ts';
import { attachTo, type FunctionNetwork, keepCodeFromNetwork } from './functionNetwork.ts';

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
}

/**
 * The function of both kinds of Lambda compute, with the image and the environment of its wiring. Its role may only write
 * the log; `BatchScoring` grants everything else to the `grantPrincipal` of the compute.
 */
export function createScoringFunction(
  scope: Construct,
  options: ScoringFunctionOptions,
  wiring: Wiring,
  currentVersionOptions: VersionOptions = {},
): DockerImageFunction {
  const { network = {} } = options;
  const logGroup = options.logGroup ?? createLogGroup(scope, 'Log', wiring);
  refuseForeignRole(scope, options.role);
  const role = options.role ?? createRole(scope);
  logGroup.grantWrite(role);
  if (wiring.tracing) acknowledgeWildcard(role, '*', 'The permission to send traces knows no resources');
  const scoringFunction = new DockerImageFunction(scope, 'Function', {
    description: 'batchscore: scores records from SQS in batches',
    code: DockerImageCode.fromEcr(wiring.image.repository, { tagOrDigest: wiring.image.tagOrDigest }),
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

function createRole(scope: Construct): Role {
  return new Role(scope, 'Role', {
    assumedBy: new ServicePrincipal('lambda.amazonaws.com'),
    description: 'Scores records: reads requests, writes results',
  });
}
