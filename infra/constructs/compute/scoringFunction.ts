import { Duration } from 'aws-cdk-lib';
import { Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import { Architecture, DockerImageCode, DockerImageFunction, type VersionOptions } from 'aws-cdk-lib/aws-lambda';
import type { Construct } from 'constructs';
import { createLogGroup } from '../base/logGroup.ts';
import type { Wiring } from './compute.ts';

export interface FunctionSize {
  readonly architecture: 'arm64' | 'x86_64';
  readonly memoryMb: number;
  readonly timeoutSeconds: number;
  readonly reservedConcurrency?: number | undefined;
}

const ARCHITECTURES = { arm64: Architecture.ARM_64, x86_64: Architecture.X86_64 };

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
  return new DockerImageFunction(scope, 'Function', {
    description: 'batchscore: scores records from SQS in batches',
    code: DockerImageCode.fromEcr(wiring.image.repository, { tagOrDigest: wiring.image.tagOrDigest }),
    architecture: ARCHITECTURES[size.architecture],
    memorySize: size.memoryMb,
    timeout: Duration.seconds(size.timeoutSeconds),
    environment: { ...wiring.environment },
    logGroup,
    role,
    currentVersionOptions,
    ...(wiring.encryptionKey !== undefined && { environmentEncryption: wiring.encryptionKey }),
    ...(size.reservedConcurrency !== undefined && { reservedConcurrentExecutions: size.reservedConcurrency }),
  });
}
