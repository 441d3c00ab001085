import { Duration, Size } from 'aws-cdk-lib';
import { Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import {
  ApplicationLogLevel,
  type Architecture,
  DockerImageCode,
  DockerImageFunction,
  LoggingFormat,
  Tracing,
  type VersionOptions,
} from 'aws-cdk-lib/aws-lambda';
import type { Construct } from 'constructs';
import { acknowledgeWildcard } from '../base/acknowledge.ts';
import { createLogGroup } from '../base/logGroup.ts';
import type { Wiring } from './compute.ts';

export interface FunctionSize {
  readonly architecture: Architecture;
  readonly memoryMb: number;
  readonly timeoutSeconds: number;
  /** Of `/tmp`, in MiB. @default 512, which is Lambda's own */
  readonly ephemeralStorageMb?: number | undefined;
  readonly reservedConcurrency?: number | undefined;
}

/** The function of both kinds of Lambda compute. Its role may only write its own log; everything else is granted. */
export function createScoringFunction(
  scope: Construct,
  size: FunctionSize,
  wiring: Wiring,
  currentVersionOptions: VersionOptions = {},
): DockerImageFunction {
  const logGroup = createLogGroup(scope, 'Log', wiring);
  const role = new Role(scope, 'Role', {
    assumedBy: new ServicePrincipal('lambda.amazonaws.com'),
    description: 'Scores records: reads requests, writes results',
  });
  logGroup.grantWrite(role);
  if (wiring.tracing) acknowledgeWildcard(role, '*', 'The permission to send traces knows no resources');
  return new DockerImageFunction(scope, 'Function', {
    description: 'batchscore: scores records from SQS in batches',
    code: DockerImageCode.fromEcr(wiring.image.repository, { tagOrDigest: wiring.image.tagOrDigest }),
    architecture: size.architecture,
    memorySize: size.memoryMb,
    timeout: Duration.seconds(size.timeoutSeconds),
    environment: { ...wiring.environment },
    logGroup,
    loggingFormat: LoggingFormat.JSON,
    role,
    currentVersionOptions,
    // Lambda drops what is below its own level, and counts metrics, which have none, as info: it must not be above that.
    ...(wiring.logLevel === 'debug' && { applicationLogLevelV2: ApplicationLogLevel.DEBUG }),
    ...(wiring.tracing && { tracing: Tracing.ACTIVE }),
    ...(wiring.encryptionKey !== undefined && { environmentEncryption: wiring.encryptionKey }),
    ...(size.ephemeralStorageMb !== undefined && { ephemeralStorageSize: Size.mebibytes(size.ephemeralStorageMb) }),
    ...(size.reservedConcurrency !== undefined && { reservedConcurrentExecutions: size.reservedConcurrency }),
  });
}
